#ifndef SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_H_
#define SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/initiator_datamover.h"
#include "protocol/negotiation/initiator_login.h"
#include "protocol/session/callback_queue.h"
#include "protocol/session/command_list.h"
#include "protocol/session/command_window.h"
#include "protocol/session/initiator_request.h"
#include "protocol/session/initiator_task_table.h"
#include "protocol/session/session_timeouts.h"
#include "protocol/session/unexpected_pdus.h"
#include "scsi/initiator/command.h"
#include "transport/log/log.h"

namespace skiff::protocol {

struct InitiatorSessionOptions {
  InitiatorLoginOptions login;
  SessionTimeouts timeouts;
  uint32_t max_commands = 128;  // Outstanding at once.
  uint32_t initial_cmd_sn = 1;  // Of the leading login.
  uint32_t max_requests = 256;  // Pings, texts and task management waiting.
  uint32_t max_text_bytes = 4u << 20;  // Of one Text answer, all PDUs together.
  uint32_t max_text_exchanges = 4096;  // Request/response pairs for one answer.
  // Asynchronous SCSI events; told through the completion queue.
  std::function<void(uint64_t lun, absl::Span<const uint8_t> sense)>
      on_async_event;
  // One line per remarkable event. A target can cause as many as it wants of
  // each `site`: whoever writes them limits them.
  std::function<void(absl::string_view message, const transport::LogSite& site)>
      log;
};

// The initiator's side of one session on one connection, from the first Login
// Request to the end (RFC 7143 sections 4.2, 7, 8, 11). Sans-IO: PDUs come and
// go through the datamover, time comes as an argument, results leave through
// the completion queue. After the end it is only good for TakeUnfinished() and
// destruction; whoever owns it starts another.
//
// Task management is sent for immediate delivery, one request at a time: a
// target need not hold more (section 4.2.2.1). The same holds for pings and
// Text Requests. When an iSER target has no room for more immediate requests
// (RFC 7145 section 8.1.1.3), they go in order with the commands instead, or
// wait.
class InitiatorSession final : public InitiatorDatamoverClient {
 public:
  enum class State : uint8_t {
    kLogin,
    kFullFeature,
    kLoggingOut,
    // Ends:
    kLoggedOut,
    kRedirected,   // redirect_address() says where to.
    kLoginFailed,  // failure() says why.
    kLost,         // The same; loss() says what kind.
  };
  enum class Loss : uint8_t {
    kNone,
    kConnection,  // The transport, or a digest that did not match.
    kTarget,      // The target announced it, rejected a command, or answered
                  // one that it had aborted.
    kTimeout,     // It did not answer.
    kProtocol,    // It broke the protocol.
  };

  // None of the pointers is owned. `datamover` is fresh: not yet allocated.
  InitiatorSession(const InitiatorSessionOptions& options,
                   InitiatorDatamover* datamover, CallbackQueue* completions);
  InitiatorSession(const InitiatorSession&) = delete;
  InitiatorSession& operator=(const InitiatorSession&) = delete;

  // Sends the first Login Request.
  void Start(absl::Time now);

  // Window, slots and the send queue have room for a command.
  bool CanIssue() const {
    return state_ == State::kFullFeature && !hold_issue_ && !unsent_ &&
           !logout_requested_ && window_.open() && !tasks_.full() &&
           !datamover_->congested();
  }
  // The target takes additional header segments as long as this command's
  // (MaxAHSLength, RFC 7145 section 6.8).
  bool CanCarry(const scsi::Command& command) const;
  // Only when CanIssue(), and CanCarry() the command. The command completes
  // through the completion queue.
  void Issue(scsi::Command* command, absl::Time now);
  // Why Issue() would be a mistake; null for a command that can be sent.
  static const char* Validate(const scsi::Command& command);

  // Aborts an issued command that has not completed.
  void Abort(scsi::Command* command);
  void Manage(TaskManagementFunction function, Lun lun,
              scsi::Command* referenced,
              absl::AnyInvocable<void(absl::Status)> done);
  void Ping(absl::AnyInvocable<void(absl::Status)> done);
  // A Text Request with `keys` (at most one PDU); the whole answer.
  void SendText(std::string keys,
                absl::AnyInvocable<void(absl::StatusOr<std::string>)> done);
  // Closing ends the session in any case; kRemoveForRecovery does not.
  void Logout(LogoutRequestPdu::Reason reason, uint16_t cid, absl::Time now,
              absl::AnyInvocable<void(absl::Status)> done);

  // Timers, and everything that could not be done inside a notification: call
  // it after each batch of input, and when the returned deadline is reached.
  // `last_receive`: when the peer was last heard.
  absl::Time Advance(absl::Time now, absl::Time last_receive);

