// How a session that had to do without RDMA gets there when it is back.

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/driver/initiator_impl.h"

namespace skiff::protocol {

// A session is up.
void InitiatorImpl::ScheduleMove() {
  if (options_.rdma_retry_interval <= absl::ZeroDuration() ||
      transport_->rdma() || options_.target_name.empty() ||
      !backend_->RdmaOnly(address_).has_value()) {
    return;
  }
  move_timer_.ScheduleAfter(options_.rdma_retry_interval);
}

void InitiatorImpl::TryRdma() {
  const std::optional<transport::Address> address =
      backend_->RdmaOnly(address_);
  if (!up_ || !address.has_value()) return;
  move_.reset(new Move{nullptr, MakeIserSetup(), std::nullopt});
  transport::ConnectOptions connect = options_.connect;
  move_->iser.FillIn(&connect);
  auto attempt =
      backend_->Connect(reactor_, *address, connect,
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
  ScheduleMove();
}

absl::Time InitiatorImpl::ContinueMove(absl::Time now) {
  if (!holding_commands() || move_->logging_out) return absl::InfiniteFuture();
  move_->attempt.reset();
  if (!move_->endpoint->ok()) {
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
    session_->Logout(LogoutRequestPdu::kCloseSession, /*cid=*/0, nullptr);
    return absl::InfiniteFuture();
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

// The old session is logged out.
void InitiatorImpl::FinishMove(std::unique_ptr<Move> move) {
  BeginOutage();
  iser_.emplace(move->iser);
  OnConnected(*std::move(move->endpoint));
}

}  // namespace skiff::protocol
