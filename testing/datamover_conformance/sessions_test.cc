// Initiator and target together, over the simulated network, without faults.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"
#include "testing/datamover_conformance/fabrics.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

class SessionsTest : public ::testing::TestWithParam<Fabric> {};

INSTANTIATE_TEST_SUITE_P(Fabrics, SessionsTest, AllFabrics(), FabricName());

void ExpectClean(const VerifiedLoad& load) {
  EXPECT_TRUE(load.done()) << load.completed() << " commands completed";
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
}

TEST_P(SessionsTest, LogsInAndTellsWhatItRunsOn) {
  SimStack stack(1, 1, GetParam().rdma);
  stack.LogIn();
  EXPECT_TRUE(stack.initiator->connected());
  EXPECT_EQ(stack.initiator->transport_name(), "sim");
  EXPECT_EQ(stack.initiator->data_model(), GetParam().data_model);
  EXPECT_EQ(stack.initiator->identity().target_name, kTargetName);
  EXPECT_FALSE(stack.initiator->peer_address().empty());
}

TEST_P(SessionsTest, ReportsUnitAttentionThenInquiryData) {
  SimStack stack(2, 1, GetParam().rdma);
  stack.LogIn();
  TestCommand inquiry(scsi::cdb::Inquiry(96), 96);
  stack.Run(&inquiry.command);
  EXPECT_EQ(inquiry.command.outcome, Outcome::kCompleted);
  EXPECT_EQ(inquiry.command.status, 0);
  EXPECT_EQ(inquiry.buffer.substr(8, 5), "SKIFF");
}

TEST_P(SessionsTest, AShortAnswerIsToldAsUnderflow) {
  SimStack stack(3, 1, GetParam().rdma);
  stack.LogIn();
  TestCommand inquiry(scsi::cdb::Inquiry(255), 1000);
  stack.Run(&inquiry.command);
  EXPECT_TRUE(inquiry.command.underflow);
  EXPECT_EQ(inquiry.command.residual,
            1000u - (static_cast<uint8_t>(inquiry.buffer[4]) + 5u));
}

TEST_P(SessionsTest, CommandsMayBeSubmittedBeforeTheLogin) {
  SimStack stack(4, 1, GetParam().rdma);
  stack.Connect(stack.Options());
  TestCommand inquiry(scsi::cdb::Inquiry(96), 96);
  stack.Run(&inquiry.command);
  EXPECT_EQ(inquiry.command.outcome, Outcome::kCompleted);
}

TEST_P(SessionsTest, RefusesNonsenseWithoutSendingIt) {
  SimStack stack(5, 1, GetParam().rdma);
  stack.LogIn();
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  command.command.cdb_length = 0;
  stack.Run(&command.command);
  EXPECT_EQ(command.command.outcome, Outcome::kInvalid);
}

// All combinations of what the data model depends on.
TEST_P(SessionsTest, MovesDataByEveryRule) {
  uint64_t seed = 100;
  for (const bool initial_r2t : {false, true}) {
    for (const bool immediate : {false, true}) {
      for (const bool digests : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "InitialR2T " << initial_r2t << ", ImmediateData "
                     << immediate << ", digests " << digests);
        SimStack stack(++seed, 1, GetParam().rdma);
        InitiatorOptions options = stack.Options();
        options.offer.initial_r2t = initial_r2t;
        options.offer.immediate_data = immediate;
        options.offer.max_recv_data_segment_length = 4096;
        options.offer.first_burst_length = 8192;
        options.offer.max_burst_length = 16384;
        if (digests && !GetParam().rdma.has_value()) {
          options.offer.header_digest = {Digest::kCrc32c};
          options.offer.data_digest = {Digest::kCrc32c};
        }
        stack.LogIn(options);
        const bool rdma = GetParam().rdma.has_value();
        EXPECT_EQ(stack.initiator->parameters().initial_r2t,
                  initial_r2t || rdma);
        EXPECT_EQ(stack.initiator->parameters().immediate_data, immediate);
        VerifiedLoad load(stack.initiator.get(), &stack.world.random(), {});
        load.Start();
        stack.RunUntil([&] { return load.done(); });
        ExpectClean(load);
        EXPECT_EQ(stack.initiator->stats().reconnects, 0u);
      }
    }
  }
}

