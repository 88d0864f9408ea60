#include "protocol/auth/chap.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/login_test_util.h"

namespace skiff::protocol {
namespace {

constexpr char kName[] = "iqn.2026-01.org.example:client";
constexpr char kSecret[] = "the client's secret";
constexpr char kTargetSecret[] = "the target's secret";

ChapAccount Account(bool mutual) {
  ChapAccount account;
  account.secret = ChapSecret(kSecret);
  if (mutual)
    account.target = ChapCredential{"disks", ChapSecret(kTargetSecret)};
  return account;
}

// A node that asks for CHAP, and knows some accounts.
class ChapPolicy final : public FakePolicy {
 public:
  ChapPolicy() { auth_methods = {"CHAP"}; }

  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity&,
                                          absl::string_view method) override {
    EXPECT_EQ(method, kChapMethod);
    ChapTargetOptions options;
    options.algorithms = algorithms;
    options.find = [this](const std::string& name,
                          ChapTargetOptions::Answer answer) {
      asked.push_back(name);
      if (later) {
        pending = std::move(answer);
      } else {
        answer(Find(name));
      }
    };
    return StartChapTarget(std::move(options));
  }
  void LoginReady() override { ++ready; }

  absl::StatusOr<ChapAccount> Find(const std::string& name) const {
    if (!failure.ok()) return failure;
    const auto found = accounts.find(name);
    if (found == accounts.end()) return absl::NotFoundError("nobody");
    return found->second;
  }

