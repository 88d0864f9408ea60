// Targets that have moved, and targets that misbehave at the level of
// connections: small scripted ones on the simulated network.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/retrying_command.h"
#include "testing/sim/sim_transport.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

// Reads PDUs without digests, and answers as the test wants.
class ScriptedTarget : private transport::StreamObserver {
 public:
  using Script =
      std::function<std::string(const BhsFrame& frame, const uint8_t* bhs)>;

  ScriptedTarget(testing::SimWorld* world, transport::Transport* transport,
                 const std::string& uri)
      : reactor_(world->AddReactor("server")) {
    auto listener = transport->Listen(
        reactor_, transport::Address::Parse(uri).value(), {},
        [this](std::unique_ptr<transport::ConnectionRequest> request) {
          ++connections;
          request->Accept(reactor_, {},
                          [this](absl::StatusOr<transport::Endpoint> made) {
                            if (made.ok()) Serve(*std::move(made));
                          });
        });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  ~ScriptedTarget() override {
    if (stream_ != nullptr) stream_->SetObserver(nullptr);
  }

  void Drop() { stream_->Abort(); }
  // That a command has ended with GOOD, with room for more.
  std::string Good(const ScsiCommandPdu& command) {
    ScsiResponsePdu response;
    response.initiator_task_tag = command.initiator_task_tag;
    response.stat_sn = stat_sn++;
    response.exp_cmd_sn = command.cmd_sn + 1;
    response.max_cmd_sn = command.cmd_sn + 10;
    return ToWire(response);
  }

  FakePolicy policy;
  Script script;  // What to answer to other PDUs.
  int connections = 0;
  int commands = 0;
  uint32_t stat_sn = 1;

 private:
  void Serve(transport::Endpoint endpoint) {
    if (stream_ != nullptr) stream_->SetObserver(nullptr);
    stream_ =
        std::get<std::unique_ptr<transport::ByteStream>>(std::move(endpoint));
    login_ = std::make_unique<TargetLogin>(&policy, TargetLogin::Limits());
    input_.clear();
    stream_->SetObserver(this);
  }

  void OnReadable() override {
    char buffer[4096];
    iovec to = {buffer, sizeof(buffer)};
    for (;;) {
      const transport::IoResult result = stream_->Readv({&to, 1});
      if (result.status != transport::StreamStatus::kOk) break;
      input_.append(buffer, result.bytes);
    }
    while (input_.size() >= kBhsSize) {
      const auto* bhs = reinterpret_cast<const uint8_t*>(input_.data());
      const BhsFrame frame = DecodeFrame(bhs);
      const size_t size = kBhsSize + frame.data_segment_length +
                          PaddingFor(frame.data_segment_length);
      if (input_.size() < size) break;
      output_ += Answer(frame, bhs);
      input_.erase(0, size);
    }
    OnWritable();
  }

  void OnWritable() override {
    while (!output_.empty()) {
      const iovec from = {output_.data(), output_.size()};
      const transport::IoResult result = stream_->Writev({&from, 1});
      if (result.status != transport::StreamStatus::kOk) return;
      output_.erase(0, result.bytes);
    }
  }

  std::string Answer(const BhsFrame& frame, const uint8_t* bhs) {
    LoginRequestPdu request;
    if (!Decode(bhs, &request).ok()) {
      ++commands;
      return script ? script(frame, bhs) : "";
    }
    TargetLogin::Reply reply = *login_->OnRequest(
        request, {bhs + kBhsSize, frame.data_segment_length});
    reply.pdu.initiator_task_tag = request.initiator_task_tag;
    reply.pdu.stat_sn = stat_sn++;
    reply.pdu.exp_cmd_sn = request.cmd_sn;
    reply.pdu.max_cmd_sn = request.cmd_sn + 10;
    return ToWire(reply.pdu, reply.data);
  }

  transport::Reactor* const reactor_;
  std::unique_ptr<transport::Listener> listener_;
  std::unique_ptr<transport::ByteStream> stream_;
  std::unique_ptr<TargetLogin> login_;
  std::string input_;
  std::string output_;
};

class InitiatorScriptedTest : public ::testing::Test {
 protected:
  InitiatorScriptedTest()
      : stack_(77),
        transport_(testing::MakeSimTransport(&stack_.world)),
        scripted_(&stack_.world, transport_.get(), "sim://server:1111") {
    options_ = stack_.Options();
    options_.portal.port = 1111;
  }
  // What an initiator with options_ says that has to be refused.
  std::string Refusal() {
    auto initiator = Initiator::Create(&stack_.registry, stack_.client_reactor,
                                       options_, [](const absl::Status&) {});
    EXPECT_EQ(initiator.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(initiator.status().message());
  }
  absl::Status LogIn() {
    stack_.Connect(options_);
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
    return stack_.ready().value_or(absl::UnknownError("no outcome"));
  }

  SimStack stack_;
  std::unique_ptr<transport::Transport> transport_;
  ScriptedTarget scripted_;
  InitiatorOptions options_;
};

TEST_F(InitiatorScriptedTest, FollowsATargetThatMoved) {
  scripted_.policy.admit = LoginStatus::kTargetMovedTemporarily;
  scripted_.policy.address = "server:3260";
  EXPECT_TRUE(LogIn().ok());
  TestCommand inquiry(scsi::cdb::Inquiry(96), 96);
  stack_.Run(&inquiry.command);
  EXPECT_EQ(inquiry.command.outcome, scsi::Command::Outcome::kCompleted);
  // The configured portal is asked again after a loss.
  stack_.world.network().ResetConnections("client", "server");
  stack_.RunUntil([&] { return !stack_.initiator->connected(); });
  EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
  EXPECT_EQ(scripted_.connections, 2);
}

TEST_F(InitiatorScriptedTest, DoesNotRunInCircles) {
  scripted_.policy.admit = LoginStatus::kTargetMovedPermanently;
  scripted_.policy.address = "server:1111";
  const absl::Status status = LogIn();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("max_redirects"), absl::string_view::npos)
      << status;
  EXPECT_EQ(scripted_.connections, 5);
}

TEST_F(InitiatorScriptedTest, RefusesNonsenseAddresses) {
  scripted_.policy.admit = LoginStatus::kTargetMovedTemporarily;
  for (const char* address : {"server:99999", "server:3260?x=y", ":", "[::1"}) {
    scripted_.policy.address = address;
    EXPECT_FALSE(LogIn().ok()) << address;
  }
}

TEST_F(InitiatorScriptedTest, ReconnectsAfterAPauseThatChanceSpreads) {
  // As long as the pauses take from the loss of the session to the next one.
  const auto outage = [&](double jitter, uint64_t seed) {
    options_.reconnect.jitter = jitter;
    options_.reconnect.seed = seed;
    EXPECT_TRUE(LogIn().ok());
    scripted_.Drop();
    EXPECT_TRUE(
        stack_.RunUntil([&] { return !stack_.initiator->connected(); }));
    const absl::Time lost = stack_.world.now();
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
    return stack_.world.now() - lost;
  };
  const absl::Duration plain = outage(0, 1);
  const absl::Duration spread = outage(1, 1);
  EXPECT_GT(spread, plain + absl::Milliseconds(1));
  EXPECT_LT(spread, 2 * plain);
  const absl::Duration other = outage(1, 2);
  EXPECT_GT(absl::AbsDuration(other - spread), absl::Milliseconds(1));
}

TEST_F(InitiatorScriptedTest, ATargetThatDropsEachSessionIsAskedMoreSeldom) {
  options_.timeouts.nop_interval = absl::ZeroDuration();
  ASSERT_TRUE(LogIn().ok());
  const auto drop = [&] {
    scripted_.Drop();
    EXPECT_TRUE(
        stack_.RunUntil([&] { return !stack_.initiator->connected(); }));
    const absl::Time lost = stack_.world.now();
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
    return stack_.world.now() - lost;
  };
  absl::Duration last;
  for (int i = 0; i < 10; ++i) last = drop();
  EXPECT_GE(last, options_.reconnect.max_delay);
  // One that was up for a while is missed again.
  stack_.RunFor(options_.reconnect.max_delay);
  EXPECT_LT(drop(), options_.reconnect.max_delay / 4);
}

TEST_F(InitiatorScriptedTest, ATargetCannotSendUsAwayForADay) {
  scripted_.script = [&](const BhsFrame&, const uint8_t*) {
    AsyncMessagePdu message;
    message.async_event = AsyncMessagePdu::kSessionDropped;
    message.parameter2 = 0xffff;
    message.stat_sn = scripted_.stat_sn++;
    return ToWire(message);
  };
  options_.timeouts.nop_interval = absl::ZeroDuration();
  options_.reconnect.jitter = 0;
  ASSERT_TRUE(LogIn().ok());
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  const absl::Time begin = stack_.world.now();
  stack_.Run(&command.command);  // Fails after replacement_timeout.
  EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
  EXPECT_GE(stack_.world.now() - begin, options_.reconnect.max_time2wait);
  EXPECT_LE(stack_.world.now() - begin,
            options_.reconnect.max_time2wait + absl::Seconds(5));
}

TEST_F(InitiatorScriptedTest, ChecksTheJitter) {
  for (const double jitter : {-0.1, 1.1}) {
    options_.reconnect.jitter = jitter;
    EXPECT_THAT(Refusal(), HasSubstr("reconnect.jitter is "));
  }
}

// Without a pause, a target that refuses would be asked in a loop; an endless
// one would never ask again.
TEST_F(InitiatorScriptedTest, ChecksThePausesBetweenAttempts) {
  struct Case {
    absl::Duration first;
    absl::Duration longest;
    const char* message;
  };
  const Case cases[] = {
      {absl::ZeroDuration(), absl::Seconds(5),
       "reconnect.delay is 0 and reconnect.max_delay is 5s"},
      {-absl::Seconds(1), absl::Seconds(5), "reconnect.delay is -1s and"},
      {absl::Seconds(6), absl::Seconds(5),
       "reconnect.delay is 6s and reconnect.max_delay is 5s"},
      {absl::Seconds(1), absl::InfiniteDuration(),
       "reconnect.max_delay is inf"},
  };
  for (const Case& bad : cases) {
    options_.reconnect.delay = bad.first;
    options_.reconnect.max_delay = bad.longest;
    EXPECT_THAT(Refusal(), HasSubstr(bad.message));
  }
}

TEST_F(InitiatorScriptedTest, ChecksHowLongATargetMaySendUsAway) {
  options_.reconnect.max_time2wait = -absl::Seconds(1);
  EXPECT_THAT(Refusal(), HasSubstr("reconnect.max_time2wait is -1s; it must"));
}

// Nothing else would wake it up when fewer bytes come than were expected.
TEST_F(InitiatorScriptedTest, ChecksHowLongAnswersMayWait) {
  for (const absl::Duration delay :
       {absl::InfiniteDuration(), absl::Hours(1), -absl::Microseconds(1)}) {
    options_.coalesce.max_delay = delay;
    EXPECT_THAT(Refusal(), HasSubstr("coalesce.max_delay is ")) << delay;
  }
}

TEST_F(InitiatorScriptedTest, AMuteTargetTimesTheCommandOut) {
  ScriptedTarget mute(&stack_.world, transport_.get(), "sim://server:2222");
  options_.portal.port = 2222;
  options_.timeouts.nop_interval = absl::ZeroDuration();
  stack_.LogIn(options_);
  // Full feature phase, then silence: only the command's own timeout helps.
  options_.timeouts.command_timeout = absl::Seconds(60);
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  const absl::Time begin = stack_.world.now();
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome,
            scsi::Command::Outcome::kTimedOutWithSession);
  // ABORT TASK and LOGICAL UNIT RESET had their chance.
  EXPECT_EQ(stack_.world.now() - begin,
            options_.timeouts.command_timeout +
                2 * options_.timeouts.task_management_timeout);
}

