// What a session tells of its state, and that nothing that is submitted again
// whenever it fails keeps a reactor from turning.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/initiator/cdb.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::string Describe(SessionChange change, const absl::Status& why) {
  const char* const kNames[] = {"lost", "restored", "given up", "closed"};
  return absl::StrCat(kNames[static_cast<size_t>(change)], ": ",
                      why.ToString());
}

class InitiatorStateTest : public ::testing::Test {
 protected:
  InitiatorStateTest() : stack_(testing::SimWorld::SeedFromEnvironment(1)) {
    stack_.StartServer();
  }

  void LogIn(absl::Duration replacement_timeout = absl::Minutes(2)) {
    InitiatorOptions options = stack_.Options();
    options.reconnect.replacement_timeout = replacement_timeout;
    options.on_change = [this](SessionChange change, const absl::Status& why) {
      EXPECT_FALSE(in_call_);
      changes_.push_back(Describe(change, why));
      if (on_change_ != nullptr) on_change_(change);
    };
    stack_.LogIn(options);
  }
  bool AwaitChanges(size_t count) {
    return stack_.RunUntil([&] { return changes_.size() >= count; });
  }

  std::vector<std::string> changes_;
  std::function<void(SessionChange)> on_change_;
  bool in_call_ = false;
  SimStack stack_;
};

TEST_F(InitiatorStateTest, LostAndRestored) {
  LogIn();
  EXPECT_THAT(changes_, ElementsAre()) << "on_ready tells the first";
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(1));
  EXPECT_FALSE(stack_.initiator->connected());
  stack_.RunFor(absl::Seconds(20));
  EXPECT_THAT(changes_, ElementsAre(StartsWith("lost: UNAVAILABLE: target ")))
      << "once, however often it is tried";
  stack_.StartServer();
  ASSERT_TRUE(AwaitChanges(2));
  EXPECT_TRUE(stack_.initiator->connected());
  EXPECT_EQ(changes_[1], "restored: OK");
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(3));
  EXPECT_THAT(changes_[2], StartsWith("lost: "));
}

TEST_F(InitiatorStateTest, GivenUpAndRestored) {
  LogIn(absl::Seconds(7));
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(2));
  EXPECT_THAT(changes_[1], StartsWith("given up: UNAVAILABLE: not restored "
                                      "within 7s (replacement_timeout): "));
  EXPECT_THAT(changes_[1], HasSubstr("Connection refused"));
  TestCommand late(scsi::cdb::TestUnitReady(), 0);
  stack_.Run(&late.command);
  EXPECT_EQ(late.command.outcome, scsi::Command::Outcome::kConnectionLost);
  stack_.RunFor(absl::Minutes(1));
  EXPECT_EQ(changes_.size(), 2u);
  stack_.StartServer();
  ASSERT_TRUE(AwaitChanges(3));
  EXPECT_EQ(changes_[2], "restored: OK");
}

TEST_F(InitiatorStateTest, Closed) {
  LogIn();
  in_call_ = true;
  stack_.initiator->Logout([](const absl::Status&) {});
  in_call_ = false;
  ASSERT_TRUE(AwaitChanges(1));
  EXPECT_THAT(
      changes_,
      ElementsAre(MatchesRegex("closed: CANCELLED: .*was logged out.*")));
  stack_.initiator.reset();
  EXPECT_EQ(changes_.size(), 1u);
}

TEST_F(InitiatorStateTest, NothingIsToldOfAFirstLoginThatFails) {
  stack_.StopServer();
  InitiatorOptions options = stack_.Options();
  options.on_change = [this](SessionChange change, const absl::Status& why) {
    changes_.push_back(Describe(change, why));
  };
  stack_.Connect(options);
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  stack_.RunFor(absl::Minutes(1));
  EXPECT_THAT(changes_, ElementsAre());
}

TEST_F(InitiatorStateTest, TheCallbackMayDestroyTheInitiator) {
  LogIn();
  on_change_ = [this](SessionChange) { stack_.initiator.reset(); };
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(1));
  stack_.RunFor(absl::Minutes(1));
  EXPECT_EQ(changes_.size(), 1u);
}

// A command that is submitted again whatever became of it.
struct Endless : TestCommand {
  explicit Endless(scsi::CommandPort* port_arg)
      : TestCommand(scsi::cdb::TestUnitReady(), 0), port(port_arg) {
    command.context = this;
    command.done = [](scsi::Command* done) {
      auto* self = static_cast<Endless*>(done->context);
      ++self->ended;
      if (!self->stop) self->port->Submit(done);
    };
  }
  scsi::CommandPort* port;
  int ended = 0;
  bool stop = false;
};

// The simulator fails a test in which time does not move on.
TEST_F(InitiatorStateTest, WhatIsSubmittedAgainLetsTheReactorTurn) {
  LogIn(absl::ZeroDuration());
  Endless command(stack_.initiator.get());
  int pings = 0;
  std::function<void(absl::Status)> ping = [&](const absl::Status&) {
    ++pings;
    if (!command.stop) stack_.initiator->Ping(ping);
  };
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(2)) << "lost, and given up";
  stack_.initiator->Submit(&command.command);
  stack_.initiator->Ping(ping);
  stack_.RunFor(absl::Milliseconds(1));
  EXPECT_GT(command.ended, 100);
  EXPECT_GT(pings, 100);
  command.stop = true;
  const int ended = command.ended;
  EXPECT_TRUE(stack_.RunUntil([&] { return command.ended > ended; }));
  stack_.initiator.reset();  // While what its callbacks use is there.
}

TEST_F(InitiatorStateTest, NorDoesItKeepTheDestructorFromEnding) {
  LogIn();
  stack_.StopServer();
  ASSERT_TRUE(AwaitChanges(1));
  Endless command(stack_.initiator.get());
  stack_.initiator->Submit(&command.command);
  stack_.initiator.reset();
  EXPECT_GT(command.ended, 1);
  EXPECT_THAT(stack_.log.back(), HasSubstr("submitted again and again"));
}

}  // namespace
}  // namespace skiff::protocol
