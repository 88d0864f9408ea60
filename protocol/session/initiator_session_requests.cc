// What an initiator's session asks of the target besides SCSI commands and task
// management: pings, texts, logout.

#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {
namespace {

absl::Status EndedError() {
  return absl::FailedPreconditionError(
      "the session is not in full feature phase");
}

}  // namespace

bool InitiatorSession::Enqueue(Lane* lane, Request request) {
  absl::Status refused;
  if (state_ != State::kFullFeature) {
    refused = EndedError();
  } else if (lane->waiting.size() >= options_.max_requests) {
    refused = absl::ResourceExhaustedError(
        absl::StrCat(options_.max_requests,
                     " requests wait for the target already (max_requests)"));
  } else {
    lane->waiting.push_back(std::move(request));
    return true;
  }
  if (request.done) {
    completions_->Add(
        [done = std::move(request.done), refused]() mutable { done(refused); });
  }
  if (request.text_done) {
    completions_->Add([done = std::move(request.text_done), refused]() mutable {
      done(refused);
    });
  }
  return false;
}

void InitiatorSession::Ping(StatusCallback done) {
  Request request;
  request.done = std::move(done);
  Enqueue(&general_, std::move(request));
}

void InitiatorSession::SendText(std::string keys, TextCallback done) {
  Request request;
  request.kind = Request::Kind::kText;
  request.text = std::move(keys);
  request.text_done = std::move(done);
  Enqueue(&general_, std::move(request));
}

void InitiatorSession::Logout(LogoutRequestPdu::Reason reason, uint16_t cid,
                              StatusCallback done) {
  if (state_ != State::kFullFeature || logout_.current.has_value()) {
    if (!done) return;
    return completions_->Add(
        [done = std::move(done)]() mutable { done(EndedError()); });
  }
  logout_.current.emplace();
  logout_.current->kind = Request::Kind::kLogout;
  logout_.current->reason = reason;
  logout_.current->cid = cid;
  logout_.current->done = std::move(done);
  logout_by_ = absl::InfiniteFuture();
  if (reason != LogoutRequestPdu::kRemoveForRecovery) {
    state_ = State::kLoggingOut;
  }
  SendRequest(&logout_);
}

// Before the target answers a function that ends a task set, it may wait for
// the acknowledgement of the tasks' responses (section 11.6.1), which without
// other traffic nothing would carry. A ping that wants an answer does: tgt
// stops sending over several that want none.
bool InitiatorSession::AckIsOwed() const {
  return ack_wanted_ && acknowledged_stat_sn_ != exp_stat_sn_ &&
         task_management_.current.has_value() &&
         task_management_.current->function !=
             TaskManagementFunction::kAbortTask;
}

void InitiatorSession::StartRequests() {
  if (state_ != State::kFullFeature) return;
  if (!general_.current.has_value() && general_.waiting.empty() &&
      AckIsOwed()) {
    Enqueue(&general_, Request());
  }
  if (!general_.current.has_value() && !general_.waiting.empty()) {
    general_.current = std::move(general_.waiting.front());
    general_.waiting.pop_front();
    SendRequest(&general_);
  }
  if (!task_management_.current.has_value()) StartTaskManagement();
}

void InitiatorSession::SendRequest(Lane* lane) {
  Request& request = *lane->current;
  lane->NextTag();
  absl::Duration timeout = options_.task_management_timeout;
  switch (request.kind) {
    case Request::Kind::kPing:
      if (options_.nop_timeout > absl::ZeroDuration()) {
        timeout = options_.nop_timeout;
      }
      SendPing();
      break;
    case Request::Kind::kText: {
      const std::string keys = std::move(request.text);
      request.text.clear();
      SendTextRequest(kReservedTag, 0, keys);
      break;
    }
    case Request::Kind::kTaskManagement:
      SendTaskManagement();
      break;
    case Request::Kind::kLogout:
      timeout = options_.logout_timeout;
      SendLogout();
      break;
  }
  request.deadline =
      timeout > absl::ZeroDuration() ? now_ + timeout : absl::InfiniteFuture();
}

void InitiatorSession::SendPing() {
  NopOutPdu pdu;
  pdu.immediate = true;
  pdu.initiator_task_tag = general_.tag();
  pdu.cmd_sn = window_.cmd_sn();
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  ack_wanted_ = false;
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(bhs.data(), {});
}

void InitiatorSession::SendTextRequest(uint32_t target_transfer_tag, Lun lun,
                                       absl::string_view keys) {
  TextRequestPdu pdu;
  pdu.immediate = true;
  pdu.lun = lun;
  pdu.initiator_task_tag = general_.tag();
  pdu.target_transfer_tag = target_transfer_tag;
  pdu.cmd_sn = window_.cmd_sn();
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(
      bhs.data(), {reinterpret_cast<const uint8_t*>(keys.data()), keys.size()});
}

void InitiatorSession::SendLogout() {
  LogoutRequestPdu pdu;
  pdu.immediate = true;
  pdu.reason = logout_.current->reason;
  pdu.initiator_task_tag = logout_.tag();
  pdu.cid = logout_.current->cid;
  pdu.cmd_sn = window_.cmd_sn();
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(bhs.data(), {});
}