  std::map<std::string, ChapAccount> accounts = {{kName, Account(true)}};
  std::vector<ChapAlgorithm> algorithms = {AllChapAlgorithms().begin(),
                                           AllChapAlgorithms().end()};
  absl::Status failure;
  bool later = false;
  std::vector<std::string> asked;
  ChapTargetOptions::Answer pending;
  int ready = 0;
};

ChapInitiatorOptions ClientOptions(bool mutual) {
  ChapInitiatorOptions options;
  options.self = {kName, ChapSecret(kSecret)};
  if (mutual) options.target = ChapCredential{"", ChapSecret(kTargetSecret)};
  return options;
}

InitiatorLoginOptions LoginWith(const ChapInitiatorOptions& chap) {
  InitiatorLoginOptions options = DefaultOptions();
  options.auth_methods = {std::string(kChapMethod)};
  options.start_auth = [chap](const std::string&) {
    return StartChapInitiator(chap);
  };
  return options;
}

TEST(ChapLoginTest, BothRolesAgreeOnEachAlgorithm) {
  for (const ChapAlgorithm algorithm : AllChapAlgorithms()) {
    for (const bool mutual : {false, true}) {
      ChapPolicy policy;
      ChapInitiatorOptions chap = ClientOptions(mutual);
      chap.algorithms = {algorithm};
      ASSERT_TRUE(Validate(chap).ok());
      Login login(&policy, LoginWith(chap));
      login.Run();
      EXPECT_TRUE(login.Succeeded())
          << ChapAlgorithmName(algorithm) << login.initiator.failure()
          << login.target.failure();
      EXPECT_EQ(policy.asked, std::vector<std::string>{kName});
      // RFC 7143 appendix B: AuthMethod, the challenge, the answers with which
      // the stage ends, operational keys.
      EXPECT_EQ(login.exchanges, 4);
    }
  }
}

TEST(ChapLoginTest, TheTargetsOrderChooses) {
  ChapPolicy policy;
  policy.algorithms = {ChapAlgorithm::kSha256, ChapAlgorithm::kMd5};
  ChapInitiatorOptions chap = ClientOptions(false);
  chap.algorithms = {ChapAlgorithm::kMd5, ChapAlgorithm::kSha256};
  std::vector<KeyValue> out;
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;
  const auto target = policy.StartAuth({}, kChapMethod);
  EXPECT_EQ(target->Step(std::vector<KeyValue>{{"CHAP_A", "5,7"}}, &out,
                         &status, &reason),
            AuthExchange::Progress::kContinue);
  EXPECT_EQ(out.front().second, "7");
}

struct Refusal {
  const char* what;
  void (*change)(ChapPolicy* policy, ChapInitiatorOptions* chap);
  const char* initiator;  // In its failure.
  const char* target;     // In the other's, if that one refuses.
};

TEST(ChapLoginTest, RefusesWhoDoesNotKnowTheSecret) {
  const Refusal refusals[] = {
      {"wrong secret",
       [](ChapPolicy*, ChapInitiatorOptions* chap) {
         chap->self.secret = ChapSecret("another's secret");
       },
       "authentication failure (0x0201)", "does not know its secret"},
      {"unknown name",
       [](ChapPolicy*, ChapInitiatorOptions* chap) {
         chap->self.name = "stranger";
       },
       "authentication failure (0x0201)", "nobody is called \"stranger\""},
      {"no algorithm in common",
       [](ChapPolicy* policy, ChapInitiatorOptions* chap) {
         policy->algorithms = {ChapAlgorithm::kSha3, ChapAlgorithm::kSha256};
         chap->algorithms = {ChapAlgorithm::kMd5};
       },
       "authentication failure (0x0201)",
       "offers the algorithms 5, and none of those allowed: SHA3-256, SHA-256"},
      {"the target's own secret is the initiator's",
       [](ChapPolicy* policy, ChapInitiatorOptions*) {
         policy->accounts[kName].target->secret = ChapSecret(kSecret);
       },
       "authentication failure (0x0201)", "answers with the target's own"},
      {"a weak secret",
       [](ChapPolicy* policy, ChapInitiatorOptions* chap) {
         policy->accounts[kName].secret = ChapSecret("short");
         chap->self.secret = ChapSecret("short");
       },
       "authentication failure (0x0201)", "has 5 bytes"},
      {"no secret of the target's",
       [](ChapPolicy* policy, ChapInitiatorOptions*) {
         policy->accounts[kName].target.reset();
       },
       "authentication failure (0x0201)", "no secret is configured for that"},
      {"the target's secret is wrong",
       [](ChapPolicy* policy, ChapInitiatorOptions*) {
         policy->accounts[kName].target->secret =
             ChapSecret("a rogue's secret");
       },
       "the target does not know the secret", nullptr},
      {"the target has another name",
       [](ChapPolicy*, ChapInitiatorOptions* chap) {
         chap->target->name = "tapes";
       },
       "the target calls itself \"disks\" and not \"tapes\"", nullptr},
      {"the accounts can't be read",
       [](ChapPolicy* policy, ChapInitiatorOptions*) {
         policy->failure = absl::UnavailableError("the database is down");
       },
       "0x0301", "could not be found out: the database is down"},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    ChapPolicy policy;
    ChapInitiatorOptions chap = ClientOptions(true);
    refusal.change(&policy, &chap);
    Login login(&policy, LoginWith(chap));
    login.Run();
    EXPECT_EQ(login.initiator.state(), InitiatorLogin::State::kFailed);
    EXPECT_TRUE(absl::StrContains(login.initiator.failure().message(),
                                  refusal.initiator))
        << login.initiator.failure();
    EXPECT_EQ(policy.establishments, 0);
    if (refusal.target == nullptr) continue;
    EXPECT_TRUE(absl::StrContains(login.target.failure(), refusal.target))
        << login.target.failure();
  }
}

TEST(ChapLoginTest, TheInitiatorsOptionsAreChecked) {
  ChapInitiatorOptions chap = ClientOptions(true);
  chap.target->secret = chap.self.secret;
  EXPECT_TRUE(absl::StrContains(Validate(chap).message(), "the same secret"));
  chap = ClientOptions(false);
  chap.self.secret = ChapSecret("short");
  EXPECT_TRUE(absl::StrContains(Validate(chap).message(), "5 bytes"));
  chap = ClientOptions(false);
  chap.algorithms.clear();
  EXPECT_FALSE(Validate(chap).ok());
  chap = ClientOptions(false);
  chap.self.name.clear();
  EXPECT_FALSE(Validate(chap).ok());
}

// Up to where the target has asked for the account.
class ChapWaitTest : public testing::Test {
 public:
  ChapWaitTest() : initiator_(LoginWith(ClientOptions(true))) {
    policy_.later = true;
    InitiatorLogin::Request request = initiator_.Start();
    for (int i = 0; i < 2; ++i) {
      const auto reply = target_->OnRequest(request.pdu, Bytes(request.data));
      EXPECT_TRUE(reply.has_value());
      EXPECT_EQ(initiator_.OnResponse(reply->pdu, Bytes(reply->data), &request),
                InitiatorLogin::State::kInProgress);
    }
    EXPECT_FALSE(
        target_->OnRequest(request.pdu, Bytes(request.data)).has_value());
    EXPECT_TRUE(target_->waiting());
  }

