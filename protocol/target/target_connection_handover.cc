// TargetConnection: how its session goes on in another process.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/target/target_connection.h"

namespace skiff::protocol {

void TargetConnection::HandOver(absl::Duration patience) {
  // Whoever is asked to log out does not come back to life.
  if (ending_ != Ending::kNo || draining_) {
    return Drain(patience, "shutting down");
  }
  const absl::Status held = session_->Hold();
  if (!held.ok()) {
    return End(
        absl::StrCat("another process can't go on with it: ", held.message()));
  }
  handing_over_ = true;
  drain_deadline_ = std::min(drain_deadline_, Now() + patience);
  coalesce_timer_.Cancel();
  pump_->SetReadThreshold(1);
  pump_->Kick();
  ScheduleTimer(Now());
}

void TargetConnection::TakeOut() {
  handing_over_ = false;
  absl::StatusOr<TargetSessionState> state = session_->TakeState();
  if (!state.ok()) {
    return End(absl::StrCat("another process can't go on with it: ",
                            state.status().message()));
  }
  HandedOverSession session;
  session.connection =
      transport::ScopedFd(pump_->ReleaseDescriptor(&state->unread));
  if (!session.connection.valid()) {
    return End("another process can't go on with it: its transport can't");
  }
  session.scheme = transport_->Info().transport;
  session.portal = portal_;
  session.state = *std::move(state);
  Say(LogLevel::kInfo, "goes on in another process");
  context_.handed_over(std::move(session));
  ending_ = Ending::kNow;
  context_.reactor->ScheduleTurnEnd(this);
}

absl::Status TargetConnection::TakeOver(const TargetSessionState& state) {
  absl::Status adopted = Adopt(state);
  if (!adopted.ok()) return adopted;
  absl::Status restored = session_->Restore(state);
  if (!restored.ok()) return restored;
  in_login_ = false;
  pump_->SetNewcomer(false);
  if (state.identity.session_type == SessionType::kDiscovery) KeepDiscovering();
  ScheduleTimer(Now());
  Say(LogLevel::kInfo,
      absl::StrCat(state.identity.initiator_name, " goes on",
                   state.identity.target_name.empty() ? "" : " at ",
                   state.identity.target_name));
  return absl::OkStatus();
}

// What a login checks, and can have changed since.
absl::Status TargetConnection::Adopt(const TargetSessionState& state) {
  LoginIdentity identity = state.identity;
  const std::string limit =
      context_.shares->Identify(id_, identity.initiator_name, Now());
  if (!limit.empty()) return absl::ResourceExhaustedError(limit);
  const bool discovery = identity.session_type == SessionType::kDiscovery;
  if (context_.node->Admit(portal_, &identity) != LoginStatus::kSuccess ||
      (!discovery && identity.target_portal_group_tag !=
                         state.identity.target_portal_group_tag)) {
    return absl::NotFoundError(absl::StrCat("target ", identity.target_name,
                                            " is not at this portal any more"));
  }
  if (!discovery) {
    const auto target = context_.node->FindTarget(identity.target_name);
    if (target == nullptr || !IsThere(*target, identity)) {
      return absl::PermissionDeniedError(absl::StrCat(
          "no access rule of ", identity.target_name, " lets in ",
          identity.initiator_name, " from ", identity.peer_address));
    }
  }
  std::string refused;
  const auto enter = [&](std::optional<TargetNode::ConnectionId> replaced) {
    refused = context_.shares->Enter(id_, discovery, Now(), replaced);
    return refused.empty() ? LoginStatus::kSuccess
                           : LoginStatus::kOutOfResources;
  };
  if (context_.node->Adopt(state.identity, state.isid, state.tsih, id_, enter,
                           EnderOfThis()) != LoginStatus::kSuccess) {
    return absl::AlreadyExistsError(
        refused.empty() ? "its initiator port has logged in again" : refused);
  }
  return absl::OkStatus();
}

}  // namespace skiff::protocol