// Linux's drops a command when a reset by another session aborts it. This one
// then refuses ABORT TASK, too, as tgt does, so that a reset hits both
// commands.
TEST_F(InitiatorScriptedTest, WhatATargetDroppedIsSentAgain) {
  int dropped = 0;
  scripted_.script = [&](const BhsFrame&, const uint8_t* bhs) {
    ScsiCommandPdu command;
    TaskManagementRequestPdu request;
    if (Decode(bhs, &command).ok()) {
      if (dropped < 2) {
        ++dropped;
        return std::string();
      }
      return scripted_.Good(command);
    }
    EXPECT_TRUE(Decode(bhs, &request).ok());
    TaskManagementResponsePdu response;
    response.initiator_task_tag = request.initiator_task_tag;
    if (request.function ==
        static_cast<uint8_t>(TaskManagementFunction::kAbortTask)) {
      response.response = TaskManagementResponsePdu::kTaskDoesNotExist;
    }
    response.stat_sn = scripted_.stat_sn++;
    response.exp_cmd_sn = request.cmd_sn;
    response.max_cmd_sn = request.cmd_sn + 10;
    return ToWire(response);
  };
  options_.timeouts.nop_interval = absl::ZeroDuration();
  options_.timeouts.command_timeout = absl::Seconds(60);
  stack_.LogIn(options_);

  scsi::RetryingCommand::Environment environment;
  environment.port = stack_.initiator.get();
  environment.reactor = stack_.client_reactor;
  int ended = 0;
  const auto done = [](scsi::RetryingCommand* command) {
    ++*static_cast<int*>(command->context());
  };
  scsi::RetryingCommand first(&environment, done, &ended);
  scsi::RetryingCommand second(&environment, done, &ended);
  for (scsi::RetryingCommand* command : {&first, &second}) {
    command->Prepare();
    SetCdb(scsi::cdb::TestUnitReady(), command->command());
    command->Start();
    // The second has time left when the first one has none.
    stack_.RunFor(absl::Seconds(30));
  }
  EXPECT_TRUE(stack_.RunUntil([&] { return ended == 2; }));
  EXPECT_TRUE(first.status().ok()) << first.status();
  EXPECT_TRUE(second.status().ok()) << second.status();
  EXPECT_EQ(scripted_.commands, 2 + 2 + 2) << "ABORT TASK and the reset, too";
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
}

