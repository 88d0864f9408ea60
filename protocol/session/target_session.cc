#include "protocol/session/target_session.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/endian.h"
#include "protocol/codec/serial.h"
#include "protocol/session/target_session_send.h"

namespace skiff::protocol {
namespace {

// Section 4.4.2: the names of iSCSI's devices and ports. A target's portal
// group is a SCSI port of it.
scsi::NexusIdentity NexusIdentityOf(const LoginIdentity& identity,
                                    const Isid& isid) {
  const auto isid_text = absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(isid.data()), isid.size()));
  const uint16_t tag = identity.target_portal_group_tag.value_or(0);
  return {.protocol = scsi::ProtocolIdentifier::kIscsi,
          .initiator = identity.initiator_name,
          .initiator_port =
              absl::StrCat(identity.initiator_name, ",i,0x", isid_text),
          .target_port = absl::StrCat(identity.target_name, ",t,0x",
                                      absl::Hex(tag, absl::kZeroPad4)),
          .relative_target_port = tag,
          .authenticated_as = identity.authenticated_peer,
          .address = identity.peer_address};
}

// Section 11.13.5, for why there is no nexus.
LoginStatus StatusOf(const absl::Status& failure) {
  switch (failure.code()) {
    case absl::StatusCode::kNotFound:
      return LoginStatus::kNotFound;
    case absl::StatusCode::kUnauthenticated:
      return LoginStatus::kAuthenticationFailure;
    case absl::StatusCode::kPermissionDenied:
      return LoginStatus::kAuthorizationFailure;
    case absl::StatusCode::kUnavailable:
      return LoginStatus::kServiceUnavailable;
    default:
      return LoginStatus::kTargetError;
  }
}

}  // namespace

// The host's, with what must have worked out before the host establishes a
// session.
class TargetSession::Policy final : public TargetLoginPolicy {
 public:
  explicit Policy(TargetSession* session) : session_(session) {}

  LoginStatus Admit(const LoginRequestPdu& first, LoginIdentity* identity,
                    Offer* offer, std::string* target_address) override {
    return session_->host_->Admit(first, identity, offer, target_address);
  }
  std::vector<std::string> AuthMethods(const LoginIdentity& identity) override {
    return session_->host_->AuthMethods(identity);
  }
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity& identity,
                                          absl::string_view method) override {
    return session_->host_->StartAuth(identity, method);
  }
  LoginStatus Establish(const LoginRequestPdu& last,
                        const LoginIdentity& identity,
                        const Parameters& parameters, uint16_t* tsih) override {
    return session_->Establish(last, identity, parameters, tsih);
  }
  void LoginReady() override { session_->ResumeLogin(); }

 private:
  TargetSession* const session_;
};

TargetSession::TargetSession(TargetSessionHost* host,
                             TargetDatamover* datamover,
                             const TargetSessionOptions& options)
    : host_(host),
      datamover_(datamover),
      options_(options),
      policy_(std::make_unique<Policy>(this)),
      login_(std::make_unique<TargetLogin>(policy_.get(), options.login)),
      max_tasks_(options.max_tasks()),
      tags_(host->TagSecret()) {
  assert(max_tasks_ <= kMaxTaskSlots);
  tasks_.SetMaxTasks(max_tasks_);
  datamover_->SetClient(this, max_tasks_);
}

TargetSession::~TargetSession() {
  assert(phase_ == Phase::kEnded || (nexus_ == nullptr && used_ == 0));
}

// --- Input.

void TargetSession::ControlNotify(const ControlPdu& pdu) {
  switch (phase_) {
    case Phase::kLogin:
      HandleLogin(pdu);
      break;
    case Phase::kFullFeature:
      if (Admit(pdu)) Dispatch(pdu);
      if (!held_.empty()) SendHeld();
      break;
    case Phase::kClosing:
    case Phase::kTerminating:
    case Phase::kEnded:
      break;
  }
}