 protected:
  ChapPolicy policy_;
  InitiatorLogin initiator_;
  std::unique_ptr<TargetLogin> target_ =
      std::make_unique<TargetLogin>(&policy_, TargetLogin::Limits());
};

TEST_F(ChapWaitTest, AnAnswerMayComeLater) {
  EXPECT_EQ(policy_.ready, 0);
  policy_.pending(policy_.Find(kName));
  EXPECT_EQ(policy_.ready, 1);
  policy_.pending(absl::NotFoundError("too late"));
  EXPECT_EQ(policy_.ready, 1);
  const auto reply = target_->Resume();
  ASSERT_TRUE(reply.has_value());
  EXPECT_FALSE(target_->waiting());
  InitiatorLogin::Request request;
  EXPECT_EQ(initiator_.OnResponse(reply->pdu, Bytes(reply->data), &request),
            InitiatorLogin::State::kInProgress);
  EXPECT_TRUE(request.pdu.transit);
}

TEST_F(ChapWaitTest, ALateRefusalIsOne) {
  policy_.pending(absl::NotFoundError("nobody"));
  const auto reply = target_->Resume();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->pdu.status_class, 2);
  EXPECT_EQ(reply->pdu.status_detail, 1);
  EXPECT_EQ(target_->state(), TargetLogin::State::kFailed);
}

TEST_F(ChapWaitTest, AnAnswerForALoginThatIsGoneDoesNothing) {
  target_.reset();
  policy_.pending(policy_.Find(kName));
  EXPECT_EQ(policy_.ready, 0);
}

// What a hostile initiator sends. "$C" is the target's challenge.
struct Attack {
  std::vector<KeyValue> first;
  std::vector<KeyValue> second;
  LoginStatus status;
  const char* reason;
};

