#ifndef SKIFF_TOOLS_SKIFFD_HANDOVER_H_
#define SKIFF_TOOLS_SKIFFD_HANDOVER_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/target/handover.h"
#include "transport/address.h"
#include "transport/log/log.h"
#include "transport/net/scoped_fd.h"

namespace skiff::tools::skiffd {

// A ServerHandover as descriptors, for a service manager to keep: a file in
// memory with a message (handover.proto), and the sockets, which the message
// names by their inodes. Whoever keeps them need not know which is which.
struct PackedHandover {
  std::vector<transport::ScopedFd> descriptors;
  size_t sessions = 0;
  // Initiators whose sessions have too much that was not read, and end.
  std::vector<std::string> left_out;
};
absl::StatusOr<PackedHandover> PackHandover(protocol::ServerHandover handover);

// What another process has left to this one, out of such descriptors.
class Inherited {
 public:
  // Takes the descriptors over. What can't be used is closed; `log` is told of
  // each. Without a message all are closed. `forget` makes who has kept them
  // do so no more.
  Inherited(const std::vector<int>& descriptors,
            std::function<absl::Status()> forget, transport::LogSink log);

  const std::vector<protocol::HandedOverSession>& sessions() const {
    return handover_.sessions;
  }
  // For transport::ListenOptions::inherited: the socket that listens there.
  // Sockets that are in the way of a new one are closed. Thread-safe.
  int TakeSocket(const transport::Address& address);
  // The rest, when nothing can fail any more: a process that comes next must
  // not go on where this one did. Sockets that nobody asked for are closed.
  protocol::ServerHandover TakeRest();

 private:
  void Warn(const std::string& message) const {
    if (log_ != nullptr) log_(transport::LogLevel::kWarning, message);
  }

  const std::function<absl::Status()> forget_;
  const transport::LogSink log_;
  bool any_ = false;
  std::mutex mutex_;
  protocol::ServerHandover handover_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_HANDOVER_H_
