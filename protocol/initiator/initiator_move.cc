// How a session that had to do without RDMA gets there when it is back.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "protocol/initiator/initiator_impl.h"

namespace skiff::protocol {

// A session is up.
void InitiatorImpl::ScheduleMove() {
  if (options_.rdma_retry_interval <= absl::ZeroDuration() ||
      transport_->rdma() || options_.target_name.empty() ||
      !portal_transport_->Only(address_, transport::EndpointKind::kRdma).has_value()) {
    return;
  }
  constexpr uint32_t kMostDoublings = 6;
  move_timer_.ScheduleAfter(options_.rdma_retry_interval *
                            (1 << std::min(rdma_failures_, kMostDoublings)));
}

void InitiatorImpl::TryRdma() {
  const std::optional<transport::Address> address =
      portal_transport_->Only(address_, transport::EndpointKind::kRdma);
  if (!up_ || !address.has_value()) return;
  move_.reset(new Move{nullptr, MakeIserSetup(), std::nullopt});
  transport::ConnectOptions connect = options_.connect;
  move_->iser.FillIn(&connect);
  auto attempt = portal_transport_->Connect(
      reactor_, *address, connect,
      [this](absl::StatusOr<transport::Endpoint> endpoint) {
        // Not here: the attempt is on the call stack.
        move_->endpoint = std::move(endpoint);
        Wake();
      });
  if (attempt.ok()) {
    move_->attempt = *std::move(attempt);
  } else {
    AbandonMove();
  }
}

// The session stays where it is, for now.
void InitiatorImpl::AbandonMove() {
  move_.reset();
  // Its device may be gone.
  iser_memories_->DropRemoved();
  ScheduleMove();
}

absl::Time InitiatorImpl::ContinueMove(absl::Time now) {
  if (moving()) return AwaitLogout(now);
  if (!holding_commands()) return absl::InfiniteFuture();
  move_->attempt.reset();
  move_->iser.Settle(*move_->endpoint);
  const absl::Status can = CanMove();
  if (!can.ok()) {
    // Before the logout, behind which it would fail as well.
    ++rdma_failures_;
    Warn(absl::StrCat("RDMA connects, but cannot be used: ", can.message(),
                      "; the session stays"));
  }
  if (!can.ok() || !MoveIsConnected()) {
    AbandonMove();
    return absl::InfiniteFuture();
  }
  if (move_->give_up == absl::InfiniteFuture()) {
    move_->give_up = now + options_.rdma_move_patience;
  }
  if (session_->quiet()) {
    Log(absl::StrCat("RDMA can be had: the session moves there, ",
                     queue_.size(), " commands wait"));
    move_->logging_out = true;
    move_->give_up = now + std::max(options_.timeouts.logout_timeout,
                                    options_.rdma_move_patience);
    session_->Logout(LogoutRequestPdu::kCloseSession, /*cid=*/0, nullptr);
    return move_->give_up;
  }
  if (now < move_->give_up) return move_->give_up;
  Log(absl::StrCat("RDMA can be had, but commands are under way for more than ",
                   absl::FormatDuration(options_.rdma_move_patience),
                   " (rdma_move_patience): the session stays for another ",
                   absl::FormatDuration(options_.rdma_retry_interval),
                   " (rdma_retry_interval)"));
  AbandonMove();
  return absl::InfiniteFuture();
}

// Also where logouts may take for ever: commands wait.
absl::Time InitiatorImpl::AwaitLogout(absl::Time now) {
  if (now >= move_->give_up) {
    session_->Terminate(absl::DeadlineExceededError(
        "the target did not answer the logout by which the session moves"));
  }
  return move_->give_up;
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
void InitiatorImpl::FinishMove(std::unique_ptr<Move> move) {
  iser_.emplace(move->iser);
  why_no_rdma_.clear();
  OnConnected(*std::move(move->endpoint));
}

}  // namespace skiff::protocol
