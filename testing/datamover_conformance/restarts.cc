// Sessions that a target ends, or loses with everything else, under load: over
// every network.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

// A network and a seed.
class RestartTest
    : public ::testing::TestWithParam<std::tuple<Network, uint64_t>> {
 protected:
  RestartTest()
      : stack_(std::get<0>(GetParam()).MakeStack(std::get<1>(GetParam()))) {}

  // Commands that go on whatever happens.
  void BeginLoad(const InitiatorOptions& options) {
    stack_->LogIn(options);
    VerifiedLoad::Options load;
    load.commands = UINT64_MAX;
    load_.emplace(stack_->initiator.get(), &stack_->random(), load);
    load_->Start();
  }
  void RunSome() {
    const uint64_t goal = load_->completed() + 200;
    EXPECT_TRUE(stack_->RunUntil([&] { return load_->completed() >= goal; }))
        << Log();
  }
  // Two losses of a session at once would be one to it.
  void ExpectRestored(uint64_t times) {
    EXPECT_TRUE(stack_->RunUntil([&] {
      return stack_->initiator->stats().reconnects >= times;
    })) << Log();
  }
  void FinishLoad() {
    RunSome();
    load_->Finish();
    EXPECT_TRUE(stack_->RunUntil([this] { return load_->done(); }))
        << load_->completed() << " commands completed\n"
        << Log();
    for (const std::string& error : load_->errors()) ADD_FAILURE() << error;
  }
  std::string Log() const { return absl::StrJoin(stack_->log, "\n"); }

  // Its commands may end with the stack.
  std::optional<VerifiedLoad> load_;
  const std::unique_ptr<Stack> stack_;
};

INSTANTIATE_TEST_SUITE_P(
    Networks, RestartTest,
    ::testing::Combine(::testing::ValuesIn(Networks()),
                       ::testing::Range(uint64_t{1}, NumberOfSeeds() + 1)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param).name, "_",
                          std::get<1>(info.param));
    });

TEST_P(RestartTest, ATargetThatRestartsIsFoundAgain) {
  InitiatorOptions options = stack_->Options();
  options.reconnect.delay = absl::Milliseconds(5);
  options.reconnect.max_delay = absl::Milliseconds(50);
  BeginLoad(options);
  uint64_t times = 0;
  for (const absl::Duration grace : {absl::ZeroDuration(), absl::Seconds(5)}) {
    RunSome();
    stack_->StopServer(grace);
    EXPECT_TRUE(
        stack_->RunUntil([this] { return !stack_->initiator->connected(); }));
    // Some attempts fail.
    stack_->RunFor(absl::Milliseconds(300));
    EXPECT_FALSE(stack_->initiator->connected());
    stack_->StartServer();
    ExpectRestored(++times);
  }
  FinishLoad();
}

// By somebody who says that he is the same initiator port (RFC 7143 section
// 6.3.5), and then goes.
TEST_P(RestartTest, ASessionThatIsReinstatedComesBack) {
  const InitiatorOptions options = stack_->Options();
  BeginLoad(options);
  for (uint64_t times = 1; times <= 3; ++times) {
    RunSome();
    std::optional<absl::Status> ready;
    const auto other =
        Initiator::Create(
            &stack_->registry, stack_->initiator_reactor(), options,
            [&ready](absl::Status status) { ready = std::move(status); })
            .value();
    ASSERT_TRUE(stack_->RunUntil([&ready] { return ready.has_value(); }));
    EXPECT_TRUE(ready->ok()) << *ready;
    ExpectRestored(times);
  }
  FinishLoad();
  EXPECT_GT(stack_->initiator->stats().retries, 0u);
}

TEST_P(RestartTest, CommandsFailAtOnceWhenTheyShall) {
  InitiatorOptions options = stack_->Options();
  options.reconnect.replacement_timeout = absl::ZeroDuration();
  stack_->LogIn(options);
  stack_->StopServer();
  EXPECT_TRUE(
      stack_->RunUntil([this] { return !stack_->initiator->connected(); }));
  TestCommand early(scsi::cdb::TestUnitReady(), 0);
  stack_->Run(&early.command);
  EXPECT_EQ(early.command.outcome, Outcome::kConnectionLost);
  EXPECT_FALSE(stack_->initiator->connected());
  stack_->StartServer();
  EXPECT_TRUE(
      stack_->RunUntil([this] { return stack_->initiator->connected(); }));
  TestCommand late(scsi::cdb::Inquiry(96), 96);
  stack_->Run(&late.command);
  EXPECT_EQ(late.command.outcome, Outcome::kCompleted);
  for (const char* told : {"session lost", "session restored"}) {
    EXPECT_NE(Log().find(told), std::string::npos) << Log();
  }
}

}  // namespace
}  // namespace skiff::protocol