TEST_P(SessionsTest, DeeperThanTheWindow) {
  SimStack stack(7, /*server_reactors=*/2, GetParam().rdma);
  stack.LogIn();
  VerifiedLoad::Options options;
  options.depth = 400;  // The target's queue depth is 128.
  options.max_blocks = 16;
  options.commands = 3000;
  VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
  load.Start();
  stack.RunUntil([&] { return load.done(); });
  ExpectClean(load);
}

TEST_P(SessionsTest, BigCommandsOverASlowLink) {
  SimStack stack(8, 1, GetParam().rdma);
  testing::LinkOptions link = testing::LinkOptions::Calm();
  link.bytes_per_second = 50 << 20;
  link.latency_min = link.latency_max = absl::Milliseconds(3);
  stack.world.network().SetLink("client", "server", link);
  stack.LogIn();
  VerifiedLoad::Options options;
  options.depth = 4;
  options.max_blocks = 4096;  // 2 MiB.
  options.commands = 30;
  VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
  load.Start();
  stack.RunUntil([&] { return load.done(); });
  ExpectClean(load);
}

TEST_P(SessionsTest, PingsManagesAndLogsOut) {
  SimStack stack(9, 1, GetParam().rdma);
  stack.LogIn();
  Initiator* initiator = stack.initiator.get();
  EXPECT_TRUE(
      stack.Await([&](auto done) { initiator->Ping(std::move(done)); }).ok());
  for (TaskManagementFunction function :
       {TaskManagementFunction::kAbortTaskSet,
        TaskManagementFunction::kClearTaskSet,
        TaskManagementFunction::kLogicalUnitReset,
        TaskManagementFunction::kTargetWarmReset}) {
    const absl::Status status = stack.Await([&](auto done) {
      initiator->Manage(function, 0, nullptr, std::move(done));
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(stack
                .Await([&](auto done) {
                  initiator->Manage(TaskManagementFunction::kLogicalUnitReset,
                                    0x0063000000000000, nullptr,
                                    std::move(done));
                })
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(
      stack.Await([&](auto done) { initiator->Logout(std::move(done)); }).ok());
  EXPECT_FALSE(initiator->connected());
  TestCommand late(scsi::cdb::TestUnitReady(), 0);
  stack.Run(&late.command);
  EXPECT_EQ(late.command.outcome, Outcome::kConnectionLost);
  EXPECT_FALSE(
      stack.Await([&](auto done) { initiator->Ping(std::move(done)); }).ok());
}

TEST_P(SessionsTest, Discovers) {
  SimStack stack(10, 1, GetParam().rdma);
  InitiatorOptions options = stack.Options();
  options.target_name.clear();
  stack.LogIn(options);
  std::optional<absl::StatusOr<std::vector<DiscoveredTarget>>> found;
  stack.initiator->SendTargets("All",
                               [&](const auto& answer) { found = answer; });
  stack.RunUntil([&] { return found.has_value(); });
  ASSERT_TRUE(found->ok()) << found->status();
  ASSERT_EQ((*found)->size(), 1u);
  EXPECT_EQ((**found)[0].name, kTargetName);
  // Discovery sessions carry no commands.
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack.Run(&command.command);
  EXPECT_EQ(command.command.outcome, Outcome::kInvalid);
}

TEST_P(SessionsTest, SaysWhyTheFirstLoginFailed) {
  SimStack stack(11, 1, GetParam().rdma);
  InitiatorOptions options = stack.Options();
  options.target_name = "iqn.2001-04.com.example:nowhere";
  stack.Connect(options);
  TestCommand waiting(scsi::cdb::TestUnitReady(), 0);
  stack.Run(&waiting.command);
  EXPECT_EQ(waiting.command.outcome, Outcome::kConnectionLost);
  ASSERT_TRUE(stack.ready().has_value());
  EXPECT_EQ(stack.ready()->code(), absl::StatusCode::kNotFound);
  for (const char* part : {"com.example:nowhere", stack.portal.c_str(),
                           "check the target's name"}) {
    EXPECT_NE(stack.ready()->message().find(part), absl::string_view::npos)
        << *stack.ready();
  }

  options = stack.Options();
  options.portal.port = 9;
  stack.Connect(options);
  stack.RunUntil([&] { return stack.ready().has_value(); });
  EXPECT_FALSE(stack.ready()->ok());
  EXPECT_NE(stack.ready()->message().find("sim://server:9"),
            absl::string_view::npos)
      << *stack.ready();
}

TEST_P(SessionsTest, RefusesOptionsThatCannotWork) {
  SimStack stack(12, 1, GetParam().rdma);
  const auto create = [&](const InitiatorOptions& options) {
    return Initiator::Create(&stack.registry, stack.client_reactor, options,
                             [](const absl::Status&) { ADD_FAILURE(); })
        .status();
  };
  InitiatorOptions options = stack.Options();
  options.max_commands = 0;
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack.Options();
  options.offer.max_outstanding_r2t = 17;
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack.Options();
  options.target_name = "not a name";
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack.Options();
  options.portal.scheme = "carrier-pigeon";
  EXPECT_FALSE(create(options).ok());
}

TEST_P(SessionsTest, DestroyingItFailsWhatIsPending) {
  SimStack stack(13, 1, GetParam().rdma);
  stack.LogIn();
  stack.world.network().Blackhole("client", "server");
  std::vector<std::unique_ptr<TestCommand>> commands;
  for (int i = 0; i < 300; ++i) {
    commands.push_back(
        std::make_unique<TestCommand>(scsi::cdb::Read(0, 8), 8 * kBlock));
    stack.initiator->Submit(&commands.back()->command);
  }
  stack.world.RunFor(absl::Milliseconds(1));
  stack.initiator.reset();
  for (const auto& command : commands) {
    EXPECT_TRUE(command->finished);
    EXPECT_EQ(command->command.outcome, Outcome::kConnectionLost);
  }
}

TEST_P(SessionsTest, MayBeDestroyedFromADoneCallback) {
  SimStack stack(14, 1, GetParam().rdma);
  stack.LogIn();
  struct Context {
    SimStack* stack;
    int done = 0;
  } context = {&stack};
  std::vector<std::unique_ptr<TestCommand>> commands;
  for (int i = 0; i < 20; ++i) {
    commands.push_back(
        std::make_unique<TestCommand>(scsi::cdb::Inquiry(96), 96));
    scsi::Command& command = commands.back()->command;
    command.context = &context;
    command.done = [](scsi::Command* done) {
      auto* c = static_cast<Context*>(done->context);
      if (++c->done == 3) c->stack->initiator.reset();
    };
    stack.initiator->Submit(&command);
  }
  EXPECT_TRUE(stack.RunUntil([&] { return context.done == 20; }));
}

TEST_P(SessionsTest, AbortsACommandThatWaits) {
  SimStack stack(15, 1, GetParam().rdma);
  stack.LogIn();
  stack.world.network().Blackhole("client", "server");
  TestCommand sent(scsi::cdb::Read(0, 1), kBlock);
  stack.initiator->Submit(&sent.command);
  stack.world.RunFor(absl::Milliseconds(1));
  stack.initiator->Abort(&sent.command);
  EXPECT_FALSE(sent.finished);
  // The session is lost before the target hears of it; an aborted command is
  // not sent again.
  stack.RunUntil([&] { return sent.finished; });
  EXPECT_EQ(sent.command.outcome, Outcome::kAborted);
  stack.world.network().Heal("client", "server");
  EXPECT_TRUE(stack.RunUntil([&] { return stack.initiator->connected(); }));
  EXPECT_EQ(stack.initiator->stats().retries, 0u);

  TestCommand queued(scsi::cdb::Read(0, 1), kBlock);
  stack.world.network().ResetConnections("client", "server");
  EXPECT_TRUE(stack.RunUntil([&] { return !stack.initiator->connected(); }));
  stack.initiator->Submit(&queued.command);
  stack.initiator->Abort(&queued.command);
  stack.RunUntil([&] { return queued.finished; });
  EXPECT_EQ(queued.command.outcome, Outcome::kAborted);
}

}  // namespace
}  // namespace skiff::protocol