TaskSlot TargetSession::CommandNotify(const ControlPdu& pdu,
                                      CommandLengths* lengths) {
  if (phase_ != Phase::kFullFeature) {
    ControlNotify(pdu);
    return kNoTask;
  }
  const bool admitted = Admit(pdu);
  // Before there is a task, as it may lack memory.
  if (!held_.empty()) SendHeld();
  const Task* const task = admitted ? HandleScsiCommand(pdu) : nullptr;
  if (task == nullptr) return kNoTask;
  lengths->data_out = task->scsi.data_out_length;
  lengths->data_in = task->scsi.data_in_length;
  return task->slot;
}

// What every PDU of full feature phase tells; false if it is one too many.
bool TargetSession::Admit(const ControlPdu& pdu) {
  constexpr size_t kExpStatSnOffset = 28;
  unasked_.Retire(Load32(pdu.bhs + kExpStatSnOffset));
  return !pdu.frame.immediate || CountImmediate(pdu);
}

// RFC 7145 section 8.1. False when the initiator has more requests for
// immediate delivery outstanding than we declared to have room for.
bool TargetSession::CountImmediate(const ControlPdu& pdu) {
  constexpr size_t kTransferTagOffset = 20;
  const auto opcode = static_cast<Opcode>(pdu.frame.opcode);
  const bool answers_ping =
      opcode == Opcode::kNopOut &&
      Load32(pdu.bhs + kTransferTagOffset) != kReservedTag;
  if (answers_ping) return true;
  // Immediate PDUs carry the next CmdSN; it is the one that we expect.
  immediate_requests_.Retire(told_exp_cmd_sn_);
  if (!immediate_requests_.HasRoom()) {
    Close(absl::InvalidArgumentError(
              absl::StrCat("an immediate ", OpcodeName(pdu.frame.opcode),
                           " beyond the ", immediate_requests_.limit(),
                           " unexpected PDUs that may be outstanding "
                           "(MaxOutstandingUnexpectedPDUs)")),
          /*after_sending=*/true);
    return false;
  }
  immediate_requests_.Add(exp_cmd_sn_);
  return true;
}

// What is not asked for must not be sent when the initiator has no room for it,
// whatever it is (RFC 7145 section 8.1.2). The last place is a ping's.
bool TargetSession::MayReject() {
  if (unasked_.HasRoom(1)) return true;
  host_->Warn([this] {
    return absl::StrCat("the Reject is not sent: the initiator has not ",
                        "acknowledged ", unasked_.outstanding(),
                        " PDUs, of at most ", unasked_.limit(),
                        " (MaxOutstandingUnexpectedPDUs)");
  });
  return false;
}

// Unlike a Reject, what it tells is still true when there is room again.
void TargetSession::SendAsync(const AsyncMessagePdu& message,
                              absl::Span<const uint8_t> data,
                              absl::string_view what) {
  if (phase_ != Phase::kFullFeature) return;
  if (held_.empty() && unasked_.HasRoom(1)) return SendUnasked(message, data);
  if (held_.size() >= kMaxHeldMessages) {
    return host_->Warn([&] {
      return absl::StrCat(what, " is not sent: ", held_.size(),
                          " others wait until the initiator acknowledges what ",
                          "was sent");
    });
  }
  held_.push_back({message, std::string(data.begin(), data.end())});
}

void TargetSession::SendHeld() {
  while (phase_ == Phase::kFullFeature && !held_.empty() &&
         unasked_.HasRoom(1)) {
    const HeldMessage message = std::move(held_.front());
    held_.pop_front();
    SendUnasked(message.pdu,
                {reinterpret_cast<const uint8_t*>(message.data.data()),
                 message.data.size()});
  }
}

