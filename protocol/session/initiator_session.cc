#include "protocol/session/initiator_session.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

InitiatorSession::InitiatorSession(const InitiatorSessionOptions& options,
                                   InitiatorDatamover* datamover,
                                   CallbackQueue* completions)
    : options_(options),
      datamover_(datamover),
      completions_(completions),
      login_(options.login),
      window_(options.initial_cmd_sn),
      tasks_(options.max_commands) {
  assert(options.max_commands > 0 && options.max_commands + 3 < kMaxTaskSlots);
  task_management_.slot = options.max_commands;
  general_.slot = options.max_commands + 1;
  logout_.slot = options.max_commands + 2;
  datamover_->SetClient(this, options.max_commands);
}

void InitiatorSession::Start(absl::Time now) {
  now_ = now;
  if (options_.timeouts.login_timeout > absl::ZeroDuration()) {
    login_deadline_ = now + options_.timeouts.login_timeout;
  }
  general_.NextTag();  // One tag for the whole login phase (section 11.12).
  SendLoginRequest(login_.Start());
}

void InitiatorSession::SendLoginRequest(InitiatorLogin::Request request) {
  request.pdu.initiator_task_tag = general_.tag();
  // Login Requests are immediate: the number stays (section 11.12.8).
  request.pdu.cmd_sn = window_.cmd_sn();
  request.pdu.exp_stat_sn = exp_stat_sn_;
  acknowledged_stat_sn_ = exp_stat_sn_;
  Bhs bhs;
  Encode(request.pdu, bhs.data());
  datamover_->SendControl(
      bhs.data(), {reinterpret_cast<const uint8_t*>(request.data.data()),
                   request.data.size()});
}

void InitiatorSession::ControlNotify(const ControlPdu& pdu) {
  if (ended()) return;
  const auto opcode = static_cast<Opcode>(pdu.frame.opcode);
  if (state_ != State::kLogin) return Dispatch(pdu);
  if (opcode == Opcode::kLoginResponse) return OnLoginResponse(pdu);
  if (opcode == Opcode::kReject) return OnReject(pdu);
  ProtocolError(
      absl::StrCat("a ", OpcodeName(pdu.frame.opcode), " PDU during login"));
}

void InitiatorSession::Dispatch(const ControlPdu& pdu) {
  switch (static_cast<Opcode>(pdu.frame.opcode)) {
    case Opcode::kNopIn:
      return OnNopIn(pdu);
    case Opcode::kTextResponse:
      return OnTextResponse(pdu);
    case Opcode::kTaskManagementResponse:
      return OnTaskManagementResponse(pdu);
    case Opcode::kLogoutResponse:
      return OnLogoutResponse(pdu);
    case Opcode::kAsyncMessage:
      return OnAsyncMessage(pdu);
    case Opcode::kReject:
      return OnReject(pdu);
    default:
      return ProtocolError(
          absl::StrCat("an unexpected ", OpcodeName(pdu.frame.opcode), " PDU"));
  }
}

void InitiatorSession::OnLoginResponse(const ControlPdu& pdu) {
  LoginResponsePdu response;
  if (!Decoded(Decode(pdu.bhs, &response), "Login Response")) return;
  if (response.initiator_task_tag != general_.tag()) {
    return ProtocolError("a Login Response with a foreign Initiator Task Tag");
  }
  // The first response sets StatSN; the fields are not valid when the login
  // failed (sections 11.13.4 and 11.13.5).
  if (response.status_class == 0) {
    if (any_response_ && response.stat_sn != exp_stat_sn_) {
      return ProtocolError(absl::StrCat("a Login Response with StatSN ",
                                        response.stat_sn, " instead of ",
                                        exp_stat_sn_));
    }
    any_response_ = true;
    exp_stat_sn_ = response.stat_sn + 1;
    early_stat_sns_.reset();
    // Over iSER, tgt takes the login itself for a command (iser_login_exec()),
    // and goes on with the right number. No command was sent that this could
    // acknowledge.
    uint32_t exp_cmd_sn = response.exp_cmd_sn;
    if (exp_cmd_sn == window_.cmd_sn() + 1) exp_cmd_sn = window_.cmd_sn();
    if (!AcceptWindow(exp_cmd_sn, response.max_cmd_sn)) return;
  }
  InitiatorLogin::Request next;
  switch (login_.OnResponse(response, pdu.data, &next)) {
    case InitiatorLogin::State::kInProgress:
      return SendLoginRequest(std::move(next));
    case InitiatorLogin::State::kRedirected:
      return End(State::kRedirected);
    case InitiatorLogin::State::kFailed:
      failure_ = login_.failure();
      return End(State::kLoginFailed);
    case InitiatorLogin::State::kFullFeature:
      break;
  }
  state_ = State::kFullFeature;
  // Unless the target says otherwise (RFC 7143 section 7.5).
  time2wait_ = absl::Seconds(login_.parameters().default_time2wait);
  login_deadline_ = absl::InfiniteFuture();
  const IserParameters& iser = login_.parameters().iser;
  immediate_requests_.SetSendLimit(iser.target_max_outstanding_unexpected_pdus);
  unexpected_.SetLimit(iser.initiator_max_outstanding_unexpected_pdus);
  datamover_->EnableDatamover(login_.parameters());
}

