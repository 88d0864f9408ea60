#include "bench/protocol/command_path.h"

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"

namespace skiff::protocol {

CommandPath::CommandPath(const Options& options)
    : SessionPair(options),
      target_mover_(MakeTargetStreamDatamover(&target_buffers_,
                                              StreamDatamoverOptions())),
      initiator_mover_(MakeInitiatorStreamDatamover(&initiator_buffers_,
                                                    StreamDatamoverOptions())) {
  Start(initiator_mover_.get(), target_mover_.get());
}

CommandPath::~CommandPath() { End(); }

// Carries what `from` has to send, as far as one receive goes. False if there
// was nothing.
bool CommandPath::Carry(StreamDatamover* from, StreamDatamover* to,
                        std::chrono::nanoseconds* sender,
                        std::chrono::nanoseconds* receiver) {
  absl::Span<const iovec> source = from->SendSpans();
  Charge(sender);
  if (source.empty()) return false;
  const absl::Span<const iovec> sink = to->ReceiveSpans();
  Charge(receiver);
  size_t moved = 0;
  size_t at = 0;
  for (const iovec& into : sink) {
    size_t filled = 0;
    while (filled < into.iov_len && !source.empty()) {
      const size_t n =
          std::min(into.iov_len - filled, source.front().iov_len - at);
      std::memcpy(static_cast<char*>(into.iov_base) + filled,
                  static_cast<const char*>(source.front().iov_base) + at, n);
      filled += n;
      at += n;
      moved += n;
      if (at < source.front().iov_len) continue;
      source.remove_prefix(1);
      at = 0;
    }
  }
  Charge(&times_.network);
  from->BytesSent(moved);
  Charge(sender);
  to->BytesReceived(moved);
  Charge(receiver);
  return true;
}

bool CommandPath::Exchange() {
  bool any = false;
  bool moved = true;
  StartClock();
  while (moved) {
    moved = Carry(initiator_mover_.get(), target_mover_.get(),
                  &times_.initiator, &times_.target);
    // What waited for its send queue to drain goes on in here.
    target_mover_->ReceiveSpans();
    RunTarget();
    Charge(&times_.target);
    moved |= Carry(target_mover_.get(), initiator_mover_.get(), &times_.target,
                   &times_.initiator);
    RunInitiator();
    Charge(&times_.initiator);
    any |= moved;
  }
  return any;
}

}  // namespace skiff::protocol