  // The stream died or ended.
  void ConnectionLost(const absl::Status& why);
  // Ends everything now, as if the connection were lost.
  void Terminate(const absl::Status& why);

  // After an end: gives back the commands that were not answered, oldest first.
  // Those that must not be sent again complete instead.
  void TakeUnfinished(CommandList* retry);

  State state() const { return state_; }
  bool ended() const { return state_ >= State::kLoggedOut; }
  Loss loss() const { return loss_; }
  const absl::Status& failure() const { return failure_; }
  // How long to stay away after the end: as the target asks, in an Async
  // Message or a Logout Response; else DefaultTime2Wait. A session that was
  // logged out, or never in full feature phase, leaves nothing to wait for.
  absl::Duration time2wait() const { return time2wait_; }
  const std::string& redirect_address() const {
    return login_.redirect_address();
  }
  const Parameters& parameters() const { return login_.parameters(); }
  const LoginIdentity& identity() const { return login_.identity(); }
  uint16_t tsih() const { return login_.tsih(); }
  uint32_t outstanding() const { return tasks_.size(); }
  // Nobody waits for an answer.
  bool quiet() const {
    return tasks_.empty() && task_management_.empty() && general_.empty();
  }
  // Commands that the target answered in this session.
  uint64_t responses() const { return responses_; }

  // InitiatorDatamoverClient:
  void ControlNotify(const ControlPdu& pdu) override;
  void ResponseNotify(TaskSlot slot, const ScsiResponsePdu& response,
                      absl::Span<const uint8_t> data) override;
  void WindowNotify(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) override;
  uint32_t CurrentExpStatSn() override { return exp_stat_sn_; }
  void TaskDone(TaskSlot slot) override;
  void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                    const char* why) override;
  void ConnectionTerminateNotify(const absl::Status& why) override;

 private:
  using Request = InitiatorRequest;
  using Lane = InitiatorRequestLane;
  using StatusCallback = Request::StatusCallback;
  using TextCallback = Request::TextCallback;

  // --- initiator_session.cc: the life of the session.
  void SendLoginRequest(InitiatorLogin::Request request);
  void OnLoginResponse(const ControlPdu& pdu);
  void Dispatch(const ControlPdu& pdu);
  bool AcceptStatSn(uint32_t stat_sn, const char* pdu) {
    if (stat_sn != exp_stat_sn_) return RefuseStatSn(stat_sn, pdu);
    TakeStatSn();
    return true;
  }
  // The same for SCSI Responses and the answers to pings, each of which
  // concerns its task alone.
  bool AcceptStatSnOfTask(uint32_t stat_sn, const char* pdu) {
    if (stat_sn != exp_stat_sn_) return AcceptOutOfTurn(stat_sn, pdu);
    TakeStatSn();
    return true;
  }
  bool AcceptWindow(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) {
    if (!window_.Update(exp_cmd_sn, max_cmd_sn)) {
      return RefuseWindow(exp_cmd_sn);
    }
    immediate_requests_.Retire(window_.exp_cmd_sn());
    return true;
  }
  // The number that is expected has come, and perhaps some after it.
  void TakeStatSn() {
    do {
      early_stat_sns_.reset(exp_stat_sn_ % kMaxEarlyStatSns);
      ++exp_stat_sn_;
    } while (early_stat_sns_.test(exp_stat_sn_ % kMaxEarlyStatSns));
  }
  // The same for functions, which say something of tasks with lower numbers.
  bool AcceptStatSnOfFunction(uint32_t stat_sn) {
    const uint32_t behind = exp_stat_sn_ - stat_sn;  // RFC 1982 arithmetic.
    return login_.parameters().iser.enabled && behind > 0 &&
                   behind < kMaxEarlyStatSns
               ? AcceptOutOfTurn(stat_sn, "Task Management Response")
               : AcceptStatSn(stat_sn, "Task Management Response");
  }
  bool AcceptOutOfTurn(uint32_t stat_sn, const char* pdu);
  bool RefuseStatSn(uint32_t stat_sn, const char* pdu);
  bool RefuseWindow(uint32_t exp_cmd_sn);
  void RefuseSecondResponse();
  void RefuseLateAnswer();
  void RefuseResponse(const char* wrong);
  bool Decoded(const DecodeResult& result, const char* pdu);
  void Lose(Loss loss, absl::Status why);
  void ProtocolError(const std::string& what);
  void End(State state);
  void CloseDown();
  void CheckTimeouts(absl::Time last_receive);
  absl::Time NextDeadline(absl::Time last_receive) const;
  void Log(absl::string_view message,
           const transport::LogSite& site = transport::LogSite()) const {
    if (options_.log) options_.log(message, site);
  }

