#include "scsi/initiator/run_until.h"

#include <poll.h>

#include <algorithm>

namespace skiff::scsi {
namespace {

// Rounded up: waking early would spin.
int PollTimeout(absl::Duration wait) {
  constexpr absl::Duration kLongest = absl::Hours(1);
  if (wait <= absl::ZeroDuration()) return 0;
  wait = std::min(wait, kLongest);
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

}  // namespace

bool RunUntil(transport::EpollReactor* reactor,
              absl::FunctionRef<bool()> finished, absl::Duration timeout) {
  const absl::Time give_up = transport::EpollReactor::MonotonicNow() + timeout;
  while (!finished()) {
    const bool idle = reactor->Poll() == 0;
    const absl::Time now = transport::EpollReactor::MonotonicNow();
    if (now >= give_up) return finished();
    if (!idle) continue;
    pollfd readable = {reactor->fd(), POLLIN, 0};
    // Interrupted or not: the loop looks again.
    poll(&readable, 1,
         PollTimeout(std::min(give_up, reactor->NextDeadline()) - now));
  }
  return true;
}

}  // namespace skiff::scsi
