#ifndef SKIFF_TOOLS_COMMON_SERVICE_MANAGER_H_
#define SKIFF_TOOLS_COMMON_SERVICE_MANAGER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::tools {

// Tells whoever started this process how it is, as sd_notify(3) does: systemd,
// podman, or others that set NOTIFY_SOCKET. Where that is not set, nothing
// happens, and all functions succeed.
//
// The protocol is stable and documented in sd_notify(3): one datagram of
// "NAME=value" lines. So libsystemd, with what it loads, is not in processes
// that run without systemd.
//
// Thread-safe: each message has a socket of its own. A call can wait for the
// reader, but not for longer than kPatience.
class ServiceManager {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(2);
  // For descriptors to be taken: each is compared with all that are kept.
  static constexpr absl::Duration kBarrierPatience = absl::Seconds(10);

  // For none.
  ServiceManager() = default;
  // From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. An error says which of
  // them is wrong.
  static absl::StatusOr<ServiceManager> FromEnvironment();

  // The process serves. `status` is for people, without secrets: one line, of
  // which more than 1024 bytes are cut off.
  absl::Status Ready(absl::string_view status) const;
  // It reads its configuration again; Ready() has to follow, even if that
  // failed.
  absl::Status Reloading() const;
  // It ends.
  absl::Status Stopping(absl::string_view status) const;
  // It is alive: see watchdog().
  absl::Status Alive() const;

  // Whether there is one.
  bool there() const { return !socket_.empty(); }
  // Keeps copies of the descriptors, under one name, for the process that is
  // started in place of this one (FDSTORE=1): when this returns OK, it has been
  // told of all, and has closed those that it keeps no room for
  // (FileDescriptorStoreMax= of systemd). `descriptors` stay the caller's.
  // FailedPrecondition: there is no service manager.
  absl::Status Keep(const std::vector<int>& descriptors) const;
  // It need not keep what Keep() gave it any more: where this process, too, has
  // closed a connection, its peer is to notice.
  absl::Status Forget() const;
  // What it has kept for this process; once. They are the caller's.
  static std::vector<int> TakeKept();

  // The process is killed unless Alive() is called at least this often. Zero:
  // nobody watches.
  absl::Duration watchdog() const { return watchdog_; }

 private:
  ServiceManager(std::string socket, absl::Duration watchdog)
      : socket_(std::move(socket)), watchdog_(watchdog) {}
  absl::Status Send(absl::string_view message,
                    const std::vector<int>& descriptors = {}) const;
  absl::Status AwaitReader() const;

  std::string socket_;  // As in NOTIFY_SOCKET. Empty: none.
  absl::Duration watchdog_ = absl::ZeroDuration();
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_SERVICE_MANAGER_H_
