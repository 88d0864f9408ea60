#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/text.h"
#include "protocol/datamover/memory_budget.h"
#include "protocol/datamover/target_datamover.h"
#include "protocol/datamover/task_chunks.h"
#include "protocol/negotiation/parameters.h"
#include "protocol/negotiation/send_targets.h"
#include "protocol/negotiation/target_login.h"
#include "protocol/session/tag_table.h"
#include "protocol/session/target_session_options.h"
#include "protocol/session/target_session_state.h"
#include "protocol/session/unexpected_pdus.h"
#include "scsi/target/target.h"
#include "transport/log/log.h"

namespace skiff::protocol {

struct KeySpec;

// What a session asks of its surroundings, all on its reactor. The policy part
// decides the login.
class TargetSessionHost : public TargetLoginPolicy {
 public:
  // The target and the worker of an admitted normal session.
  virtual std::shared_ptr<scsi::Target> FindTarget(const std::string& name) = 0;
  virtual scsi::Worker* worker() = 0;
  // An initiator was admitted to it, whose commands are about to come. An error
  // refuses the login.
  virtual absl::Status UseMemoryOf(const scsi::Target& /*target*/) {
    return absl::OkStatus();
  }
  // The sessions that end before one of this name begins, as far as they are on
  // this reactor: their datamovers.
  virtual std::vector<const TargetDatamover*> Reinstated(const LoginIdentity&,
                                                         const Isid&) {
    return {};
  }
  // After Establish: true when an older session of the same name is still being
  // ended (session reinstatement, RFC 7143 section 6.3.5). Login waits until
  // TargetSession::FinishLogin is called.
  virtual bool MustWaitForReinstatement() = 0;
  // A login is answered with this status, and ends: not a success.
  virtual void LoginRefused(uint8_t /*status_class*/, uint8_t /*detail*/) {}
  // What SendTargets may tell this initiator. `what` is empty for all.
  virtual std::vector<DiscoveredTarget> Discover(const LoginIdentity& identity,
                                                 absl::string_view what) = 0;