void InitiatorSession::WindowNotify(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) {
  if (!ended()) AcceptWindow(exp_cmd_sn, max_cmd_sn);
}

// StatSN counts the responses (section 4.2.2.2). At error recovery level 0 a
// lost status cannot be asked for again, so a gap ends the session (sections
// 7.1.4 and 7.9).
bool InitiatorSession::RefuseStatSn(uint32_t stat_sn, const char* pdu) {
  ProtocolError(absl::StrCat("a ", pdu, " with StatSN ", stat_sn,
                             " instead of ", exp_stat_sn_,
                             ": a response was lost or repeated"));
  return false;
}

// Linux's target numbers its responses and posts them in two steps, from
// several threads (isert_put_response()), which count without a lock
// (iscsit_build_rsp_pdu()): numbers come early, and two responses may have the
// same. Over iSER none can be lost, and so that is no sign of it. Early ones
// are acknowledged when those before them have come. A second response to one
// command, or to one ping, is found by its tag.
bool InitiatorSession::AcceptOutOfTurn(uint32_t stat_sn, const char* pdu) {
  const uint32_t ahead = stat_sn - exp_stat_sn_;  // RFC 1982 arithmetic.
  const uint32_t behind = exp_stat_sn_ - stat_sn;
  if (!login_.parameters().iser.enabled ||
      std::min(ahead, behind) >= kMaxEarlyStatSns) {
    return RefuseStatSn(stat_sn, pdu);
  }
  if (ahead < kMaxEarlyStatSns) {
    early_stat_sns_.set(stat_sn % kMaxEarlyStatSns);
  }
  return true;
}

bool InitiatorSession::RefuseWindow(uint32_t exp_cmd_sn) {
  ProtocolError(absl::StrCat("ExpCmdSN ", exp_cmd_sn,
                             " for commands that were never sent (CmdSN is ",
                             window_.cmd_sn(), ")"));
  return false;
}

bool InitiatorSession::Decoded(const DecodeResult& result, const char* pdu) {
  if (result.ok()) return true;
  ProtocolError(absl::StrCat("a ", pdu, " with a bad field: ", result.field));
  return false;
}

void InitiatorSession::ProtocolError(const std::string& what) {
  Lose(Loss::kProtocol,
       absl::DataLossError(absl::StrCat(
           "the target broke the protocol: it sent ", what,
           "; report this to the target's maker, with a packet trace")));
}

void InitiatorSession::Lose(Loss loss, absl::Status why) {
  if (ended()) return;
  loss_ = loss;
  failure_ = std::move(why);
  End(state_ == State::kLogin ? State::kLoginFailed : State::kLost);
}

void InitiatorSession::End(State state) {
  state_ = state;
  const absl::Status status =
      !failure_.ok() ? failure_ : absl::CancelledError("the session ended");
  FailRequests(status);
}

void InitiatorSession::ConnectionLost(const absl::Status& why) {
  if (ended()) return;
  if (state_ == State::kLoggingOut) {
    // The session is gone, which is what was asked for.
    Finish(&logout_, absl::OkStatus());
    return End(State::kLoggedOut);
  }
  Lose(Loss::kConnection, why);
}

void InitiatorSession::Terminate(const absl::Status& why) {
  Lose(Loss::kConnection, why);
  CloseDown();
}

void InitiatorSession::ConnectionTerminateNotify(const absl::Status& why) {
  ConnectionLost(why);
}

