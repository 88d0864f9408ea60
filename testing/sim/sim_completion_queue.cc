#include "testing/sim/sim_completion_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::testing {

int SimCompletionQueue::Poll(absl::Span<transport::Completion> out) {
  size_t count = 0;
  while (count < out.size() && !entries_.empty()) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    SimCompletionOwner* owner = entry.owner.get();
    auto* endpoint =
        owner == nullptr ? nullptr : owner->endpoint_of(entry.side);
    if (endpoint == nullptr && !entry.shared) ++entries_left_;
    if (!entry.keep_endpoint) entry.completion.endpoint = endpoint;
    out[count++] = entry.completion;
    if (owner != nullptr) owner->OnPolled(entry.side, entry.completion.kind);
  }
  return static_cast<int>(count);
}

absl::Status SimCompletionQueue::Reserve(uint32_t entries) {
  if (entries > entries_left_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the completion queue has room for ", entries_left_,
        " more entries; this endpoint needs ", entries,
        " - create the queue with more entries, or ask for smaller queues"));
  }
  entries_left_ -= entries;
  return absl::OkStatus();
}

void SimCompletionQueue::Release(const SimCompletionOwner* owner, int side,
                                 uint32_t entries) {
  for (const Entry& entry : entries_) {
    if (entry.owner.get() == owner && entry.side == side && !entry.shared &&
        entries > 0) {
      --entries;
    }
  }
  entries_left_ += entries;
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