  // Something was queued to be sent or deferred: call RunDeferred and send,
  // soon.
  virtual void Wake() = 0;
  // The connection is to be closed: at once, or when all that is queued has
  // left. May be called from inside any call into the session; act later.
  virtual void CloseConnection(const absl::Status& why, bool after_sending) = 0;
  // The answer to Terminate: every task has ended, the session may be destroyed
  // (not from inside the call).
  virtual void SessionEnded() = 0;
  virtual absl::Time Now() = 0;
  // Anything that peers can't know; asked once, by the constructor.
  virtual uint64_t TagSecret() { return 0; }
  // Counts what the system has no memory for; may be null.
  virtual MemoryBudget* budget() { return nullptr; }
  // Of the bytes that the connection has taken, those that the peer's host has
  // not: a system's buffer may hold seconds of a slow peer's data.
  virtual uint64_t Unacknowledged() const { return 0; }
  // A warning for the log. The host limits how many lines there are of each
  // place that calls, and formats no others: what a peer can cause with each
  // PDU costs little more.
  using LogLine = absl::FunctionRef<std::string()>;
  void Warn(LogLine line,
            const transport::LogSite& site = transport::LogSite()) {
    OnWarning(line, site);
  }
  virtual void OnWarning(LogLine line, const transport::LogSite& site) = 0;
};

// The target's end of one session and its one connection, from the first Login
// Request to the last response: login, command window, tasks, task management,
// NOP, text, logout (RFC 7143). Sans-IO: PDUs come through a datamover, SCSI
// goes to a scsi::Nexus. Knows neither sockets nor which data model runs.
class TargetSession final : public TargetDatamoverClient,
                            private scsi::TargetPort {
 public:
  struct Counters {
    uint64_t commands = 0;
    uint64_t bytes_in = 0;   // Data-out payload.
    uint64_t bytes_out = 0;  // Data-in payload.
  };
  enum class Phase : uint8_t {
    kLogin,
    kFullFeature,
    kClosing,
    kTerminating,
    kEnded
  };

  // `host` and `datamover` are not owned and outlive the session.
  TargetSession(TargetSessionHost* host, TargetDatamover* datamover,
                const TargetSessionOptions& options);
  ~TargetSession() override;

  // The older session is gone: send the held-back final Login Response.
  void FinishLogin();
  // Work that must not run inside other calls. Call soon after host->Wake().
  void RunDeferred();
  bool has_deferred() const { return !deferred_.empty(); }
  // Pings a silent initiator (`last_receive` is when bytes last arrived), and
  // ends a session whose writes wait for their data too long. Returns when to
  // call again.
  absl::Time Tick(absl::Time now, absl::Time last_receive);
  // Another process is to go on with the session: no new command begins.
  // FailedPrecondition: it is not in full feature phase, or its data model
  // can't, as `why` says; nothing has changed.
  absl::Status Hold();
  // After that: nothing is under way any more.
  bool quiet() const;
  // Once it is quiet. Terminate() follows, in any case.
  absl::StatusOr<TargetSessionState> TakeState();
  // In place of a login, at once after the constructor, with options that have
  // the queue depth and immediate tasks of `state`. An error says why the
  // session can't go on; then Terminate() follows.
  absl::Status Restore(const TargetSessionState& state);

  // Asks the initiator to log out within `seconds` (Async Message,
  // section 11.9).
  void RequestLogout(uint16_t seconds);
  // Ends everything: no more PDUs, tasks are aborted, then
  // host->SessionEnded(). The connection is the caller's to close. Where it
  // throws std::bad_alloc, call it again: it goes on.
  void Terminate();

  Phase phase() const { return phase_; }
  const LoginIdentity& identity() const { return login_->identity(); }
  const Parameters& parameters() const { return parameters_; }
  const Isid& isid() const { return isid_; }
  uint16_t tsih() const { return login_->tsih(); }
  const Counters& counters() const { return counters_; }
  // Of the commands that a logical unit got; all zero without one.
  scsi::CommandCounts CommandCounts() const {
    return nexus_ != nullptr ? nexus_->Counts() : scsi::CommandCounts();
  }
  // How many commands the initiator had outstanding when it sent the last one,
  // as its ExpStatSN tells.
  uint32_t initiator_depth() const;
  // A command waits for data of the initiator.
  bool awaits_data() const { return getting_ > 0; }

  // TargetDatamoverClient:
  void ControlNotify(const ControlPdu& pdu) override;
  TaskSlot CommandNotify(const ControlPdu& pdu,
                         CommandLengths* lengths) override;
  void TaskReady(TaskSlot slot) override;
  void TaskNotReady(TaskSlot slot) override;
  TaskSlot FindTask(uint32_t initiator_task_tag) override;
  void CurrentWindow(uint32_t* exp_cmd_sn, uint32_t* max_cmd_sn) override {
    *exp_cmd_sn = exp_cmd_sn_;
    *max_cmd_sn = exp_cmd_sn_ + Window() - 1;
  }
  uint32_t CurrentStatSn() override { return stat_sn_; }
  void DataCompletionNotify(TaskSlot slot, DataOperation operation,
                            DataOutcome outcome) override;
  void TaskDone(TaskSlot slot) override;
  void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                    const char* why, AfterReject after) override;
  void TaskDataError(TaskSlot slot, const DataFault& fault) override;
  void TaskRefused(TaskSlot slot) override;
  void TaskMemoryError(TaskSlot slot, const absl::Status& why) override;
  void ConnectionTerminateNotify(const absl::Status& why) override;

 private:
  struct Task {
    enum class State : uint8_t {
      kFree,
      kActive,    // Submitted, not answered.
      kAnswered,  // The datamover still refers to it.
    };
    State state = State::kFree;
    bool immediate = false;
    bool getting = false;     // A GetData is with the datamover,
    bool fail_get = false;    // or was refused and will be reported as failed.
    bool data_error = false;  // Ends in CHECK CONDITION with the codes below,
    bool refused = false;     // or with TASK SET FULL instead.
    bool bidirectional = false;
    uint8_t asc = 0;
    uint8_t ascq = 0;
    uint32_t putting = 0;  // PutDatas that are with the datamover.
    absl::Time get_since;  // While `getting`.
    TaskSlot slot = kNoTask;
    uint32_t initiator_task_tag = 0;
    Lun lun = 0;
    Task* next_free = nullptr;
    scsi::Task scsi;  // It begins with what is used most: next to the above.
  };
  struct Deferred {
    TaskSlot slot;
    DataOperation operation;
    DataOutcome outcome;
  };
  struct HeldMessage {
    AsyncMessagePdu pdu;
    std::string data;
  };
  class Policy;
  enum class Order : uint8_t { kInOrder, kIgnore, kBroken };
  static constexpr uint32_t kChunk = 8;

