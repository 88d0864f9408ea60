#include "testing/sim/sim_shared_receive_queue.h"

namespace skiff::testing {

using transport::OperationId;
using transport::PostResult;

SimSharedReceiveQueue::~SimSharedReceiveQueue() {
  if (cq_ == nullptr) return;
  cq_->Release(nullptr, 0, entries_ - static_cast<uint32_t>(receives_.size()));
  for (const SimReceive& receive : receives_) {
    SimCompletionQueue::Entry entry;
    entry.completion.id = receive.id;
    entry.completion.kind = transport::OperationKind::kReceive;
    entry.completion.status = transport::CompletionStatus::kFlushed;
    entry.completion.scope = transport::DamageScope::kConnection;
    cq_->Push(std::move(entry));
  }
}

PostResult SimSharedReceiveQueue::PostReceive(
    OperationId id, absl::Span<const transport::Sge> to) {
  if (used_ >= entries_) return PostResult::kWouldBlock;
  ++used_;
  receives_.push_back({id, {to.begin(), to.end()}});
  for (auto& [weak, side] : std::exchange(waiting_, {})) {
    if (auto receiver = weak.lock()) receiver->OnSharedReceive(side);
  }
  return PostResult::kAccepted;
}

absl::Status SimSharedReceiveQueue::Use(
    const std::shared_ptr<SimCompletionQueue>& cq) {
  if (cq_ == cq) return absl::OkStatus();
  if (cq_ != nullptr) {
    return absl::InvalidArgumentError(
        "the shared receive queue belongs to another completion queue");
  }
  absl::Status status = cq->Reserve(entries_);
  if (status.ok()) cq_ = cq;
  return status;
}

}  // namespace skiff::testing
