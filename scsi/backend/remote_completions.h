#ifndef SKIFF_SCSI_BACKEND_REMOTE_COMPLETIONS_H_
#define SKIFF_SCSI_BACKEND_REMOTE_COMPLETIONS_H_

#include <memory>

#include "scsi/backend/backend.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// For backends whose requests end on other threads: hands them back to their
// channel's reactor, many with one wake-up. A channel has one.
//
// The threads that complete end before the reactor does: what it has not run
// by then never runs.
class RemoteCompletions {
 public:
  // The reactor is the channel's.
  explicit RemoteCompletions(transport::Reactor* reactor);
  RemoteCompletions(const RemoteCompletions&) = delete;
  RemoteCompletions& operator=(const RemoteCompletions&) = delete;

  // Each request's `status`, and what else the backend fills, is set, and
  // Submit() returned false for it, or will: it may be called from inside.
  // Their `done` run on the reactor's thread in a later turn, in this order.
  // Until then IoRequest::backend_next is used. Thread-safe; once the last
  // request of the channel is here, the channel may go with this object.
  void Complete(IoRequest* request);
  // The same for a chain by IoRequest::backend_next, which ends in null and is
  // not empty.
  void CompleteChain(IoRequest* first);

 private:
  struct State;
  // Shared with what is posted, and with who completes.
  const std::shared_ptr<State> state_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_REMOTE_COMPLETIONS_H_