  // target_session.cc: login and life.
  void HandleLogin(const ControlPdu& pdu);
  LoginStatus Establish(const LoginRequestPdu& last,
                        const LoginIdentity& identity,
                        const Parameters& parameters, uint16_t* tsih);
  absl::Status Open(TargetLogin::Reply* reply);
  absl::Status OpenNexus(const LoginIdentity& identity);
  absl::Time CheckSilence(absl::Time now, absl::Time last_receive);
  absl::Time CheckDataOut(absl::Time now);
  void SendPing();
  void ResumeLogin();
  void HoldOrSend(TargetLogin::Reply reply);
  void SendLoginReply(TargetLogin::Reply reply);
  void Close(const absl::Status& why, bool after_sending);
  // How many commands more the initiator may send: MaxCmdSN is as far ahead of
  // ExpCmdSN (section 11.4.11), and moves when a command is answered.
  uint32_t Window() const {
    // Slots of immediate commands are set apart, so that a window once told
    // never shrinks.
    const uint32_t reserved =
        used_ - used_immediate_ + options_.max_immediate_tasks;
    return std::min(
        options_.queue_depth - std::min(active_, options_.queue_depth),
        max_tasks_ - reserved);
  }
  // Section 4.2.2.1: non-immediate PDUs are delivered in CmdSN order.
  Order CheckOrder(bool immediate, uint32_t cmd_sn) {
    if (immediate) return Order::kInOrder;
    if (cmd_sn != exp_cmd_sn_ || Window() == 0) return RefuseOrder(cmd_sn);
    ++exp_cmd_sn_;
    if (aborted_ > 0) PassAborted();
    return Order::kInOrder;
  }
  Order RefuseOrder(uint32_t cmd_sn);
  void Dispatch(const ControlPdu& pdu);
  bool Admit(const ControlPdu& pdu);
  bool CountImmediate(const ControlPdu& pdu);
  bool MayReject();
  void SendAsync(const AsyncMessagePdu& message, absl::Span<const uint8_t> data,
                 absl::string_view what);
  void SendHeld();
  template <typename Pdu>
  void SendUnasked(const Pdu& pdu, absl::Span<const uint8_t> data);
  template <typename Pdu>
  bool DecodeInOrder(const ControlPdu& in, Pdu* pdu);
  template <typename Pdu>
  bool DecodeOrReject(const ControlPdu& in, Pdu* pdu);
  void RejectField(const ControlPdu& in, const char* field);
  template <typename Pdu>
  void Stamp(Pdu* pdu, bool consume_stat_sn);
  template <typename Pdu>
  void Send(Pdu pdu, absl::Span<const uint8_t> data,
            bool consume_stat_sn = true);

  // target_session_tasks.cc: SCSI commands and scsi::TargetPort.
  Task* HandleScsiCommand(const ControlPdu& in);
  bool MayBegin(const ControlPdu& in, const ScsiCommandPdu& pdu);
  void FillTask(const ScsiCommandPdu& pdu, const AhsView& ahs, Task* task);
  Task* AllocateTask();
  void RefuseCommand(uint32_t initiator_task_tag, uint32_t expected);
  void CountRefused();
  void FreeTask(Task* task);
  Task& At(TaskSlot slot) { return tasks_[slot]; }
  void Answer(Task* task, uint32_t offset, absl::Span<const uint8_t> data);
  void Retire(Task* task);
  void Deallocate(Task* task);
  static void OverrideWithDataError(Task* task);
  void FailData(Task* task, uint8_t asc, uint8_t ascq);
  scsi::TransferResult ReceiveDataOut(scsi::Task* scsi, uint32_t offset,
                                      uint8_t* to, uint32_t length) override;
  void SendDataIn(scsi::Task* scsi, uint32_t offset, const uint8_t* from,
                  uint32_t length) override;
  void Complete(scsi::Task* scsi, uint32_t offset, const uint8_t* from,
                uint32_t length) override;
  void Aborted(scsi::Task* scsi, bool respond) override;
  void CancelTransfers(scsi::Task* scsi) override;
  void AsyncEvent(uint64_t lun, const uint8_t* sense, size_t length) override;
  uint64_t DataInTaken() const override {
    return datamover_->counters().bytes_taken - host_->Unacknowledged();
  }
  void EndNexus(absl::string_view why) override;
  void Defer(TaskSlot slot, DataOperation operation, DataOutcome outcome);
  void Report(TaskSlot slot, DataOperation operation, DataOutcome outcome);