  // --- initiator_session_commands.cc: commands and their end.
  void TakeBack(TaskSlot slot, const absl::Status& why);
  void Complete(TaskSlot slot, scsi::Command::Outcome outcome);
  const char* FillResult(scsi::Command* command,
                         const ScsiResponsePdu& response,
                         absl::Span<const uint8_t> data);
  void TimeOutCommands();
  void ConcludeTasks(const Request& request);

  // --- initiator_session_requests.cc: what we ask, and the answers.
  bool Enqueue(Lane* lane, Request request);
  bool AckIsOwed() const;
  void StartRequests();
  void SendRequest(Lane* lane);
  absl::Time DeadlineOf(const Request& request) const;
  absl::Time AnswerBy(const Request& request) const;
  void TrySend(Lane* lane);
  void SendUnsent();
  void SendPing(bool immediate, uint32_t cmd_sn);
  void SendTextRequest(bool immediate, uint32_t cmd_sn);
  void SendLogout(bool immediate, uint32_t cmd_sn);
  void Finish(Lane* lane, const absl::Status& status);
  void FailRequests(const absl::Status& status);
  void RequestTimedOut(Lane* lane);
  std::string WhyTimedOut(const Request& request) const;
  void OnNopIn(const ControlPdu& pdu);
  void OnTextResponse(const ControlPdu& pdu);
  void OnLogoutResponse(const ControlPdu& pdu);
  void NoteTime2Wait(const LogoutResponsePdu& response);

  // --- initiator_session_management.cc: task management.
  void StartTaskManagement();
  void StartAbort(InitiatorTask* task);
  void StartReset(InitiatorTask* task);
  InitiatorTask* OldestWith(InitiatorTask::Abort abort);
  void AbortRefused(uint32_t referenced_tag);
  void SendTaskManagement(bool immediate, uint32_t cmd_sn);
  void TaskManagementTimedOut();
  void OnTaskManagementResponse(const ControlPdu& pdu);
  bool IsEarly(const TaskManagementResponsePdu& response) const;
  void TakeEarlyResponse();
  void Conclude(const TaskManagementResponsePdu& response);

  // --- initiator_session_events.cc: what the target says unasked.
  void OnReject(const ControlPdu& pdu);
  void RejectCommand(TaskSlot slot, uint8_t reason);
  void OnAsyncMessage(const ControlPdu& pdu);
  void OfferToNegotiate();
  void OnScsiEvent(Lun lun, absl::Span<const uint8_t> data);
  void AnswerPing(const NopInPdu& ping);
  void SendNopOut(uint32_t target_transfer_tag, Lun lun);
  void SendPingAnswers();
  bool AdmitUnexpected(const char* pdu);
  bool UnexpectedAckIsOwed();
  bool IsOutstanding(const BhsFrame& request) const;

  const InitiatorSessionOptions options_;
  InitiatorDatamover* const datamover_;
  CallbackQueue* const completions_;
  InitiatorLogin login_;
  State state_ = State::kLogin;
  Loss loss_ = Loss::kNone;
  absl::Status failure_;
  absl::Duration time2wait_;
  bool closed_down_ = false;

  absl::Time now_;
  absl::Time login_deadline_ = absl::InfiniteFuture();

  CommandWindow window_;
  uint32_t exp_stat_sn_ = 0;
  // Over iSER, those that came before their turn, by their remainder.
  static constexpr uint32_t kMaxEarlyStatSns = 1024;
  std::bitset<kMaxEarlyStatSns> early_stat_sns_;
  // One that has to wait until those before it have come.
  std::optional<TaskManagementResponsePdu> early_response_;
  uint32_t acknowledged_stat_sn_ = 0;  // The ExpStatSN sent last.
  std::string refusal_;        // Why a command was not sent: each reason once.
  bool any_response_ = false;  // StatSN is known.
  // A reset is on its way: what it covers must not grow (section 11.5.1).
  bool hold_issue_ = false;
  InitiatorTaskTable tasks_;
  uint64_t responses_ = 0;
  uint32_t aborts_wanted_ = 0;
  uint32_t resets_wanted_ = 0;

  Lane task_management_;
  Lane general_;  // Pings and texts.
  Lane logout_;
  bool unsent_ = false;  // A request of some lane waits to be sent.
  UnexpectedPdus immediate_requests_;  // Of ours,
  UnexpectedPdus unexpected_;          // and of the target's, pings apart.
  bool ack_wanted_ = false;            // Of the response of a command.
  std::deque<NopInPdu> ping_answers_;  // Waiting for room in the send queue.
  // The target asked for a logout: how soon, and by when, which the next
  // Advance() knows.
  bool logout_requested_ = false;
  absl::Duration logout_within_;
  absl::Time logout_by_ = absl::InfiniteFuture();
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_H_
