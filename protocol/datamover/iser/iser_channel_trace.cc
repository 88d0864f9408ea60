// What a channel tells its trace.

#include <array>

#include "absl/strings/string_view.h"
#include "protocol/datamover/iser/iser_channel.h"

namespace skiff::protocol {

using transport::OperationKind;
using transport::RemoteKey;

void IserChannel::TraceReceived(absl::Span<const uint8_t> bytes,
                                const IserMessage& message,
                                const RemoteKey* invalidated) {
  handler_->BeforeTraced(message, trace_.get());
  const uint32_t stag =
      invalidated != nullptr ? static_cast<uint32_t>(invalidated->value) : 0;
  const absl::string_view all(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  trace_->Message(/*sent=*/false, {&all, 1},
                  invalidated != nullptr ? &stag : nullptr);
}

// When the device has it, and before it has completed: its memory is there.
void IserChannel::TracePosted(const Operation& operation) {
  std::array<absl::string_view, 1 + kMaxPayloadPieces> pieces;
  for (size_t i = 0; i < operation.sge_count; ++i) {
    pieces[i] = {static_cast<const char*>(operation.sges[i].data),
                 operation.sges[i].length};
  }
  const auto offset = static_cast<uint32_t>(operation.offset);
  if (operation.kind == OperationKind::kSend) {
    const auto stag = static_cast<uint32_t>(operation.remote.key.value);
    trace_->Message(/*sent=*/true, {pieces.data(), operation.sge_count},
                    operation.invalidates ? &stag : nullptr);
  } else if (operation.kind == OperationKind::kWrite) {
    trace_->DataIn(/*sent=*/true, handler_->TagOf(operation.task), offset,
                   pieces[0], "an RDMA Write");
  } else if (operation.kind == OperationKind::kRead) {
    trace_->R2t(/*sent=*/true, handler_->TagOf(operation.task), offset,
                static_cast<uint32_t>(operation.length), "an RDMA Read begins");
  }
}

void IserChannel::TraceRead(const Operation& operation) {
  if (operation.kind != OperationKind::kRead) return;
  trace_->DataOut(/*sent=*/false, handler_->TagOf(operation.task),
                  static_cast<uint32_t>(operation.offset),
                  {static_cast<const char*>(operation.sges[0].data),
                   operation.sges[0].length},
                  "an RDMA Read has ended");
}

}  // namespace skiff::protocol
