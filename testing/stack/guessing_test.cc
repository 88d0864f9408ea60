// Those who guess passwords are slow, and nobody else is.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/target/authenticator.h"
#include "protocol/target/target_server.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kSecret[] = "the client's secret";
constexpr char kGuesser[] = "iqn.2001-04.com.example:guesser";
constexpr int kRefused = 0x0201;
constexpr int kNotYet = -1;

// Anybody, by one secret.
class OneSecret final : public Authenticator {
 public:
  Terms TermsOf(const LoginAttempt&) override { return {}; }
  void FindAccount(const LoginAttempt&, const std::string&,
                   Answer answer) override {
    answer(ChapAccount{ChapSecret(kSecret), {}});
  }
};

// A request of the security stage.
std::string Request(const std::vector<std::string>& keys) {
  LoginRequestPdu login;
  login.csg = LoginStage::kSecurity;
  login.isid = {0x80, 0, 0, 0, 0, 1};
  login.initiator_task_tag = 1;
  login.cmd_sn = 1;
  std::string text;
  for (const std::string& key : keys) {
    text += key;
    text += '\0';
  }
  return ToWire(login, text);
}

// A login with a wrong answer to the challenge, in one piece.
std::string Guess(const std::string& initiator) {
  return absl::StrCat(
      Request({absl::StrCat("InitiatorName=", initiator),
               absl::StrCat("TargetName=", kTargetName), "AuthMethod=CHAP"}),
      Request({"CHAP_A=5"}),
      Request({"CHAP_N=me", "CHAP_R=0x000102030405060708090a0b0c0d0e0f"}));
}

// What the third request of a guess was answered with.
int AnswerTo(const RawPeer& guesser) {
  absl::string_view rest = guesser.received();
  for (int i = 0; i < 2 && rest.size() >= kBhsSize; ++i) {
    const size_t data =
        static_cast<uint8_t>(rest[6]) << 8 | static_cast<uint8_t>(rest[7]);
    rest.remove_prefix(std::min(rest.size(), kBhsSize + (data + 3) / 4 * 4));
  }
  if (rest.size() < kBhsSize) return kNotYet;
  return static_cast<uint8_t>(rest[36]) << 8 | static_cast<uint8_t>(rest[37]);
}

class GuessingTest : public ::testing::Test {
 protected:
  GuessingTest() { Serve({}); }
  void Serve(const TargetServerLimits& limits) {
    stack_.StopServer();
    stack_.server_options.limits = limits;
    stack_.server_options.authenticator = std::make_shared<OneSecret>();
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      if (absl::StrContains(line, "failed")) log_.emplace_back(line);
    };
    stack_.StartServer();
  }
  // How long the answer took, which is a refusal.
  absl::Duration FailOnce() {
    stack_.RunFor(absl::Milliseconds(100));  // The one before is gone.
    const absl::Time begin = stack_.world.now();
    RawPeer guesser(&stack_);
    guesser.Send(Guess(kGuesser));
    EXPECT_TRUE(stack_.RunUntil([&] { return guesser.closed(); }));
    EXPECT_EQ(AnswerTo(guesser), kRefused);
    return stack_.world.now() - begin;
  }
  // Until the next waits for `delay`.
  void FailUntil(absl::Duration delay) {
    while (FailOnce() < delay / 2) {
    }
  }
  // With the right secret: how long it took.
  absl::Duration LogIn(const std::string& initiator) {
    const absl::Time begin = stack_.world.now();
    InitiatorOptions options = stack_.Options();
    options.initiator_name = initiator;
    options.chap.emplace().self = {"me", ChapSecret(kSecret)};
    stack_.LogIn(options);
    return stack_.world.now() - begin;
  }

  std::vector<std::string> log_;
  SimStack stack_{testing::SimWorld::SeedFromEnvironment(1),
                  /*server_reactors=*/2};
};

TEST_F(GuessingTest, TheAnswersToThatComeLate) {
  for (int i = 0; i < 5; ++i) EXPECT_LT(FailOnce(), absl::Seconds(1));
  for (const int delay : {1, 2, 4, 8, 16, 30, 30}) {
    const absl::Duration took = FailOnce();
    EXPECT_GE(took, absl::Seconds(delay));
    EXPECT_LT(took, absl::Seconds(delay + 1));
  }
  const ServerCounts counts = stack_.Counts();
  EXPECT_EQ(counts.delayed_refusals, 7u);
  EXPECT_EQ(counts.refused_logins.at("authentication failure (0x0201)"), 12u);
  EXPECT_EQ(counts.unfinished_logins, 0u);
  EXPECT_LT(LogIn(kGuesser), absl::Seconds(1));
}