  // target_session_control.cc: everything else.
  void HandleNopOut(const ControlPdu& in);
  void HandleTaskManagement(const ControlPdu& in);
  void AbortTask(const TaskManagementRequestPdu& pdu);
  bool CountAsReceived(const TaskManagementRequestPdu& pdu);
  bool WasAborted(uint32_t cmd_sn) const {
    return aborted_ > 0 && aborted_cmd_sns_[PlaceOf(cmd_sn)];
  }
  size_t PlaceOf(uint32_t cmd_sn) const {
    return cmd_sn & (aborted_cmd_sns_.size() - 1);
  }
  void PassAborted();
  void Manage(scsi::TaskManagement function,
              const TaskManagementRequestPdu& pdu, scsi::Task* task);
  void AnswerTaskManagement(uint32_t initiator_task_tag, uint8_t response);
  void HandleText(const ControlPdu& in);
  void ResetText();
  bool TakeText(const ControlPdu& in, bool continued);
  absl::Status CheckTextKeys(const std::vector<TextPair>& pairs);
  bool AnswerText(const std::vector<TextPair>& pairs);
  void AnswerSendTargets(const TextPair& pair);
  void AnswerSegmentLength(const TextPair& pair);
  void SendTextResponse(const TextRequestPdu& request);
  void HandleLogout(const ControlPdu& in);
  void SendReject(uint8_t reason, const uint8_t* bhs, absl::string_view why,
                  absl::string_view bad_field = "");

  TargetSessionHost* const host_;
  TargetDatamover* const datamover_;
  const TargetSessionOptions options_;
  Phase phase_ = Phase::kLogin;
  Parameters parameters_;
  const std::unique_ptr<TargetLoginPolicy> policy_;
  std::unique_ptr<TargetLogin> login_;
  absl::Status opened_;  // Why the session could not be opened.
  std::optional<TargetLogin::Reply> held_reply_;
  bool login_begun_ = false;
  bool handling_ =
      false;  // Inside a call that may touch the datamover's insides.
  Isid isid_ = {};
  uint16_t cid_ = 0;
  Counters counters_;

  // Numbering (RFC 7143 section 4.2.2).
  uint32_t exp_cmd_sn_ = 0;
  uint32_t stat_sn_ = 1;
  uint32_t told_exp_cmd_sn_ = 0;  // What the initiator knows of ExpCmdSN.
  // Of the CmdSNs in the window, those of commands that were aborted instead of
  // sent; each has its own place, as long as it is in there. Empty: none yet.
  std::vector<bool> aborted_cmd_sns_;
  uint32_t aborted_ = 0;  // How many they are.

  // RFC 7145 section 8.1: of the initiator's PDUs, and of ours. The last ping
  // has a number and a place among ours until it is answered.
  UnexpectedPdus immediate_requests_;
  UnexpectedPdus unasked_;
  // Asynchronous Messages that wait for room, in order.
  static constexpr size_t kMaxHeldMessages = 16;
  std::deque<HeldMessage> held_;
  uint32_t ping_stat_sn_ = 0;
  bool ping_unanswered_ = false;

  uint32_t max_tasks_;
  TaskChunks<Task, kChunk> tasks_;
  Task* free_ = nullptr;
  uint32_t used_ = 0;            // Slots that are not free.
  uint32_t active_ = 0;          // Not answered yet, in the window.
  uint32_t used_immediate_ = 0;  // Of `used_`, outside of the window.
  uint32_t getting_ = 0;         // Wait for data of the initiator.
  uint32_t exp_stat_sn_ = 1;     // Of the last command.
  TagTable tags_;
  std::vector<Deferred> deferred_;
  size_t reported_ = 0;  // Of these.
  bool cancelling_ = false;
  bool closing_nexus_ = false;
  absl::Time memory_error_told_ = absl::InfinitePast();
  absl::Time refused_told_ = absl::InfinitePast();
  uint64_t refused_ = 0;  // Since then.

  // SCSI.
  std::shared_ptr<scsi::Target> target_;
  std::unique_ptr<scsi::Nexus> nexus_;
  std::vector<uint32_t> managing_;  // Tags of functions in progress.

  // Text negotiation in progress: at most one (section 11.10.4).
  std::optional<TextCollector> text_in_;
  TextWriter text_out_;
  std::vector<const KeySpec*> text_keys_;  // That came in it.
  uint32_t unknown_text_keys_ = 0;
  uint32_t text_tag_ = kReservedTag;
  uint32_t text_transfer_tag_ = 0;

  // Pings (NOP-In with a transfer tag).
  uint32_t ping_tag_ = 0;
  absl::Time ping_sent_ = absl::InfiniteFuture();
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_H_
