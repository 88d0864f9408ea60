#include "protocol/session/initiator_session_test_util.h"

#include <utility>

#include "protocol/codec/wire_test_util.h"
#include "protocol/negotiation/login_test_util.h"

namespace skiff::protocol {
namespace {

std::string ToString(absl::Span<const uint8_t> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

void ScriptedDatamover::SendControl(const uint8_t* bhs,
                                    absl::Span<const uint8_t> data) {
  Control control;
  std::copy(bhs, bhs + kBhsSize, control.bhs.begin());
  EncodeLengths(control.bhs.data(), 0, static_cast<uint32_t>(data.size()));
  control.data = ToString(data);
  controls.push_back(std::move(control));
}

absl::Status ScriptedDatamover::SendCommand(const OutgoingCommand& command) {
  EXPECT_FALSE(terminated);
  if (!refusal.ok()) return refusal;
  Command sent;
  sent.slot = command.task;
  sent.pdu = *command.pdu;
  sent.extended_cdb = ToString(command.ahs.extended_cdb);
  if (command.ahs.has_bidi_read_length) {
    sent.bidi_read_length = command.ahs.bidi_read_length;
  }
  commands.push_back(std::move(sent));
  return absl::OkStatus();
}

Progress ScriptedDatamover::DeallocateTaskResources(TaskSlot task) {
  deallocated.push_back(task);
  return hold_task_done ? Progress::kPending : Progress::kDone;
}

InitiatorSessionTest::InitiatorSessionTest() {
  options_.login.identity.initiator_name = "iqn.2001-04.com.example:host";
  options_.login.identity.target_name = "iqn.2001-04.com.example:disk";
  options_.login.isid = {0x80, 1, 2, 3, 4, 5};
  options_.max_commands = 4;
  options_.initial_cmd_sn = 0xfffffffd;  // Wraps soon.
  options_.timeouts.nop_interval = absl::ZeroDuration();
  options_.log = [this](absl::string_view message, const transport::LogSite&) {
    log_.emplace_back(message);
  };
}

void InitiatorSessionTest::Start() {
  session_.reset();
  mover_ = ScriptedDatamover();
  session_ =
      std::make_unique<InitiatorSession>(options_, &mover_, &completions_);
  session_->Start(now_);
}

void InitiatorSessionTest::AnswerLogin(LoginStatus status) {
  FakePolicy policy;
  policy.admit = status;
  policy.address = "192.0.2.9:3261";
  policy.tsih = 5;
  policy.offer.iser.enabled = options_.login.offer.iser.enabled;
  TargetLogin target(&policy, TargetLogin::Limits());
  while (session_->state() == InitiatorSession::State::kLogin &&
         !mover_.controls.empty()) {
    std::string data;
    const auto request = Sent<LoginRequestPdu>(&data);
    EXPECT_EQ(request.cmd_sn, options_.initial_cmd_sn);
    TargetLogin::Reply reply = *target.OnRequest(request, AsBytes(data));
    reply.pdu.initiator_task_tag = request.initiator_task_tag;
    Deliver(reply.pdu, reply.data);
  }
}

void InitiatorSessionTest::LogIn(uint32_t window) {
  exp_cmd_sn_ = options_.initial_cmd_sn;
  max_cmd_sn_ = exp_cmd_sn_ + window - 1;
  Start();
  AnswerLogin();
  ASSERT_EQ(session_->state(), InitiatorSession::State::kFullFeature)
      << session_->failure();
  EXPECT_TRUE(mover_.enabled);
}

void InitiatorSessionTest::DeliverBhs(Bhs bhs, const std::string& data) {
  EncodeLengths(bhs.data(), 0, static_cast<uint32_t>(data.size()));
  session_->ControlNotify(
      {DecodeFrame(bhs.data()), bhs.data(), {}, AsBytes(data)});
}

scsi::Command* InitiatorSessionTest::MakeCommand() {
  scsi::Command& command = storage_.emplace_back();
  command.cdb[0] = 0x28;
  command.context = this;
  command.done = [](scsi::Command* done) {
    static_cast<InitiatorSessionTest*>(done->context)
        ->completed_.push_back(done);
  };
  return &command;
}

scsi::Command* InitiatorSessionTest::MakeRead(uint32_t length) {
  scsi::Command* command = MakeCommand();
  std::string& buffer = buffers_.emplace_back(length, '\0');
  command->data_in = &iovecs_.emplace_back(iovec{buffer.data(), length});
  command->data_in_count = 1;
  command->data_in_length = length;
  return command;
}

scsi::Command* InitiatorSessionTest::MakeWrite(uint32_t length) {
  scsi::Command* command = MakeCommand();
  std::string& buffer = buffers_.emplace_back(length, '\0');
  command->data_out = &iovecs_.emplace_back(iovec{buffer.data(), length});
  command->data_out_count = 1;
  command->data_out_length = length;
  return command;
}

ScriptedDatamover::Command InitiatorSessionTest::Issue(scsi::Command* command) {
  EXPECT_TRUE(session_->CanIssue());
  session_->Issue(command, now_);
  ScriptedDatamover::Command sent = mover_.commands.back();
  mover_.commands.clear();
  return sent;
}

void InitiatorSessionTest::Respond(const ScriptedDatamover::Command& to,
                                   uint8_t status, const std::string& data) {
  ScsiResponsePdu response;
  response.status = status;
  Respond(to, response, data);
}

void InitiatorSessionTest::Respond(const ScriptedDatamover::Command& to,
                                   ScsiResponsePdu response,
                                   const std::string& data) {
  response.initiator_task_tag = to.pdu.initiator_task_tag;
  response.stat_sn = stat_sn_++;
  response.exp_cmd_sn = exp_cmd_sn_;
  response.max_cmd_sn = max_cmd_sn_;
  session_->ResponseNotify(to.slot, response, AsBytes(data));
}

absl::Time InitiatorSessionTest::Advance(absl::Duration by) {
  now_ += by;
  return session_->Advance(now_, last_receive_);
}

absl::Time InitiatorSessionTest::AdvanceHearing(absl::Duration by) {
  now_ += by;
  last_receive_ = now_;
  return session_->Advance(now_, last_receive_);
}

std::vector<scsi::Command*> InitiatorSessionTest::Completed() {
  completions_.Run();
  return std::exchange(completed_, {});
}

void InitiatorSessionTest::ExpectLost(InitiatorSession::Loss loss,
                                      const std::string& why) {
  EXPECT_EQ(session_->state(), InitiatorSession::State::kLost);
  EXPECT_EQ(session_->loss(), loss);
  EXPECT_NE(session_->failure().message().find(why), absl::string_view::npos)
      << session_->failure();
}

}  // namespace skiff::protocol