TEST(ChapTargetTest, RefusesWhatIsAgainstTheRules) {
  const std::string good_r = "0x" + std::string(64, 'a');
  const std::string long_c = "0x" + std::string(2050, 'b');
  const auto kError = LoginStatus::kInitiatorError;
  const auto kRefused = LoginStatus::kAuthenticationFailure;
  const Attack attacks[] = {
      {{{"CHAP_N", kName}}, {}, kError, "CHAP_N does not belong"},
      {{{"X-key", "1"}}, {}, kError, "CHAP_A is missing"},
      {{{"CHAP_A", "7"}, {"CHAP_A", "7"}}, {}, kError, "CHAP_A is sent twice"},
      {{{"CHAP_A", "seven"}}, {}, kError, "CHAP_A is no list"},
      {{{"CHAP_A", ""}}, {}, kError, "CHAP_A is no list"},
      {{{"CHAP_A", "4,1000000"}}, {}, kRefused, "none of those allowed"},
      {{{"CHAP_A", "7"}}, {{"CHAP_A", "7"}}, kError, "CHAP_A does not belong"},
      {{{"CHAP_A", "7"}}, {{"CHAP_N", kName}}, kError, "is missing"},
      {{{"CHAP_A", "7"}}, {{"CHAP_R", good_r}}, kError, "is missing"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", ""}, {"CHAP_R", good_r}},
       kError,
       "CHAP_N is no name"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName}, {"CHAP_R", "abc"}},
       kError,
       "CHAP_R is no binary value"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName},
        {"CHAP_R", good_r},
        {"CHAP_I", "256"},
        {"CHAP_C", good_r}},
       kError,
       "CHAP_I is no number of one byte"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName},
        {"CHAP_R", good_r},
        {"CHAP_I", "1"},
        {"CHAP_C", long_c}},
       kError,
       "CHAP_C is no binary value of 1 to 1024"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName}, {"CHAP_R", good_r}, {"CHAP_I", "1"}},
       kError,
       "only one is there"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName},
        {"CHAP_R", good_r},
        {"CHAP_I", "1"},
        {"CHAP_C", "$C"}},
       kRefused,
       "the target's own challenge"},
      {{{"CHAP_A", "7"}},
       {{"CHAP_N", kName}, {"CHAP_R", "0xab"}},
       kRefused,
       "does not know its secret"},
  };
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.reason);
    ChapPolicy policy;
    const auto target = policy.StartAuth({}, kChapMethod);
    std::vector<KeyValue> out;
    LoginStatus status = LoginStatus::kSuccess;
    std::string reason;
    auto progress = target->Step(attack.first, &out, &status, &reason);
    if (!attack.second.empty()) {
      ASSERT_EQ(progress, AuthExchange::Progress::kContinue);
      std::vector<KeyValue> second = attack.second;
      for (KeyValue& key : second) {
        if (key.second == "$C") key.second = out.back().second;
      }
      progress = target->Step(second, &out, &status, &reason);
    }
    EXPECT_EQ(progress, AuthExchange::Progress::kFailed);
    EXPECT_EQ(status, attack.status);
    EXPECT_TRUE(absl::StrContains(reason, attack.reason)) << reason;
    EXPECT_FALSE(absl::StrContains(reason, kSecret));
  }
}

TEST(ChapTargetTest, TakesBase64AndAnswersUnknownKeys) {
  ChapPolicy policy;
  const auto target = policy.StartAuth({}, kChapMethod);
  std::vector<KeyValue> out;
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;
  target->Step(std::vector<KeyValue>{{"CHAP_A", "0x7"}, {"X-what", "1"}}, &out,
               &status, &reason);
  EXPECT_EQ(out.front(), KeyValue("X-what", "NotUnderstood"));
  uint8_t id = 0;
  std::vector<uint8_t> challenge;
  for (const KeyValue& key : out) {
    if (key.first == "CHAP_I") {
      id = static_cast<uint8_t>(*ParseNumber(key.second));
    }
    if (key.first == "CHAP_C") ParseBinary(key.second, 1024, &challenge);
  }
  const auto response =
      ChapResponse(ChapAlgorithm::kSha256, id, kSecret, challenge);
  EXPECT_EQ(
      target->Step(std::vector<KeyValue>{{"CHAP_N", kName},
                                         {"CHAP_R", EncodeBase64(*response)}},
                   &out, &status, &reason),
      AuthExchange::Progress::kDone)
      << reason;
}

TEST(ChapInitiatorTest, RefusesWhatIsAgainstTheRules) {
  struct Case {
    std::vector<KeyValue> keys;
    const char* reason;
  };
  const Case cases[] = {
      {{}, "does not send CHAP_A, CHAP_I and CHAP_C together"},
      {{{"CHAP_A", "7"}}, "together"},
      {{{"CHAP_A", "6,7"}, {"CHAP_I", "1"}, {"CHAP_C", "0xab"}},
       "was not offered"},
      {{{"CHAP_A", "5"}, {"CHAP_I", "1"}, {"CHAP_C", "0xab"}},
       "was not offered"},
      {{{"CHAP_N", "x"}}, "CHAP_N does not belong"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.reason);
    ChapInitiatorOptions options = ClientOptions(true);
    options.algorithms = {ChapAlgorithm::kSha256, ChapAlgorithm::kSha1};
    const auto initiator = StartChapInitiator(options);
    std::vector<KeyValue> out;
    LoginStatus status = LoginStatus::kSuccess;
    std::string reason;
    ASSERT_EQ(initiator->Step({}, &out, &status, &reason),
              AuthExchange::Progress::kContinue);
    EXPECT_EQ(out.front(), KeyValue("CHAP_A", "7,6"));
    EXPECT_EQ(initiator->Step(one.keys, &out, &status, &reason),
              AuthExchange::Progress::kFailed);
    EXPECT_TRUE(absl::StrContains(reason, one.reason)) << reason;
  }
}