void TargetSession::Dispatch(const ControlPdu& pdu) {
  switch (static_cast<Opcode>(pdu.frame.opcode)) {
    case Opcode::kNopOut:
      return HandleNopOut(pdu);
    case Opcode::kTaskManagementRequest:
      return HandleTaskManagement(pdu);
    case Opcode::kTextRequest:
      return HandleText(pdu);
    case Opcode::kLogoutRequest:
      return HandleLogout(pdu);
    case Opcode::kSnackRequest:
      // Level 0 keeps nothing to send again (section 11.16.1).
      return SendReject(RejectPdu::kSnackReject, pdu.bhs,
                        "SNACK at error recovery level 0");
    case Opcode::kLoginRequest:
      return RejectNotify(RejectPdu::kProtocolError, pdu.bhs,
                          "Login Request in full feature phase",
                          AfterReject::kClose);
    default:
      return SendReject(RejectPdu::kCommandNotSupported, pdu.bhs,
                        OpcodeName(pdu.frame.opcode));
  }
}

// PDUs outside the window are ignored (section 4.2.2.1). With one connection
// over an ordered transport a gap inside the window can only come from a PDU
// that was refused, and level 0 cannot fill it.
TargetSession::Order TargetSession::RefuseOrder(uint32_t cmd_sn) {
  uint32_t exp_cmd_sn;
  uint32_t max_cmd_sn;
  CurrentWindow(&exp_cmd_sn, &max_cmd_sn);
  if (SerialLess(exp_cmd_sn, cmd_sn) && SerialLessEqual(cmd_sn, max_cmd_sn) &&
      !WasAborted(cmd_sn)) {
    Close(absl::InvalidArgumentError(
              absl::StrCat("CmdSN ", cmd_sn, " although ", exp_cmd_sn,
                           " never came (error recovery level 0)")),
          /*after_sending=*/true);
    return Order::kBroken;
  }
  host_->Warn([&] {
    return absl::StrCat("ignored a PDU with CmdSN ", cmd_sn, " outside of ",
                        exp_cmd_sn, "..", max_cmd_sn);
  });
  return Order::kIgnore;
}

void TargetSession::RejectField(const ControlPdu& in, const char* field) {
  SendReject(RejectPdu::kInvalidPduField, in.bhs, OpcodeName(in.frame.opcode),
             field);
}

// --- Login.

void TargetSession::HandleLogin(const ControlPdu& pdu) {
  LoginRequestPdu request;
  const DecodeResult decoded = Decode(pdu.bhs, &request);
  if (held_reply_.has_value() || login_->waiting() ||
      decoded.code == DecodeResult::kWrongOpcode) {
    // Section 11.13.5: "invalid during login"; also while the last reply is
    // held back, or not known yet.
    LoginResponsePdu refusal;
    refusal.isid = isid_;
    refusal.initiator_task_tag = pdu.frame.initiator_task_tag;
    refusal.status_class = 0x02;
    refusal.status_detail = 0x0b;
    held_reply_.reset();
    host_->LoginRefused(refusal.status_class, refusal.status_detail);
    Send(refusal, {});
    return Close(absl::InvalidArgumentError(absl::StrCat(
                     OpcodeName(pdu.frame.opcode), " during login")),
                 /*after_sending=*/true);
  }
  if (!decoded.ok()) {
    return Close(absl::InvalidArgumentError(
                     absl::StrCat("Login Request: bad ", decoded.field)),
                 /*after_sending=*/false);
  }
  if (!login_begun_) {
    login_begun_ = true;
    exp_cmd_sn_ = request.cmd_sn;
    isid_ = request.isid;
    cid_ = request.cid;
  }
  absl::optional<TargetLogin::Reply> reply =
      login_->OnRequest(request, pdu.data);
  if (reply.has_value()) HoldOrSend(*std::move(reply));
}

void TargetSession::ResumeLogin() {
  if (phase_ != Phase::kLogin) return;
  absl::optional<TargetLogin::Reply> reply = login_->Resume();
  if (!reply.has_value()) return;
  HoldOrSend(*std::move(reply));
  host_->Wake();
}

void TargetSession::HoldOrSend(TargetLogin::Reply reply) {
  if (login_->state() == TargetLogin::State::kFullFeature &&
      host_->MustWaitForReinstatement()) {
    held_reply_ = std::move(reply);
    return;
  }
  SendLoginReply(std::move(reply));
}