// The initiator cannot refuse a PDU of the target but by ending the session.
void InitiatorSession::RejectNotify(RejectPdu::Reason reason,
                                    const uint8_t* bhs, const char* why) {
  if (ended()) return;
  const std::string pdu = OpcodeName(DecodeFrame(bhs).opcode);
  if (reason == RejectPdu::kDataDigestError) {
    // RFC 7143 section 7.8; level 0 has no SNACK. Not the target's fault: its
    // commands are worth another try.
    return Lose(Loss::kConnection,
                absl::DataLossError(absl::StrCat(
                    "data digest error in a ", pdu,
                    " PDU: the network corrupts data; check links and NICs")));
  }
  if (tasks_.WasConcluded(DecodeFrame(bhs).initiator_task_tag)) {
    return RefuseLateAnswer();
  }
  ProtocolError(absl::StrCat("a ", pdu, " PDU that is wrong: ", why));
}

// Outside of any notification: the datamover may not be ended inside its own.
void InitiatorSession::CloseDown() {
  if (closed_down_) return;
  closed_down_ = true;
  datamover_->ConnectionTerminate();
}

absl::Time InitiatorSession::Advance(absl::Time now, absl::Time last_receive) {
  now_ = now;
  if (!ended()) CheckTimeouts(last_receive);
  if (!ended()) {
    if (state_ == State::kFullFeature && logout_requested_) {
      logout_by_ = std::min(logout_by_, now_ + logout_within_);
      if (tasks_.empty() || now_ >= logout_by_) {
        Logout(LogoutRequestPdu::kCloseSession, options_.login.cid, now_,
               nullptr);
      }
    }
    TakeEarlyResponse();
  }
  if (!ended()) {
    SendPingAnswers();
    SendUnsent();
    StartRequests();
    return NextDeadline(last_receive);
  }
  CloseDown();
  return absl::InfiniteFuture();
}

void InitiatorSession::CheckTimeouts(absl::Time last_receive) {
  if (now_ >= login_deadline_) {
    return Lose(Loss::kTimeout,
                absl::DeadlineExceededError(absl::StrCat(
                    "the target did not finish the login within ",
                    absl::FormatDuration(options_.timeouts.login_timeout))));
  }
  for (Lane* lane : {&logout_, &task_management_, &general_}) {
    if (!lane->current.has_value()) continue;
    Request& request = *lane->current;
    // Whoever sends is alive, and its answer may wait behind what it sends.
    if (request.kind == Request::Kind::kPing && !request.unsent &&
        last_receive + options_.timeouts.nop_timeout > request.deadline) {
      request.deadline = last_receive + options_.timeouts.nop_timeout;
    }
    if (now_ >= std::min(request.deadline, request.answer_by)) {
      RequestTimedOut(lane);
    }
    if (ended()) return;
  }
  if (state_ != State::kFullFeature) return;
  TimeOutCommands();
  if (ended()) return;
  if (options_.timeouts.nop_interval > absl::ZeroDuration() &&
      now_ >= last_receive + options_.timeouts.nop_interval &&
      !general_.current.has_value() && general_.waiting.empty()) {
    Enqueue(&general_, Request());
  }
}

absl::Time InitiatorSession::NextDeadline(absl::Time last_receive) const {
  absl::Time next = std::min(login_deadline_, logout_by_);
  for (const Lane* lane : {&logout_, &task_management_, &general_}) {
    if (lane->current.has_value()) {
      next =
          std::min({next, lane->current->deadline, lane->current->answer_by});
    }
  }
  if (state_ != State::kFullFeature) return next;
  if (options_.timeouts.nop_interval > absl::ZeroDuration() &&
      !general_.current.has_value()) {
    next = std::min(next, last_receive + options_.timeouts.nop_interval);
  }
  if (options_.timeouts.command_timeout > absl::ZeroDuration()) {
    for (TaskSlot slot = tasks_.oldest(); slot != kNoTask;
         slot = tasks_[slot].next) {
      const InitiatorTask& task = tasks_[slot];
      if (task.state != InitiatorTask::State::kActive ||
          task.abort != InitiatorTask::Abort::kNone) {
        continue;
      }
      return std::min(next, task.issued + options_.timeouts.command_timeout);
    }
  }
  return next;
}

}  // namespace skiff::protocol