TEST_F(GuessingTest, ManyGuessersDelayNoGoodLogin) {
  constexpr int kGuessers = 200;
  std::vector<std::unique_ptr<RawPeer>> guessers;
  for (int i = 0; i < kGuessers; ++i) {
    guessers.push_back(std::make_unique<RawPeer>(&stack_));
    guessers.back()->Send(Guess(absl::StrCat(kGuesser, i)));
  }
  stack_.RunFor(absl::Seconds(1.5));
  EXPECT_GT(stack_.Counts().delayed_refusals, 100u);
  // By the address that the guessers have, too.
  EXPECT_LT(LogIn("iqn.2001-04.com.example:neighbour"), absl::Seconds(1));
  stack_.LeaveHost();
  EXPECT_LT(LogIn("iqn.2001-04.com.example:far"), absl::Seconds(1));
}

TEST_F(GuessingTest, TheLogTellsOnceWhoIsSlowed) {
  for (int i = 0; i < 8; ++i) FailOnce();
  EXPECT_THAT(log_, SizeIs(9));  // Each failure is told, too.
  EXPECT_EQ(std::count_if(log_.begin(), log_.end(),
                          [](const std::string& line) {
                            return absl::StrContains(
                                line, absl::StrCat("logins of ", kGuesser,
                                                   " from client failed 6"));
                          }),
            1);
}

TEST_F(GuessingTest, WhatElseIsSentMakesNoAnswerComeSooner) {
  FailUntil(absl::Seconds(4));
  RawPeer guesser(&stack_);
  guesser.Send(Guess(kGuesser));
  stack_.RunFor(absl::Seconds(1));
  guesser.Send(Request({"X-more=1"}));
  stack_.RunFor(absl::Seconds(2));
  EXPECT_EQ(AnswerTo(guesser), kNotYet);
  EXPECT_FALSE(guesser.closed());
  EXPECT_TRUE(stack_.RunUntil([&] { return guesser.closed(); }));
  EXPECT_EQ(AnswerTo(guesser), kRefused);
}

TEST_F(GuessingTest, WhoHangsUpHasNoPlaceBackBefore) {
  FailUntil(absl::Seconds(4));
  {
    RawPeer guesser(&stack_);
    guesser.Send(Guess(kGuesser));
    stack_.RunFor(absl::Seconds(1));
  }
  stack_.RunFor(absl::Seconds(2));
  EXPECT_THAT(stack_.Sessions(), SizeIs(1));
  stack_.RunFor(absl::Seconds(2));
  EXPECT_THAT(stack_.Sessions(), SizeIs(0));
}

TEST_F(GuessingTest, WhoWaitsGivesWayToOthers) {
  TargetServerLimits limits;
  limits.connections.max_logins_per_peer = 1;
  Serve(limits);
  FailUntil(absl::Seconds(4));
  RawPeer guesser(&stack_);
  guesser.Send(Guess(kGuesser));
  stack_.RunFor(absl::Seconds(2));
  EXPECT_LT(LogIn("iqn.2001-04.com.example:neighbour"), absl::Seconds(1));
  stack_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(guesser.closed());
  EXPECT_EQ(AnswerTo(guesser), kNotYet);
  EXPECT_EQ(stack_.Counts().unfinished_logins, 1u);
}

TEST_F(GuessingTest, TheServerEndsWithoutWaitingForThem) {
  FailUntil(absl::Seconds(16));
  RawPeer guesser(&stack_);
  guesser.Send(Guess(kGuesser));
  stack_.RunFor(absl::Seconds(1));
  const absl::Time begin = stack_.world.now();
  stack_.StopServer(absl::Seconds(30));
  EXPECT_LT(stack_.world.now() - begin, absl::Seconds(2));
}

TEST_F(GuessingTest, LimitsThatMakeNoSenseAreRefused) {
  for (const FailedLoginLimits& limits :
       {FailedLoginLimits{.window = absl::ZeroDuration()},
        FailedLoginLimits{.max_delay = absl::Seconds(-1)},
        FailedLoginLimits{.max_entries = 0}}) {
    TargetServerOptions options;
    options.limits.failed_logins = limits;
    const auto made =
        TargetServer::Create(&stack_.registry, stack_.server_reactors, options);
    EXPECT_THAT(std::string(made.status().message()),
                HasSubstr("failed_logins"));
  }
}

}  // namespace
}  // namespace skiff::protocol
