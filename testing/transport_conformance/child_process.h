#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_CHILD_PROCESS_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "testing/transport_conformance/control_link.h"

namespace skiff::testing {

// Other processes of this program, for tests that need one. They need
// ConformanceMain() as main().

// For main(): remembers the command line.
void RememberCommandLine(int argc, char** argv);

// RLIMIT_MEMLOCK of a limited child.
inline constexpr size_t kLimitedChildBytes = 16 << 20;

// Runs the current test again in a new process of this program, which may lock
// little memory (and, if it is root's, has no CAP_IPC_LOCK that would lift the
// limit). An error has what the child printed.
absl::Status RunTestInLimitedChild();

// Whether this is that process; applies the limit when it first says so.
bool InLimitedChild();

// A process that serves the listening side, to be killed.
class PeerProcess {
 public:
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start();
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  ControlLink* link() { return link_.get(); }
  // SIGKILL; returns when it is gone.
  void Kill();

 private:
  PeerProcess(pid_t pid, int fd)
      : pid_(pid), link_(std::make_unique<ControlLink>(fd)) {}

  pid_t pid_;
  std::unique_ptr<ControlLink> link_;
};

// For main(): the link to the process that started this one as its peer, or
// null.
std::unique_ptr<ControlLink> LinkOfPeerProcess();

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_CHILD_PROCESS_H_
