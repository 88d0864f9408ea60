// Logins by CHAP through the whole stack, over both data models.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/target/authenticator.h"
#include "protocol/target/target_server.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kName[] = "client";
constexpr char kSecret[] = "the client's secret";
constexpr char kTargetSecret[] = "the target's secret";

// One account, for all targets; not for discovery.
class OneAccount final : public Authenticator {
 public:
  Terms TermsOf(const LoginAttempt& attempt) override {
    Terms terms;
    terms.everybody = attempt.identity.session_type != SessionType::kNormal;
    terms.algorithms = algorithms;
    return terms;
  }
  void FindAccount(const LoginAttempt& attempt, const std::string& chap_name,
                   Answer answer) override {
    peer = attempt.peer;
    if (!silent) return Tell(chap_name, answer);
    asked = chap_name;
    pending = std::move(answer);
  }
  static void Tell(const std::string& chap_name, const Answer& answer) {
    if (chap_name != kName) return answer(absl::NotFoundError("nobody"));
    answer(ChapAccount{ChapSecret(kSecret),
                       ChapCredential{"disks", ChapSecret(kTargetSecret)}});
  }

  std::vector<ChapAlgorithm> algorithms = {AllChapAlgorithms().begin(),
                                           AllChapAlgorithms().end()};
  bool silent = false;
  std::string asked;
  Answer pending;
  std::string peer;
};

ChapInitiatorOptions Credentials(bool mutual) {
  ChapInitiatorOptions chap;
  chap.self = {kName, ChapSecret(kSecret)};
  if (mutual) chap.target = ChapCredential{"disks", ChapSecret(kTargetSecret)};
  return chap;
}

class ChapStackTest : public ::testing::TestWithParam<bool> {
 protected:
  ChapStackTest()
      : stack_(testing::SimWorld::SeedFromEnvironment(1),
               /*server_reactors=*/2,
               GetParam()
                   ? std::make_optional(testing::SimRdmaOptions::InfiniBand())
                   : std::nullopt) {
    Serve(accounts_);
  }
  void Serve(std::shared_ptr<Authenticator> authenticator) {
    stack_.StopServer();
    stack_.server_options.authenticator = std::move(authenticator);
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
  }
  InitiatorOptions With(std::optional<ChapInitiatorOptions> chap) {
    InitiatorOptions options = stack_.Options();
    if (chap.has_value()) options.chap = *std::move(chap);
    options.warn = [this](absl::string_view line) {
      warnings_.emplace_back(line);
    };
    return options;
  }
  absl::Status LogIn(std::optional<ChapInitiatorOptions> chap) {
    stack_.Connect(With(std::move(chap)));
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
    return stack_.ready().value_or(absl::UnknownError("not told"));
  }

  const std::shared_ptr<OneAccount> accounts_ = std::make_shared<OneAccount>();
  std::vector<std::string> log_;
  std::vector<std::string> warnings_;
  SimStack stack_;
};

INSTANTIATE_TEST_SUITE_P(DataModels, ChapStackTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Iser" : "Iscsi";
                         });

TEST_P(ChapStackTest, BothSidesShowWhoTheyAre) {
  for (const bool mutual : {false, true}) {
    ASSERT_EQ(LogIn(Credentials(mutual)), absl::OkStatus());
    // It wants the medium as it is at first.
    if (!mutual) stack_.RunLoad({.commands = 50});
    EXPECT_EQ(stack_.initiator->identity().authenticated_peer,
              mutual ? "disks" : "");
    EXPECT_EQ(stack_.Sessions().back().authenticated_as, kName);
    EXPECT_THAT(accounts_->peer, HasSubstr(":"));
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_P(ChapStackTest, WhoDoesNotIsRefused) {
  ChapInitiatorOptions wrong = Credentials(false);
  wrong.self.secret = ChapSecret("another one's secret");
  ChapInitiatorOptions stranger = Credentials(false);
  stranger.self.name = "stranger";
  for (const auto& chap :
       {std::optional<ChapInitiatorOptions>(), std::make_optional(wrong),
        std::make_optional(stranger)}) {
    const absl::Status refused = LogIn(chap);
    EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("authentication failure (0x0201)"));
  }
  EXPECT_THAT(log_, Contains(HasSubstr("nobody is called \"stranger\"")));
  EXPECT_THAT(log_, Contains(HasSubstr("does not know its secret")));
  for (const std::string& line : log_) {
    EXPECT_FALSE(absl::StrContains(line, "secret of"));
    EXPECT_FALSE(absl::StrContains(line, kSecret));
  }
}

// Whoever is unknown, or wrong: neither the answer nor its time tells.
TEST_P(ChapStackTest, WhoFailsTooOftenIsToldLate) {
  ChapInitiatorOptions wrong = Credentials(false);
  wrong.self.secret = ChapSecret("another one's secret");
  ChapInitiatorOptions stranger = wrong;
  stranger.self.name = "stranger";
  const auto time = [&](const ChapInitiatorOptions& chap, bool right) {
    const absl::Time begin = stack_.world.now();
    EXPECT_EQ(LogIn(chap).ok(), right);
    return stack_.world.now() - begin;
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_LT(time(i % 2 == 0 ? wrong : stranger, false), absl::Seconds(1));
  }
  EXPECT_GE(time(wrong, false), absl::Seconds(1));
  EXPECT_GE(time(stranger, false), absl::Seconds(2));
  EXPECT_GE(time(wrong, false), absl::Seconds(4));
  EXPECT_EQ(stack_.Counts().delayed_refusals, 3u);
  EXPECT_LT(time(Credentials(true), true), absl::Seconds(1));
}

TEST_P(ChapStackTest, ARefusalThatWasLookedUpMayWaitToo) {
  ChapInitiatorOptions stranger = Credentials(false);
  stranger.self.name = "stranger";
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(LogIn(stranger).ok());
  accounts_->silent = true;
  stack_.Connect(With(stranger));
  ASSERT_TRUE(stack_.RunUntil([&] { return accounts_->pending != nullptr; }));
  OneAccount::Tell(accounts_->asked, accounts_->pending);
  stack_.RunFor(absl::Milliseconds(900));
  EXPECT_FALSE(stack_.ready().has_value());
  stack_.RunFor(absl::Milliseconds(200));
  ASSERT_TRUE(stack_.ready().has_value());
  EXPECT_TRUE(absl::IsUnauthenticated(*stack_.ready())) << *stack_.ready();
}

TEST_P(ChapStackTest, WithoutAnAlgorithmNobodyComesIn) {
  accounts_->algorithms.clear();
  for (const auto& chap : {std::optional<ChapInitiatorOptions>(),
                           std::make_optional(Credentials(false))}) {
    const absl::Status refused = LogIn(chap);
    EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  }
}

TEST_P(ChapStackTest, TheInitiatorSaysThatNobodyAsked) {
  Serve(nullptr);
  ASSERT_EQ(LogIn(Credentials(false)), absl::OkStatus());
  EXPECT_THAT(warnings_, Contains(HasSubstr("lets everybody in")));
  // It is not taken for one that has shown who it is.
  const absl::Status refused = LogIn(Credentials(true));
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
}

TEST_P(ChapStackTest, BadCredentialsAreRefusedBeforeAnyLogin) {
  ChapInitiatorOptions chap = Credentials(false);
  chap.self.secret = ChapSecret("short");
  const auto made =
      Initiator::Create(&stack_.registry, stack_.initiator_reactor(),
                        With(chap), [](const absl::Status&) {});
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("5 bytes"));
}

