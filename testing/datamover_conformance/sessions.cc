// Initiator and target together, without faults: over every network.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "scsi/sense.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

class SessionsTest : public ::testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(Networks, SessionsTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

TEST_P(SessionsTest, LogsInAndTellsWhatItRunsOn) {
  const auto stack = GetParam().MakeStack(1);
  stack->LogIn();
  EXPECT_TRUE(stack->initiator->connected());
  EXPECT_EQ(stack->initiator->transport_name(), GetParam().transport);
  EXPECT_EQ(stack->initiator->data_model(), GetParam().data_model);
  const std::string device = stack->initiator->connection().device;
  EXPECT_EQ(device.empty(), !GetParam().rdma());
  EXPECT_TRUE(absl::StartsWith(device, GetParam().device)) << device;
  EXPECT_EQ(stack->initiator->identity().target_name, kTargetName);
  EXPECT_FALSE(stack->initiator->peer_address().empty());
}

TEST_P(SessionsTest, ReportsUnitAttentionThenInquiryData) {
  const auto stack = GetParam().MakeStack(2);
  stack->LogIn();
  TestCommand inquiry(scsi::cdb::Inquiry(96), 96);
  stack->Run(&inquiry.command);
  EXPECT_EQ(inquiry.command.outcome, Outcome::kCompleted);
  EXPECT_EQ(inquiry.command.status, 0);
  EXPECT_EQ(inquiry.buffer.substr(8, 5), "SKIFF");
}

TEST_P(SessionsTest, AShortAnswerIsToldAsUnderflow) {
  const auto stack = GetParam().MakeStack(3);
  stack->LogIn();
  TestCommand inquiry(scsi::cdb::Inquiry(255), 1000);
  stack->Run(&inquiry.command);
  EXPECT_TRUE(inquiry.command.underflow);
  EXPECT_EQ(inquiry.command.residual,
            1000u - (static_cast<uint8_t>(inquiry.buffer[4]) + 5u));
}

TEST_P(SessionsTest, TheSelfTestPassesOrSaysWhatItDoesNotTake) {
  const auto stack = GetParam().MakeStack(15);
  stack->LogIn();
  TestCommand self_test(scsi::cdb::SendDiagnostic(), 0);
  stack->RunToGood(&self_test);

  // A diagnostic page, which there is none of, with its data.
  scsi::Cdb cdb = scsi::cdb::SendDiagnostic();
  cdb.bytes[1] = 0x10;  // PF.
  cdb.bytes[4] = 4;     // PARAMETER LIST LENGTH.
  TestCommand page(cdb, 0, std::string(4, '\0'));
  stack->Run(&page.command);
  EXPECT_EQ(page.command.outcome, Outcome::kCompleted);
  const auto sense =
      scsi::DecodeSense({page.command.sense.data(), page.command.sense_length});
  ASSERT_TRUE(sense.has_value());
  EXPECT_EQ(sense->code, scsi::AdditionalSense::kInvalidFieldInCdb);
}

TEST_P(SessionsTest, CommandsMayBeSubmittedBeforeTheLogin) {
  const auto stack = GetParam().MakeStack(4);
  stack->Connect(stack->Options());
  TestCommand inquiry(scsi::cdb::Inquiry(96), 96);
  stack->Run(&inquiry.command);
  EXPECT_EQ(inquiry.command.outcome, Outcome::kCompleted);
}

TEST_P(SessionsTest, RefusesNonsenseWithoutSendingIt) {
  const auto stack = GetParam().MakeStack(5);
  stack->LogIn();
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  command.command.cdb_length = 0;
  stack->Run(&command.command);
  EXPECT_EQ(command.command.outcome, Outcome::kInvalid);
}

// All combinations of what the data model depends on.
TEST_P(SessionsTest, MovesDataByEveryRule) {
  uint64_t seed = 100;
  for (const bool initial_r2t : {false, true}) {
    for (const bool immediate : {false, true}) {
      for (const bool digests : {false, true}) {
        if (digests && GetParam().rdma()) continue;  // RDMA has its own.
        SCOPED_TRACE(::testing::Message()
                     << "InitialR2T " << initial_r2t << ", ImmediateData "
                     << immediate << ", digests " << digests);
        const auto stack = GetParam().MakeStack(++seed);
        InitiatorOptions options = stack->Options();
        options.offer.initial_r2t = initial_r2t;
        options.offer.immediate_data = immediate;
        options.offer.max_recv_data_segment_length = 4096;
        options.offer.first_burst_length = 8192;
        options.offer.max_burst_length = 16384;
        if (digests) {
          options.offer.header_digest = {Digest::kCrc32c};
          options.offer.data_digest = {Digest::kCrc32c};
        }
        stack->LogIn(options);
        EXPECT_EQ(stack->initiator->parameters().initial_r2t,
                  initial_r2t || GetParam().initial_r2t);
        EXPECT_EQ(stack->initiator->parameters().immediate_data, immediate);
        stack->RunLoad();
        EXPECT_EQ(stack->initiator->stats().reconnects, 0u);
      }
    }
  }
}

TEST_P(SessionsTest, DeeperThanTheWindow) {
  const auto stack = GetParam().MakeStack(7, /*server_reactors=*/2);
  stack->LogIn();
  VerifiedLoad::Options options;
  options.depth = 400;  // The target's queue depth is 128.
  options.max_blocks = 16;
  options.commands = 3000;
  stack->RunLoad(options);
}

TEST_P(SessionsTest, PingsManagesAndLogsOut) {
  const auto stack = GetParam().MakeStack(9);
  stack->LogIn();
  Initiator* initiator = stack->initiator.get();
  EXPECT_TRUE(
      stack->Await([&](auto done) { initiator->Ping(std::move(done)); }).ok());
  for (TaskManagementFunction function :
       {TaskManagementFunction::kAbortTaskSet,
        TaskManagementFunction::kClearTaskSet,
        TaskManagementFunction::kLogicalUnitReset,
        TaskManagementFunction::kTargetWarmReset}) {
    const absl::Status status = stack->Await([&](auto done) {
      initiator->Manage(function, 0, nullptr, std::move(done));
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(stack
                ->Await([&](auto done) {
                  initiator->Manage(TaskManagementFunction::kLogicalUnitReset,
                                    0x0063000000000000, nullptr,
                                    std::move(done));
                })
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(
      stack->Await([&](auto done) { initiator->Logout(std::move(done)); })
          .ok());
  EXPECT_FALSE(initiator->connected());
  TestCommand late(scsi::cdb::TestUnitReady(), 0);
  stack->Run(&late.command);
  EXPECT_EQ(late.command.outcome, Outcome::kConnectionLost);
  EXPECT_FALSE(
      stack->Await([&](auto done) { initiator->Ping(std::move(done)); }).ok());
}

TEST_P(SessionsTest, Discovers) {
  const auto stack = GetParam().MakeStack(10);
  InitiatorOptions options = stack->Options();
  options.target_name.clear();
  stack->LogIn(options);
  std::optional<absl::StatusOr<std::vector<DiscoveredTarget>>> found;
  stack->initiator->SendTargets("All",
                                [&](const auto& answer) { found = answer; });
  stack->RunUntil([&] { return found.has_value(); });
  ASSERT_TRUE(found->ok()) << found->status();
  ASSERT_EQ((*found)->size(), 1u);
  EXPECT_EQ((**found)[0].name, kTargetName);
  // Discovery sessions carry no commands.
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack->Run(&command.command);
  EXPECT_EQ(command.command.outcome, Outcome::kInvalid);
}

TEST_P(SessionsTest, SaysWhyTheFirstLoginFailed) {
  const auto stack = GetParam().MakeStack(11);
  InitiatorOptions options = stack->Options();
  options.target_name = "iqn.2001-04.com.example:nowhere";
  stack->Connect(options);
  TestCommand waiting(scsi::cdb::TestUnitReady(), 0);
  stack->Run(&waiting.command);
  EXPECT_EQ(waiting.command.outcome, Outcome::kConnectionLost);
  ASSERT_TRUE(stack->ready().has_value());
  EXPECT_EQ(stack->ready()->code(), absl::StatusCode::kNotFound);
  for (const char* part : {"com.example:nowhere", stack->portal.c_str(),
                           "check the target name"}) {
    EXPECT_NE(stack->ready()->message().find(part), absl::string_view::npos)
        << *stack->ready();
  }

  stack->initiator.reset();
  stack->StopServer();
  stack->Connect(stack->Options());
  stack->RunUntil([&] { return stack->ready().has_value(); });
  ASSERT_TRUE(stack->ready().has_value());
  EXPECT_FALSE(stack->ready()->ok());
  const absl::string_view message = stack->ready()->message();
  EXPECT_TRUE(absl::StrContains(message, kTargetName)) << message;
  EXPECT_TRUE(absl::StrContains(message, stack->portal)) << message;
  // The advice is the transport's, where it has one.
  EXPECT_TRUE(absl::StrContains(message, "check the portal") ||
              absl::StrContains(message, "is a target listening there?"))
      << message;
}

TEST_P(SessionsTest, RefusesOptionsThatCannotWork) {
  const auto stack = GetParam().MakeStack(12);
  const auto create = [&](const InitiatorOptions& options) {
    return Initiator::Create(&stack->registry, stack->initiator_reactor(),
                             options,
                             [](const absl::Status&) { ADD_FAILURE(); })
        .status();
  };
  InitiatorOptions options = stack->Options();
  options.max_commands = 0;
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack->Options();
  options.offer.max_outstanding_r2t = 17;
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack->Options();
  options.target_name = "not a name";
  EXPECT_EQ(create(options).code(), absl::StatusCode::kInvalidArgument);
  options = stack->Options();
  options.portal.scheme = "carrier-pigeon";
  EXPECT_FALSE(create(options).ok());
}

TEST_P(SessionsTest, MayBeDestroyedFromADoneCallback) {
  const auto stack = GetParam().MakeStack(14);
  stack->LogIn();
  struct Context {
    Stack* stack;
    int done = 0;
  } context = {stack.get()};
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
    stack->initiator->Submit(&command);
  }
  EXPECT_TRUE(stack->RunUntil([&] { return context.done == 20; }));
}

}  // namespace
}  // namespace skiff::protocol
