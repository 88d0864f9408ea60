// What an initiator's session asks of the target besides SCSI commands and task
// management: pings, texts, logout.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {
namespace {

bool IsUrgent(const InitiatorRequest& request) {
  return request.kind == InitiatorRequest::Kind::kTaskManagement ||
         request.kind == InitiatorRequest::Kind::kLogout;
}

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
                              absl::Time now, StatusCallback done) {
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
  now_ = now;  // An idle session has not looked at it for long.
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
      (AckIsOwed() || UnexpectedAckIsOwed())) {
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
  lane->NextTag();
  lane->current->deadline = DeadlineOf(*lane->current);
  TrySend(lane);
}

absl::Time InitiatorSession::DeadlineOf(const Request& request) const {
  const bool urgent = IsUrgent(request);
  const SessionTimeouts& of = options_.timeouts;
  absl::Duration timeout = of.task_management_timeout;
  if (request.kind == Request::Kind::kLogout) timeout = of.logout_timeout;
  if (request.kind == Request::Kind::kText) timeout = of.text_timeout;
  if (request.kind == Request::Kind::kPing &&
      of.nop_timeout > absl::ZeroDuration()) {
    timeout = of.nop_timeout;
  }
  // The target is not silent because it was not asked.
  if (request.unsent && !urgent) timeout = options_.timeouts.command_timeout;
  return timeout > absl::ZeroDuration() ? now_ + timeout
                                        : absl::InfiniteFuture();
}

// Of a ping or a text that is sent: a target can answer none of them, and yet
// go on sending something, or small parts of the answer.
absl::Time InitiatorSession::AnswerBy(const Request& request) const {
  const absl::Duration limit =
      request.kind == Request::Kind::kText
          ? options_.timeouts.text_answer_timeout
      : options_.timeouts.command_timeout > absl::ZeroDuration()
          ? std::max(options_.timeouts.command_timeout,
                     options_.timeouts.nop_timeout)
          : absl::ZeroDuration();
  return limit > absl::ZeroDuration() ? now_ + limit : absl::InfiniteFuture();
}

// Requests go for immediate delivery, as long as the target has room for that
// (RFC 7145 section 8.1.1.3). A place is kept for those that end tasks or the
// session. One that goes in order, with a CmdSN of its own, needs none, and its
// answer retires those before it. It is so that pings of an idle session can go
// on.
void InitiatorSession::TrySend(Lane* lane) {
  Request& request = *lane->current;
  const bool urgent = IsUrgent(request);
  const bool immediate = immediate_requests_.HasRoom(urgent ? 0 : 1);
  const bool waited = request.unsent;
  request.unsent = !immediate && !window_.open();
  unsent_ |= request.unsent;
  if (!urgent && request.unsent != waited) {
    request.deadline = DeadlineOf(request);
  }
  if (request.unsent) return;
  if (!urgent && request.answer_by == absl::InfiniteFuture()) {
    request.answer_by = AnswerBy(request);
  }
  const uint32_t cmd_sn = immediate ? window_.cmd_sn() : window_.Take();
  if (immediate) immediate_requests_.Add(cmd_sn);
  switch (request.kind) {
    case Request::Kind::kPing:
      return SendPing(immediate, cmd_sn);
    case Request::Kind::kText:
      return SendTextRequest(immediate, cmd_sn);
    case Request::Kind::kTaskManagement:
      return SendTaskManagement(immediate, cmd_sn);
    case Request::Kind::kLogout:
      return SendLogout(immediate, cmd_sn);
  }
}

void InitiatorSession::SendUnsent() {
  if (!unsent_) return;
  unsent_ = false;
  for (Lane* lane : {&logout_, &task_management_, &general_}) {
    if (!lane->current.has_value() || !lane->current->unsent) continue;
    // Nothing new follows a logout (section 11.14).
    if (state_ == State::kLoggingOut && lane != &logout_) continue;
    TrySend(lane);
  }
}

