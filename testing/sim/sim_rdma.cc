#include "testing/sim/sim_rdma.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::testing {

using transport::OperationId;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteBuffer;
using transport::RemoteKey;
using transport::Sge;

SimRdmaOptions SimRdmaOptions::InfiniBand() {
  SimRdmaOptions options;
  transport::Capabilities& caps = options.capabilities;
  caps.rdma = true;
  caps.max_message_bytes = size_t{1} << 30;
  caps.max_transfer_bytes = size_t{1} << 30;
  caps.max_inline_bytes = 64;
  caps.max_send_sges = 16;
  caps.max_receive_sges = 16;
  caps.max_read_sges = 16;
  caps.max_read_depth = 16;
  caps.max_send_queue = 256;
  caps.max_receive_queue = 1024;
  caps.max_private_data_bytes = 56;  // rdma_connect(3), RDMA_PS_TCP.
  caps.remote_key_bits = 32;
  caps.send_with_invalidate = true;
  caps.shared_receive_queue = true;
  caps.memory_windows = true;
  caps.receiver_not_ready_retry = true;
  caps.deregistration_ends_access = true;
  return options;
}

SimRdmaOptions SimRdmaOptions::Iwarp() {
  SimRdmaOptions options = InfiniBand();
  options.capabilities.max_read_sges = 1;
  options.capabilities.shared_receive_queue = false;
  options.capabilities.max_private_data_bytes = 508;  // 512 less MPA's own 4.
  options.capabilities.receiver_not_ready_retry = false;
  options.capabilities.read_sink_needs_remote_write = true;
  options.receiver_not_ready_timeout = absl::ZeroDuration();
  return options;
}

SimRdmaEndpoint::SimRdmaEndpoint(SimReactor* reactor,
                                 std::shared_ptr<SimRdmaWire> wire, int side,
                                 const SimRdmaWire::Resources& resources,
                                 DisconnectCallback on_disconnect)
    : reactor_(reactor),
      wire_(std::move(wire)),
      side_(side),
      cq_(resources.cq),
      capabilities_(wire_->options().capabilities),
      on_disconnect_(std::move(on_disconnect)),
      self_(std::make_shared<SimRdmaEndpoint*>(this)) {
  capabilities_.max_read_depth = wire_->read_depth();
  capabilities_.max_send_queue = resources.send_queue;
  capabilities_.max_receive_queue = resources.receive_queue;
  capabilities_.max_inline_bytes = resources.inline_bytes;
  wire_->Attach(side_, this, resources);
}

SimRdmaEndpoint::~SimRdmaEndpoint() {
  on_disconnect_ = nullptr;
  Disconnect();
  wire_->Detach(side_);
}

void SimRdmaEndpoint::Announce() {
  announced_ = true;
  capabilities_.max_read_depth = wire_->read_depth();
  if (!connected()) OnEnded();
}

void SimRdmaEndpoint::OnEnded() {
  if (!announced_ || on_disconnect_ == nullptr) return;
  if (wire_->defect() == SimDefect::kNestedDisconnect) {
    std::exchange(on_disconnect_, nullptr)(*this);
    return;
  }
  reactor_->Post([weak = std::weak_ptr<SimRdmaEndpoint*>(self_),
                  on_disconnect = std::exchange(on_disconnect_, nullptr)] {
    if (auto self = weak.lock()) on_disconnect(**self);
  });
}

void SimRdmaEndpoint::Disconnect() {
  wire_->Disconnect(side_,
                    absl::CancelledError("this side ended the connection"));
}

namespace {

std::shared_ptr<SimRdmaWire::Request> MakeRequest(OperationId id,
                                                  OperationKind kind,
                                                  absl::Span<const Sge> sges) {
  auto request = std::make_shared<SimRdmaWire::Request>();
  request->id = id;
  request->kind = kind;
  request->sges.assign(sges.begin(), sges.end());
  for (const Sge& sge : sges) request->length += sge.length;
  return request;
}

}  // namespace

PostResult SimRdmaEndpoint::PostReceive(OperationId id,
                                        absl::Span<const Sge> to) {
  return wire_->PostReceive(side_, id, to);
}

PostResult SimRdmaEndpoint::PostSend(OperationId id,
                                     absl::Span<const Sge> from) {
  return wire_->PostRequest(side_, MakeRequest(id, OperationKind::kSend, from));
}

PostResult SimRdmaEndpoint::PostSendWithInvalidate(OperationId id,
                                                   absl::Span<const Sge> from,
                                                   RemoteKey key) {
  if (!capabilities_.send_with_invalidate) return PostResult::kClosed;
  auto request = MakeRequest(id, OperationKind::kSend, from);
  request->invalidate = true;
  request->invalidate_key = key;
  return wire_->PostRequest(side_, std::move(request));
}

PostResult SimRdmaEndpoint::PostRead(OperationId id, absl::Span<const Sge> to,
                                     RemoteBuffer from) {
  auto request = MakeRequest(id, OperationKind::kRead, to);
  request->remote = from;
  return wire_->PostRequest(side_, std::move(request));
}

PostResult SimRdmaEndpoint::PostWrite(OperationId id,
                                      absl::Span<const Sge> from,
                                      RemoteBuffer to) {
  auto request = MakeRequest(id, OperationKind::kWrite, from);
  request->remote = to;
  return wire_->PostRequest(side_, std::move(request));
}

PostResult SimRdmaEndpoint::PostBind(OperationId id,
                                     transport::MemoryWindow* window,
                                     const transport::MemoryRegion* region,
                                     size_t offset, size_t length,
                                     transport::Access access) {
  auto* sim_window = dynamic_cast<SimWindow*>(window);
  if (!capabilities_.memory_windows || sim_window == nullptr) {
    return PostResult::kClosed;
  }
  auto request = MakeRequest(id, OperationKind::kBind, {});
  request->window = sim_window;
  request->region = dynamic_cast<const SimRegion*>(region);
  request->offset = offset;
  request->bind_length = length;
  request->access = access;
  request->remote.key = wire_->side(side_).domain->NewKey();
  const RemoteKey key = request->remote.key;
  const PostResult result = wire_->PostRequest(side_, std::move(request));
  if (result == PostResult::kAccepted) sim_window->set_remote_key(key);
  return result;
}

PostResult SimRdmaEndpoint::PostInvalidate(OperationId id, RemoteKey key) {
  if (!capabilities_.memory_windows) return PostResult::kClosed;
  auto request = MakeRequest(id, OperationKind::kInvalidate, {});
  request->remote.key = key;
  return wire_->PostRequest(side_, std::move(request));
}

}  // namespace skiff::testing