TEST_F(InitiatorScriptedTest, ATargetThatDiesOfACommandIsNotAskedForever) {
  scripted_.script = [&](const BhsFrame&, const uint8_t*) {
    scripted_.Drop();
    return std::string();
  };
  options_.reconnect.replacement_timeout = absl::Seconds(10);
  ASSERT_TRUE(LogIn().ok());
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  const absl::Time begin = stack_.world.now();
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kConnectionLost);
  EXPECT_LE(stack_.world.now() - begin, absl::Seconds(20));
  EXPECT_GT(stack_.initiator->stats().retries, 2u);
}

// Although it answers others in each session.
TEST_F(InitiatorScriptedTest, WhatIsNeverAnsweredIsNotSentAgainForever) {
  constexpr uint64_t kAnswered = uint64_t{1} << 48;  // LUN 1.
  scripted_.script = [&](const BhsFrame&, const uint8_t* bhs) {
    ScsiCommandPdu command;
    if (!Decode(bhs, &command).ok() || command.lun != kAnswered) {
      return std::string();
    }
    return scripted_.Good(command);
  };
  options_.timeouts.nop_interval = absl::ZeroDuration();
  options_.reconnect.replacement_timeout = absl::Seconds(10);
  ASSERT_TRUE(LogIn().ok());
  TestCommand never(scsi::cdb::TestUnitReady(), 0);
  const absl::Time begin = stack_.world.now();
  stack_.initiator->Submit(&never.command);
  while (!never.finished && stack_.world.now() - begin < absl::Minutes(2)) {
    TestCommand other(scsi::cdb::TestUnitReady(), 0);
    other.command.lun = kAnswered;
    stack_.Run(&other.command);
    EXPECT_EQ(other.command.outcome, scsi::Command::Outcome::kCompleted);
    scripted_.Drop();
    stack_.RunUntil([&] { return !stack_.initiator->connected(); });
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
  }
  EXPECT_TRUE(never.finished);
  EXPECT_EQ(never.command.outcome, scsi::Command::Outcome::kConnectionLost);
  EXPECT_GE(stack_.world.now() - begin, options_.reconnect.replacement_timeout);
  stack_.initiator.reset();  // While its command is there.
}

TEST_F(InitiatorScriptedTest, BreakingTheProtocolFailsWhatWasOutstanding) {
  scripted_.script = [&](const BhsFrame& frame, const uint8_t*) {
    ScsiDataInPdu in;
    in.initiator_task_tag = frame.initiator_task_tag;
    in.buffer_offset = 0xfffff000;
    return ToWire(in, "poison");
  };
  ASSERT_TRUE(LogIn().ok());
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kProtocolError);
  EXPECT_EQ(command.buffer, std::string(96, '\xee'));
  EXPECT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
}

}  // namespace
}  // namespace skiff::protocol