// The lane is free for the next; callers learn of it through the queue.
void InitiatorSession::Finish(Lane* lane, const absl::Status& status) {
  if (!lane->current.has_value()) return;
  Request request = std::move(*lane->current);
  lane->current.reset();
  if (lane == &task_management_) hold_issue_ = false;
  if (request.done) {
    completions_->Add(
        [done = std::move(request.done), status]() mutable { done(status); });
  }
  if (!request.text_done) return;
  completions_->Add([done = std::move(request.text_done), status,
                     text = std::move(request.text)]() mutable {
    if (status.ok()) {
      done(std::move(text));
    } else {
      done(status);
    }
  });
}

void InitiatorSession::FailRequests(const absl::Status& status) {
  for (Lane* lane : {&task_management_, &general_, &logout_}) {
    Finish(lane, status);
    while (!lane->waiting.empty()) {
      lane->current = std::move(lane->waiting.front());
      lane->waiting.pop_front();
      Finish(lane, status);
    }
  }
}

void InitiatorSession::RequestTimedOut(Lane* lane) {
  const Request& request = *lane->current;
  switch (request.kind) {
    case Request::Kind::kPing:
      return Lose(
          Loss::kTimeout,
          absl::DeadlineExceededError(absl::StrCat(
              "the target is silent: no answer to a ping "
              "within ",
              absl::FormatDuration(options_.nop_timeout), " (nop_timeout)")));
    case Request::Kind::kText:
      return Lose(Loss::kTimeout, absl::DeadlineExceededError(
                                      "the target did not answer a Text "
                                      "Request"));
    case Request::Kind::kLogout:
      Finish(lane, absl::DeadlineExceededError(absl::StrCat(
                       "the target did not answer the logout within ",
                       absl::FormatDuration(options_.logout_timeout))));
      return End(State::kLoggedOut);
    case Request::Kind::kTaskManagement:
      return TaskManagementTimedOut();
  }
}

void InitiatorSession::OnTextResponse(const ControlPdu& pdu) {
  TextResponsePdu response;
  if (!Decoded(Decode(pdu.bhs, &response), "Text Response") ||
      !AcceptStatSn(response.stat_sn, "Text Response") ||
      !AcceptWindow(response.exp_cmd_sn, response.max_cmd_sn)) {
    return;
  }
  if (!general_.Owns(response.initiator_task_tag) ||
      general_.current->kind != Request::Kind::kText) {
    return ProtocolError("a Text Response with an unknown Initiator Task Tag");
  }
  Request& request = *general_.current;
  if (request.text.size() + pdu.data.size() > options_.max_text_bytes) {
    return ProtocolError(absl::StrCat("a text answer of more than ",
                                      options_.max_text_bytes,
                                      " bytes (max_text_bytes)"));
  }
  request.text.append(reinterpret_cast<const char*>(pdu.data.data()),
                      pdu.data.size());
  if (response.final) return Finish(&general_, absl::OkStatus());
  if (response.target_transfer_tag == kReservedTag) {
    return ProtocolError(
        "a Text Response to be continued without Target Transfer Tag");
  }
  if (pdu.data.empty()) {
    return ProtocolError("a Text Response to be continued, without any text");
  }
  if (++request.exchanges >= options_.max_text_exchanges) {
    return ProtocolError(absl::StrCat("a text answer in more than ",
                                      options_.max_text_exchanges, " PDUs"));
  }
  SendTextRequest(response.target_transfer_tag, response.lun, "");
  if (request.deadline != absl::InfiniteFuture()) {
    request.deadline = now_ + options_.task_management_timeout;
  }
}

void InitiatorSession::OnLogoutResponse(const ControlPdu& pdu) {
  LogoutResponsePdu response;
  if (!Decoded(Decode(pdu.bhs, &response), "Logout Response")) return;
  if (!logout_.Owns(response.initiator_task_tag)) {
    return ProtocolError(
        "a Logout Response with an unknown Initiator Task Tag");
  }
  if (!AcceptStatSn(response.stat_sn, "Logout Response") ||
      !AcceptWindow(response.exp_cmd_sn, response.max_cmd_sn)) {
    return;
  }
  absl::Status status;
  switch (response.response) {
    case LogoutResponsePdu::kClosed:
      break;
    case LogoutResponsePdu::kCidNotFound:
      status = absl::NotFoundError(
          "logout: the target does not know the connection id");
      break;
    case LogoutResponsePdu::kRecoveryNotSupported:
      status = absl::UnimplementedError(
          "logout: the target does not support connection recovery");
      break;
    default:
      status = absl::InternalError(
          absl::StrCat("logout: the target's cleanup failed (response ",
                       response.response, ")"));
  }
  const bool closes =
      logout_.current->reason != LogoutRequestPdu::kRemoveForRecovery;
  if (response.response != LogoutResponsePdu::kClosed) {
    time2wait_ = absl::Seconds(response.time2wait);
  }
  Finish(&logout_, status);
  if (closes) End(State::kLoggedOut);
}

}  // namespace skiff::protocol