void InitiatorSession::SendPing(bool immediate, uint32_t cmd_sn) {
  NopOutPdu pdu;
  pdu.immediate = immediate;
  pdu.initiator_task_tag = general_.tag();
  pdu.cmd_sn = cmd_sn;
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  ack_wanted_ = false;
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(bhs.data(), {});
}

// The keys, or what asks for more of the answer.
void InitiatorSession::SendTextRequest(bool immediate, uint32_t cmd_sn) {
  Request& request = *general_.current;
  TextRequestPdu pdu;
  pdu.immediate = immediate;
  pdu.lun = request.lun;
  pdu.initiator_task_tag = general_.tag();
  pdu.target_transfer_tag = request.target_transfer_tag;
  pdu.cmd_sn = cmd_sn;
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  std::string keys;
  if (request.target_transfer_tag == kReservedTag) keys.swap(request.text);
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(
      bhs.data(), {reinterpret_cast<const uint8_t*>(keys.data()), keys.size()});
}

void InitiatorSession::SendLogout(bool immediate, uint32_t cmd_sn) {
  LogoutRequestPdu pdu;
  pdu.immediate = immediate;
  pdu.reason = logout_.current->reason;
  pdu.initiator_task_tag = logout_.tag();
  pdu.cid = logout_.current->cid;
  pdu.cmd_sn = cmd_sn;
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

// Of a ping or a text.
std::string InitiatorSession::WhyTimedOut(const Request& request) const {
  const auto within = [](absl::Duration limit, const char* setting) {
    return absl::StrCat(" within ", absl::FormatDuration(limit), " (", setting,
                        ")");
  };
  const bool ping = request.kind == Request::Kind::kPing;
  if (request.unsent) {
    return absl::StrCat(
        "the target took no ", ping ? "ping" : "Text Request",
        within(options_.timeouts.command_timeout, "command_timeout"),
        ": it keeps its command window closed");
  }
  if (now_ >= request.deadline) {
    return ping ? absl::StrCat(
                      "the target is silent: no answer to a ping",
                      within(options_.timeouts.nop_timeout, "nop_timeout"))
                : absl::StrCat(
                      "the target did not answer a Text Request",
                      within(options_.timeouts.text_timeout, "text_timeout"));
  }
  return ping ? absl::StrCat("the target sends, but did not answer a ping",
                             within(std::max(options_.timeouts.command_timeout,
                                             options_.timeouts.nop_timeout),
                                    "command_timeout"))
              : absl::StrCat(
                    "the target did not end its answer to a Text "
                    "Request",
                    within(options_.timeouts.text_answer_timeout,
                           "text_answer_timeout"));
}

void InitiatorSession::RequestTimedOut(Lane* lane) {
  switch (lane->current->kind) {
    case Request::Kind::kPing:
    case Request::Kind::kText:
      return Lose(Loss::kTimeout,
                  absl::DeadlineExceededError(WhyTimedOut(*lane->current)));
    case Request::Kind::kLogout:
      Finish(lane,
             absl::DeadlineExceededError(absl::StrCat(
                 "the target did not answer the logout within ",
                 absl::FormatDuration(options_.timeouts.logout_timeout))));
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
  request.target_transfer_tag = response.target_transfer_tag;
  request.lun = response.lun;
  TrySend(&general_);
  request.deadline = DeadlineOf(request);
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
  if (closes) NoteTime2Wait(response);
  Finish(&logout_, status);
  if (closes) End(State::kLoggedOut);
}

// Section 11.15.3.
void InitiatorSession::NoteTime2Wait(const LogoutResponsePdu& response) {
  switch (response.response) {
    case LogoutResponsePdu::kClosed:
      time2wait_ = absl::ZeroDuration();
      break;
    case LogoutResponsePdu::kRecoveryNotSupported:
    case LogoutResponsePdu::kCleanupFailed:
      time2wait_ = absl::Seconds(response.time2wait);
      break;
    default:  // The field says nothing.
      break;
  }
}

}  // namespace skiff::protocol
