#ifndef SKIFF_SCSI_INITIATOR_RUN_UNTIL_H_
#define SKIFF_SCSI_INITIATOR_RUN_UNTIL_H_

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {

// Runs a reactor on the calling thread, sleeping while there is nothing to do,
// until `finished` returns true (looked at after each turn, and before the
// first) or `timeout` passes. Returns whether it finished. For programs that do
// one thing after the other; not from inside one of the reactor's callbacks.
bool RunUntil(transport::EpollReactor* reactor,
              absl::FunctionRef<bool()> finished,
              absl::Duration timeout = absl::InfiniteDuration());

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_RUN_UNTIL_H_