// A target that reflects: it has the initiator answer its own challenge.
TEST(ChapInitiatorTest, DoesNotTakeItsOwnAnswer) {
  const auto initiator = StartChapInitiator(ClientOptions(true));
  const auto other = StartChapInitiator(ClientOptions(false));
  std::vector<KeyValue> out, reflected;
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;
  initiator->Step({}, &out, &status, &reason);
  other->Step({}, &out, &status, &reason);
  out.clear();
  initiator->Step(
      std::vector<KeyValue>{
          {"CHAP_A", "7"}, {"CHAP_I", "1"}, {"CHAP_C", "0xabcd"}},
      &out, &status, &reason);
  std::vector<KeyValue> challenge = {{"CHAP_A", "7"}};
  challenge.insert(challenge.end(), out.end() - 2, out.end());
  EXPECT_EQ(other->Step(challenge, &reflected, &status, &reason),
            AuthExchange::Progress::kDone);
  EXPECT_EQ(initiator->Step(reflected, &out, &status, &reason),
            AuthExchange::Progress::kFailed);
  EXPECT_TRUE(absl::StrContains(reason, "own secret")) << reason;
}

LoginResponsePdu SecurityResponse(bool transit) {
  LoginResponsePdu pdu;
  pdu.transit = transit;
  pdu.csg = LoginStage::kSecurity;
  pdu.nsg = transit ? LoginStage::kOperational : LoginStage::kSecurity;
  return pdu;
}

// The target may end the stage where it has to answer: without the right
// answer, that ends the login.
TEST(ChapInitiatorTest, NoStageFollowsWithoutTheTargetsAnswer) {
  for (const auto& [answer, why] :
       {std::pair("", "configure mutual CHAP there"),
        std::pair("CHAP_N=disks|CHAP_R=0xab|", "does not know the secret")}) {
    InitiatorLogin login(LoginWith(ClientOptions(true)));
    InitiatorLogin::Request request = login.Start();
    login.OnResponse(SecurityResponse(false), Bytes(Text("AuthMethod=CHAP|")),
                     &request);
    EXPECT_FALSE(request.pdu.transit);
    login.OnResponse(SecurityResponse(false),
                     Bytes(Text("CHAP_A=7|CHAP_I=1|CHAP_C=0xabcd|")), &request);
    EXPECT_TRUE(request.pdu.transit);
    EXPECT_EQ(
        login.OnResponse(SecurityResponse(true), Bytes(Text(answer)), &request),
        InitiatorLogin::State::kFailed);
    EXPECT_TRUE(absl::IsUnauthenticated(login.failure()));
    EXPECT_TRUE(absl::StrContains(login.failure().message(), why))
        << login.failure();
  }
}

TEST(ChapInitiatorTest, WantsTheTargetToAnswer) {
  const auto initiator = StartChapInitiator(ClientOptions(true));
  std::vector<KeyValue> out;
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;
  initiator->Step({}, &out, &status, &reason);
  initiator->Step(
      std::vector<KeyValue>{
          {"CHAP_A", "7"}, {"CHAP_I", "1"}, {"CHAP_C", "0xabcd"}},
      &out, &status, &reason);
  EXPECT_EQ(initiator->Step(std::vector<KeyValue>{{"CHAP_N", "disks"}}, &out,
                            &status, &reason),
            AuthExchange::Progress::kFailed);
  EXPECT_TRUE(absl::StrContains(reason, "does not authenticate itself"));
}

}  // namespace
}  // namespace skiff::protocol