void TargetSession::FinishLogin() {
  if (phase_ != Phase::kLogin || !held_reply_.has_value()) return;
  TargetLogin::Reply reply = *std::move(held_reply_);
  held_reply_.reset();
  SendLoginReply(std::move(reply));
  host_->Wake();
}

void TargetSession::SendLoginReply(TargetLogin::Reply reply) {
  const bool done = login_->state() == TargetLogin::State::kFullFeature;
  const absl::Status opened = done ? Open(&reply) : absl::OkStatus();
  if (reply.pdu.status_class != 0) {
    host_->LoginRefused(reply.pdu.status_class, reply.pdu.status_detail);
  }
  Send(reply.pdu, {reinterpret_cast<const uint8_t*>(reply.data.data()),
                   reply.data.size()});
  if (login_->state() == TargetLogin::State::kFailed && opened_.ok()) {
    return Close(absl::FailedPreconditionError(
                     absl::StrCat("login failed: ", login_->failure())),
                 /*after_sending=*/true);
  }
  for (const absl::Status& failure : {opened_, opened}) {
    if (failure.ok()) continue;
    return Close(absl::Status(failure.code(), absl::StrCat("login failed: ",
                                                           failure.message())),
                 /*after_sending=*/true);
  }
  if (!done) return;
  parameters_ = login_->parameters();
  phase_ = Phase::kFullFeature;
  const IserParameters& iser = parameters_.iser;
  immediate_requests_.SetLimit(iser.target_max_outstanding_unexpected_pdus);
  unasked_.SetSendLimit(iser.initiator_max_outstanding_unexpected_pdus);
  datamover_->EnableDatamover(parameters_);
}

// The host ends a session that this one takes the place of. What can fail
// comes before that.
LoginStatus TargetSession::Establish(const LoginRequestPdu& last,
                                     const LoginIdentity& identity,
                                     const Parameters& parameters,
                                     uint16_t* tsih) {
  opened_ = datamover_->ReserveConnectionResources(
      parameters, host_->Reinstated(identity, last.isid));
  if (!opened_.ok()) return LoginStatus::kOutOfResources;
  opened_ = OpenNexus(identity);
  if (!opened_.ok()) return StatusOf(opened_);
  return host_->Establish(last, identity, parameters, tsih);
}

// All that the last reply promises. On failure it becomes a refusal.
absl::Status TargetSession::Open(TargetLogin::Reply* reply) {
  absl::Status opened =
      datamover_->AllocateConnectionResources(login_->parameters());
  if (opened.ok()) return opened;
  const auto code = static_cast<uint16_t>(LoginStatus::kOutOfResources);
  reply->data.clear();
  reply->pdu.transit = false;
  reply->pdu.tsih = 0;
  reply->pdu.status_class = code >> 8;
  reply->pdu.status_detail = code & 0xff;
  return opened;
}

// Normal sessions get their I_T nexus.
absl::Status TargetSession::OpenNexus(const LoginIdentity& identity) {
  if (identity.session_type == SessionType::kDiscovery) return absl::OkStatus();
  const scsi::NexusIdentity who = NexusIdentityOf(identity, isid_);
  absl::Status failure =
      absl::NotFoundError("the target was removed during login");
  target_ = host_->FindTarget(identity.target_name);
  if (target_ != nullptr) {
    auto nexus = target_->OpenNexus(host_->worker(), this, who);
    if (nexus.ok()) {
      nexus_ = *std::move(nexus);
      failure = host_->UseMemoryOf(*target_);
      if (failure.ok()) return failure;
    } else {
      failure = nexus.status();
    }
  }
  return absl::Status(failure.code(),
                      absl::StrCat("cannot open the nexus of ", who.ToString(),
                                   ": ", failure.message()));
}

// --- Time and end.