TEST_P(ChapStackTest, TheAnswerMayComeLater) {
  accounts_->silent = true;
  stack_.Connect(With(Credentials(true)));
  ASSERT_TRUE(stack_.RunUntil([&] { return accounts_->pending != nullptr; }));
  stack_.RunFor(absl::Seconds(2));
  EXPECT_FALSE(stack_.ready().has_value());
  OneAccount::Tell(accounts_->asked, accounts_->pending);
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_EQ(*stack_.ready(), absl::OkStatus());
  stack_.RunLoad({.commands = 20});
}

TEST_P(ChapStackTest, AnAnswerThatNeverComesEndsInTheTimeOfALogin) {
  accounts_->silent = true;
  stack_.Connect(With(Credentials(true)));
  ASSERT_TRUE(stack_.RunUntil([&] { return accounts_->pending != nullptr; }));
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_FALSE(stack_.ready()->ok());
  // Too late: nobody is there any more.
  OneAccount::Tell(accounts_->asked, accounts_->pending);
  stack_.RunFor(absl::Seconds(1));
  EXPECT_THAT(stack_.Sessions(), IsEmpty());
}

TEST_P(ChapStackTest, LookupsWithoutAnAnswerDoNotPileUp) {
  stack_.server_options.limits.max_account_lookups = 1;
  Serve(accounts_);
  accounts_->silent = true;
  const auto log_in_in_vain = [&] {
    stack_.Connect(With(Credentials(true)));
    ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
    EXPECT_FALSE(stack_.ready()->ok());
  };
  const std::string unavailable = "service unavailable (0x0301)";
  // The first waits until its time is over, and is still asked about.
  log_in_in_vain();
  log_in_in_vain();
  EXPECT_GT(stack_.Counts().refused_logins[unavailable], 0u);
  EXPECT_THAT(log_, Contains(HasSubstr("1 lookups of accounts are under way")));
  accounts_->silent = false;
  OneAccount::Tell(accounts_->asked, accounts_->pending);
  EXPECT_EQ(LogIn(Credentials(true)), absl::OkStatus());
  // Who forgets an answer has room for another, too.
  accounts_->silent = true;
  stack_.Connect(With(Credentials(true)));
  stack_.RunFor(absl::Seconds(1));
  accounts_->pending = nullptr;
  accounts_->silent = false;
  EXPECT_EQ(LogIn(Credentials(true)), absl::OkStatus());
}

TEST_P(ChapStackTest, ALimitOfNoLookupsIsRefused) {
  TargetServerOptions options;
  options.limits.max_account_lookups = 0;
  const auto made =
      TargetServer::Create(&stack_.registry, stack_.server_reactors, options);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("max_account_lookups is 0"));
}

TEST_P(ChapStackTest, AnAnswerMayComeWhenTheServerIsGone) {
  accounts_->silent = true;
  stack_.Connect(With(Credentials(true)));
  ASSERT_TRUE(stack_.RunUntil([&] { return accounts_->pending != nullptr; }));
  stack_.StopServer();
  OneAccount::Tell(accounts_->asked, accounts_->pending);
  stack_.RunFor(absl::Seconds(1));
}

TEST_P(ChapStackTest, ASessionIsRestoredByCHAP) {
  ASSERT_EQ(LogIn(Credentials(true)), absl::OkStatus());
  stack_.StopServer();
  stack_.StartServer();
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.initiator->connected(); }));
  stack_.RunLoad({.commands = 20});
  EXPECT_EQ(stack_.Sessions().back().authenticated_as, kName);
}

}  // namespace
}  // namespace skiff::protocol
