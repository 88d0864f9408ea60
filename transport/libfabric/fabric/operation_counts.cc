#include "transport/libfabric/fabric/operation_counts.h"

namespace skiff::transport {

void OperationCounts::Issued(const OperationSlot& slot, size_t length) {
  ++one_sided_;
  if (slot.outcome.kind == OperationKind::kRead) {
    ++reads_;
    serves_writes_ = &slot;
    return;
  }
  ++writes_;
  unserved_writes_ = true;
  serves_writes_ = length > needs_.eager_message_bytes ? &slot : nullptr;
}

void OperationCounts::Done(const OperationSlot& slot) {
  if (slot.outcome.kind == OperationKind::kSend) {
    ++sent_;
  } else if (slot.outcome.kind == OperationKind::kWrite) {
    --writes_;
    if (&slot == serves_writes_ && writes_ == 0) unserved_writes_ = false;
  } else if (slot.outcome.kind == OperationKind::kRead) {
    --reads_;
    if (&slot == serves_writes_) unserved_writes_ = false;
  }
}

void OperationCounts::Failed(OperationKind kind) {
  if (!wanted_) return;
  if (kind == OperationKind::kWrite) --writes_;
  if (kind == OperationKind::kRead) --reads_;
}

}  // namespace skiff::transport
