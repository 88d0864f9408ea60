// How a session that had to do without RDMA gets there when it is back.

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "protocol/initiator/initiator_impl.h"

namespace skiff::protocol {

// The session that is up, when RDMA is back.
bool InitiatorImpl::CanMoveLater() const {
  return !connection_->transport->rdma() && !options_.target_name.empty() &&
         portal_transport_->Only(address_, transport::EndpointKind::kRdma)
             .has_value();
}

void InitiatorImpl::TryRdma() {
  const absl::Time now = reactor_->Now();
  move_ = std::make_unique<Attempt>(MakeIserSetup());
  const std::optional<transport::Address> address =
      portal_transport_->Only(address_, transport::EndpointKind::kRdma);
  if (!address.has_value()) return Do(life_.MoveFailed(now));
  transport::ConnectOptions connect = options_.connect;
  move_->iser.FillIn(&connect);
  auto attempt = portal_transport_->Connect(
      reactor_, *address, connect,
      [this, move = move_.get()](absl::StatusOr<transport::Endpoint> endpoint) {
        // The rest not here: the attempt is on the call stack.
        move->endpoint = std::move(endpoint);
        life_.MoveReached();
        Wake();
      });
  if (!attempt.ok()) return Do(life_.MoveFailed(now));
  move_->attempt = *std::move(attempt);
}

void InitiatorImpl::DropMove() {
  move_.reset();
  // Its device may be gone.
  iser_memories_->DropRemoved();
  // Commands that were held for it go on.
  Wake();
}

void InitiatorImpl::ContinueMove(absl::Time now) {
  move_->attempt.reset();
  move_->iser.Settle(*move_->endpoint);
  const absl::Status can = CanMove();
  if (!can.ok()) return Do(life_.MoveUnusable(now, can));
  if (!MoveIsConnected()) return Do(life_.MoveFailed(now));
  Do(life_.ContinueMove(now, connection_->session->quiet()));
}

void InitiatorImpl::LogOutForMove() {
  Log(absl::StrCat("RDMA can be had: the session moves there, ", queue_.size(),
                   " commands wait"));
  connection_->session->Logout(LogoutRequestPdu::kCloseSession, /*cid=*/0,
                               reactor_->Now(), nullptr);
}

// What RDMA has led to; null: nothing.
const transport::RdmaEndpoint* InitiatorImpl::MovesEndpoint() const {
  if (!move_->endpoint->ok()) return nullptr;
  const auto* rdma =
      std::get_if<std::unique_ptr<transport::RdmaEndpoint>>(&**move_->endpoint);
  return rdma != nullptr ? rdma->get() : nullptr;
}

// Whether the target answered as it has to, if it did.
absl::Status InitiatorImpl::CanMove() const {
  const transport::RdmaEndpoint* const rdma = MovesEndpoint();
  return rdma != nullptr ? move_->iser.Check(*rdma) : absl::OkStatus();
}

// It can end again while commands are waited for.
bool InitiatorImpl::MoveIsConnected() const {
  const transport::RdmaEndpoint* const rdma = MovesEndpoint();
  return rdma != nullptr && rdma->connected();
}

// The old session is logged out.
void InitiatorImpl::UseMove() {
  attempt_ = std::move(move_);
  OnConnected();
}

}  // namespace skiff::protocol