absl::Time TargetSession::Tick(absl::Time now, absl::Time last_receive) {
  if (phase_ != Phase::kFullFeature) return absl::InfiniteFuture();
  const absl::Time data = CheckDataOut(now);
  if (phase_ != Phase::kFullFeature) return absl::InfiniteFuture();
  return std::min(data, CheckSilence(now, last_receive));
}

// A look at all tasks, a few times per timeout.
absl::Time TargetSession::CheckDataOut(absl::Time now) {
  const absl::Duration timeout = options_.data_out_timeout;
  if (timeout <= absl::ZeroDuration()) return absl::InfiniteFuture();
  const Task* late = nullptr;
  tasks_.ForEach([&](Task* task) {
    if (task->state == Task::State::kActive && task->getting &&
        now - task->get_since >= timeout && late == nullptr) {
      late = task;
    }
  });
  if (late == nullptr) return now + timeout / 2;
  Close(absl::DeadlineExceededError(absl::StrCat(
            "the data of task 0x", absl::Hex(late->initiator_task_tag),
            " did not come within ", absl::FormatDuration(timeout))),
        /*after_sending=*/false);
  return absl::InfiniteFuture();
}

absl::Time TargetSession::CheckSilence(absl::Time now,
                                       absl::Time last_receive) {
  if (options_.nop_interval <= absl::ZeroDuration()) {
    return absl::InfiniteFuture();
  }
  if (last_receive >= ping_sent_) ping_sent_ = absl::InfiniteFuture();
  if (ping_sent_ != absl::InfiniteFuture()) {
    const absl::Time deadline = ping_sent_ + options_.nop_timeout;
    if (now < deadline) return deadline;
    Close(absl::DeadlineExceededError(
              absl::StrCat("no sign of life for ",
                           absl::FormatDuration(absl::Trunc(
                               now - last_receive, absl::Seconds(1))))),
          /*after_sending=*/false);
    return absl::InfiniteFuture();
  }
  const absl::Time due = last_receive + options_.nop_interval;
  if (now < due) return due;
  ping_sent_ = now;
  // Without room, what was sent already waits for the same sign of life.
  if (unasked_.HasRoom()) SendPing();
  return now + options_.nop_timeout;
}

void TargetSession::SendPing() {
  NopInPdu ping;
  ping.target_transfer_tag = ++ping_tag_ & 0x7fffffffu;
  ping_stat_sn_ = stat_sn_;
  ping_unanswered_ = true;
  unasked_.Add(stat_sn_);
  // An unsolicited NOP-In does not consume a StatSN (section 11.19.2).
  Send(ping, {}, /*consume_stat_sn=*/false);
}

void TargetSession::RequestLogout(uint16_t seconds) {
  AsyncMessagePdu message;
  message.async_event = AsyncMessagePdu::kLogoutRequested;
  message.parameter3 = seconds;
  SendAsync(message, {}, "a request to log out");
}

void TargetSession::Close(const absl::Status& why, bool after_sending) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kTerminating) return;
  phase_ = Phase::kClosing;
  host_->CloseConnection(why, after_sending);
}

void TargetSession::ConnectionTerminateNotify(const absl::Status& why) {
  Close(why, /*after_sending=*/true);
}

void TargetSession::Terminate() {
  if (closing_nexus_ || phase_ == Phase::kEnded) return;
  phase_ = Phase::kTerminating;
  datamover_->ConnectionTerminate();
  RunDeferred();
  const auto ended = [this] {
    RunDeferred();
    // Without a nexus nothing is left; with one, Aborted() retired every task.
    assert(active_ == 0);
    phase_ = Phase::kEnded;
    host_->SessionEnded();
  };
  if (nexus_ == nullptr) return ended();
  nexus_->Close(ended);
  closing_nexus_ = true;
}

void TargetSession::RunDeferred() {
  // Reports may defer more.
  while (reported_ < deferred_.size()) {
    const Deferred d = deferred_[reported_++];
    Report(d.slot, d.operation, d.outcome);
  }
  deferred_.clear();
  reported_ = 0;
}

}  // namespace skiff::protocol
