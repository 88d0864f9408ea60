#include "testing/sim/sim_completion_queue.h"

#include <utility>

namespace skiff::testing {

int SimCompletionQueue::Poll(absl::Span<transport::Completion> out) {
  size_t count = 0;
  while (count < out.size() && !entries_.empty()) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    if (!entry.keep_endpoint) {
      entry.completion.endpoint = entry.owner->endpoint_of(entry.side);
    }
    out[count++] = entry.completion;
    entry.owner->OnPolled(entry.side, entry.completion.kind);
  }
  return static_cast<int>(count);
}

bool SimCompletionQueue::Arm() {
  if (!entries_.empty()) return false;
  armed_ = !deaf_;
  return true;
}

void SimCompletionQueue::Push(Entry entry) {
  reactor_->world()->Trace("completion", entry.completion.id.index,
                           static_cast<uint64_t>(entry.completion.kind) << 8 |
                               static_cast<uint64_t>(entry.completion.status));
  entries_.push_back(std::move(entry));
  if (std::exchange(armed_, false)) source_.SetReadable(true);
}

void SimCompletionQueue::SwapNewest() {
  if (entries_.size() < 2) return;
  Entry& newest = entries_.back();
  Entry& before = entries_[entries_.size() - 2];
  if (newest.owner == before.owner && newest.side == before.side &&
      newest.completion.kind == before.completion.kind) {
    std::swap(newest, before);
  }
}

}  // namespace skiff::testing
