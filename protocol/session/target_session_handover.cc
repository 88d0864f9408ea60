// TargetSession: how it goes on in another process.

#include <bit>
#include <utility>

#include "protocol/session/target_session.h"

namespace skiff::protocol {

absl::Status TargetSession::Hold() {
  if (phase_ != Phase::kFullFeature) {
    return absl::FailedPreconditionError("it logs in, or ends");
  }
  if (!datamover_->HoldCommands()) {
    return absl::FailedPreconditionError("its data model can't");
  }
  return absl::OkStatus();
}

// Functions end with their answers; a text exchange would need the initiator.
bool TargetSession::quiet() const {
  return phase_ == Phase::kFullFeature && used_ == 0 && deferred_.empty() &&
         managing_.empty() && datamover_->quiet();
}

absl::StatusOr<TargetSessionState> TargetSession::TakeState() {
  if (!quiet()) {
    return absl::FailedPreconditionError("its commands have not ended");
  }
  if (text_tag_ != kReservedTag) {
    return absl::FailedPreconditionError("it is in a text exchange");
  }
  if (!held_.empty()) {
    return absl::FailedPreconditionError("asynchronous messages wait");
  }
  TargetSessionState state;
  if (nexus_ != nullptr) {
    absl::StatusOr<scsi::NexusState> nexus = nexus_->State();
    if (!nexus.ok()) return nexus.status();
    state.nexus = *std::move(nexus);
  }
  absl::StatusOr<std::string> unread = datamover_->TakeUnread();
  if (!unread.ok()) return unread.status();
  state.unread = *std::move(unread);
  state.identity = identity();
  state.parameters = parameters_;
  state.isid = isid_;
  state.cid = cid_;
  state.tsih = tsih();
  state.exp_cmd_sn = exp_cmd_sn_;
  state.stat_sn = stat_sn_;
  state.exp_stat_sn = exp_stat_sn_;
  for (uint32_t i = 0; aborted_ > 0 && i < options_.queue_depth; ++i) {
    if (WasAborted(exp_cmd_sn_ + i)) {
      state.aborted_cmd_sns.push_back(exp_cmd_sn_ + i);
    }
  }
  state.queue_depth = options_.queue_depth;
  state.max_immediate_tasks = options_.max_immediate_tasks;
  state.ping_tag = ping_tag_;
  state.ping_unanswered = ping_unanswered_;
  state.commands = counters_.commands;
  state.bytes_in = counters_.bytes_in;
  state.bytes_out = counters_.bytes_out;
  return state;
}

absl::Status TargetSession::Restore(const TargetSessionState& state) {
  login_ = TargetLogin::Completed(state.identity, state.parameters, state.tsih);
  login_begun_ = true;
  isid_ = state.isid;
  cid_ = state.cid;
  parameters_ = state.parameters;
  exp_cmd_sn_ = told_exp_cmd_sn_ = state.exp_cmd_sn;
  stat_sn_ = state.stat_sn;
  exp_stat_sn_ = state.exp_stat_sn;
  for (const uint32_t cmd_sn : state.aborted_cmd_sns) {
    if (cmd_sn - exp_cmd_sn_ >= options_.queue_depth) continue;
    if (aborted_cmd_sns_.empty()) {
      aborted_cmd_sns_.resize(std::bit_ceil(options_.queue_depth));
    }
    if (WasAborted(cmd_sn)) continue;
    aborted_cmd_sns_[PlaceOf(cmd_sn)] = true;
    ++aborted_;
  }
  ping_tag_ = state.ping_tag;
  ping_unanswered_ = state.ping_unanswered;
  counters_ = {state.commands, state.bytes_in, state.bytes_out};
  absl::Status opened = OpenNexus(state.identity);
  if (!opened.ok()) return opened;
  phase_ = Phase::kFullFeature;
  datamover_->EnableDatamover(parameters_);
  if (nexus_ != nullptr && state.nexus.has_value()) {
    nexus_->Restore(*state.nexus);
  }
  if (phase_ != Phase::kFullFeature) {
    return absl::FailedPreconditionError("a disk is another one than it was");
  }
  return absl::OkStatus();
}

}  // namespace skiff::protocol
