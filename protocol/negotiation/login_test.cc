#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "protocol/negotiation/initiator_login.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"

// Both login state machines back to back.

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

TEST(LoginTest, WithoutSecurityInOneExchange) {
  FakePolicy policy;
  policy.alias = "Disk 1";
  Login login(&policy, DefaultOptions());
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(login.exchanges, 1);
  EXPECT_EQ(login.initiator.tsih(), kTsih);
  EXPECT_EQ(login.target.tsih(), kTsih);
  EXPECT_EQ(login.initiator.identity().target_portal_group_tag, 7);
  EXPECT_EQ(login.initiator.identity().target_alias, "Disk 1");
  EXPECT_EQ(login.target.identity().initiator_name, kInitiator);
  EXPECT_EQ(login.target.identity().target_name, kTarget);
  EXPECT_EQ(policy.first_request.cid, 9);
  EXPECT_EQ(policy.first_request.isid, (Isid{0x80, 1, 2, 3, 4, 5}));
  EXPECT_EQ(policy.established, login.initiator.parameters());
  EXPECT_EQ(login.target.failure(), "");
}

TEST(LoginTest, Discovery) {
  FakePolicy policy;
  policy.alias = "Disk 1";
  InitiatorLoginOptions options = DefaultOptions();
  options.identity.session_type = SessionType::kDiscovery;
  options.identity.target_name.clear();
  options.identity.initiator_alias = "Host 1";
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(login.target.identity().session_type, SessionType::kDiscovery);
  EXPECT_EQ(login.target.identity().initiator_alias, "Host 1");
  EXPECT_EQ(login.target.parameters(), login.initiator.parameters());
  EXPECT_EQ(login.target.parameters().max_connections, 1u);
  EXPECT_EQ(login.initiator.parameters().target_max_recv_data_segment_length,
            policy.offer.max_recv_data_segment_length);
}

TEST(LoginTest, ASecurityStageThatSettlesForNone) {
  FakePolicy policy;
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake", "None"}, "secret", false, &options);
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(login.exchanges, 2);
}

TEST(LoginTest, OneWayAuthentication) {
  FakePolicy policy;
  policy.auth_methods = {"Fake"};
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake", "None"}, "secret", false, &options);
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  // AuthMethod, algorithm, answer, operational keys.
  EXPECT_EQ(login.exchanges, 4);
}

TEST(LoginTest, MutualAuthentication) {
  FakePolicy policy;
  policy.auth_methods = {"Fake", "None"};
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake"}, "secret", true, &options);
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(login.exchanges, 5);
}

TEST(LoginTest, WrongSecret) {
  FakePolicy policy;
  policy.auth_methods = {"Fake"};
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake"}, "wrong", false, &options);
  Login login(&policy, options);
  login.Run();
  EXPECT_EQ(login.initiator.state(), InitiatorLogin::State::kFailed);
  EXPECT_EQ(login.initiator.failure().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(login.target.state(), TargetLogin::State::kFailed);
  EXPECT_THAT(login.target.failure(), HasSubstr("initiator's answer is wrong"));
  EXPECT_EQ(policy.establishments, 0);
}

TEST(LoginTest, AuthenticationCantBeSkipped) {
  FakePolicy policy;
  policy.auth_methods = {"Fake"};
  for (const std::vector<std::string>& methods :
       {std::vector<std::string>{"None"},
        std::vector<std::string>{"Other", "None"}}) {
    InitiatorLoginOptions options = DefaultOptions();
    UseAuth(methods, "secret", false, &options);
    Login login(&policy, options);
    login.Run();
    EXPECT_EQ(login.initiator.failure().code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(login.target.state(), TargetLogin::State::kFailed);
  }
  EXPECT_EQ(policy.establishments, 0);
}

TEST(LoginTest, Redirection) {
  FakePolicy policy;
  policy.admit = LoginStatus::kTargetMovedTemporarily;
  policy.address = "[fe80::1]:3261";
  Login login(&policy, DefaultOptions());
  login.Run();
  EXPECT_EQ(login.initiator.state(), InitiatorLogin::State::kRedirected);
  EXPECT_EQ(login.initiator.redirect_address(), "[fe80::1]:3261");
  EXPECT_EQ(login.target.state(), TargetLogin::State::kFailed);
}

struct Refusal {
  LoginStatus status;
  absl::StatusCode code;
};

TEST(LoginTest, Refusals) {
  const Refusal cases[] = {
      {LoginStatus::kInitiatorError, absl::StatusCode::kFailedPrecondition},
      {LoginStatus::kAuthorizationFailure, absl::StatusCode::kPermissionDenied},
      {LoginStatus::kNotFound, absl::StatusCode::kNotFound},
      {LoginStatus::kTargetRemoved, absl::StatusCode::kNotFound},
      {LoginStatus::kTooManyConnections, absl::StatusCode::kResourceExhausted},
      {LoginStatus::kSessionTypeNotSupported,
       absl::StatusCode::kFailedPrecondition},
      {LoginStatus::kSessionDoesNotExist, absl::StatusCode::kNotFound},
      {LoginStatus::kTargetError, absl::StatusCode::kUnavailable},
      {LoginStatus::kOutOfResources, absl::StatusCode::kUnavailable},
      {LoginStatus::kServiceUnavailable, absl::StatusCode::kUnavailable},
      // A redirection without an address is the target's error.
      {LoginStatus::kTargetMovedPermanently, absl::StatusCode::kUnavailable},
  };
  for (const Refusal& refusal : cases) {
    for (const bool at_admission : {true, false}) {
      FakePolicy policy;
      (at_admission ? policy.admit : policy.establish) = refusal.status;
      Login login(&policy, DefaultOptions());
      login.Run();
      EXPECT_EQ(login.initiator.failure().code(), refusal.code)
          << login.initiator.failure();
      EXPECT_EQ(login.target.state(), TargetLogin::State::kFailed);
      EXPECT_FALSE(login.target.failure().empty());
    }
  }
}

TEST(LoginTest, ALaterConnectionOfASession) {
  FakePolicy policy;
  policy.tsih = 0x77;
  InitiatorLoginOptions options = DefaultOptions();
  options.tsih = 0x77;
  options.offer.header_digest = {Digest::kCrc32c};
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(policy.first_request.tsih, 0x77);
  EXPECT_EQ(login.initiator.parameters().header_digest, Digest::kCrc32c);
  EXPECT_EQ(login.initiator.parameters().max_burst_length, 262144u)
      << "keys of the session are not negotiated";
}

TEST(LoginTest, LongKeySetsAreSplitBothWays) {
  FakePolicy policy;
  // No alias is this long on the wire (section 6.1), but each side may have
  // more text to send than fits into one data segment.
  policy.auth_methods = {std::string(20000, 'm'), "Fake"};
  InitiatorLoginOptions options = DefaultOptions();
  std::vector<std::string> methods;
  for (int i = 0; i < 200; ++i) {
    methods.push_back(absl::StrCat(std::string(100, 'x'), i));
  }
  methods.emplace_back("Fake");
  UseAuth(methods, "secret", false, &options);
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_EQ(login.exchanges, 6);
  EXPECT_EQ(login.longest, 8192u);
}

TEST(LoginTest, TheTargetsLimitsHold) {
  FakePolicy policy;
  TargetLogin::Limits limits;
  limits.max_key_set_bytes = 100;
  Login small(&policy, DefaultOptions(), limits);
  small.Run();
  EXPECT_THAT(small.target.failure(), HasSubstr("more than 100 bytes"));

  limits = TargetLogin::Limits();
  limits.max_requests = 3;
  policy.auth_methods = {"Fake"};
  InitiatorLoginOptions options = DefaultOptions();
  UseAuth({"Fake"}, "secret", false, &options);
  Login few(&policy, options, limits);
  few.Run();
  EXPECT_THAT(few.target.failure(), HasSubstr("not finished after 3 requests"));
}

// Every combination of what decides about unsolicited data and digests.
TEST(LoginTest, MatrixOfOffers) {
  const std::vector<std::vector<Digest>> digests = {
      {Digest::kNone},
      {Digest::kCrc32c},
      {Digest::kNone, Digest::kCrc32c},
      {Digest::kCrc32c, Digest::kNone}};
  for (int bits = 0; bits < 16; ++bits) {
    for (const auto& digest_i : digests) {
      for (const auto& digest_t : digests) {
        FakePolicy policy;
        InitiatorLoginOptions options = DefaultOptions();
        options.offer.initial_r2t = (bits & 1) != 0;
        policy.offer.initial_r2t = (bits & 2) != 0;
        options.offer.immediate_data = (bits & 4) != 0;
        policy.offer.immediate_data = (bits & 8) != 0;
        options.offer.header_digest = digest_i;
        policy.offer.data_digest = digest_t;
        policy.offer.header_digest = digest_t;
        options.offer.data_digest = digest_i;
        Login login(&policy, options);
        login.Run();
        const bool disjoint = digest_i.size() == 1 && digest_t.size() == 1 &&
                              digest_i != digest_t;
        ASSERT_EQ(login.Succeeded(), !disjoint) << login.initiator.failure();
        if (disjoint) {
          EXPECT_THAT(login.target.failure(), HasSubstr("HeaderDigest"));
          continue;
        }
        const Parameters& p = login.initiator.parameters();
        EXPECT_EQ(p, login.target.parameters());
        EXPECT_EQ(p.initial_r2t, (bits & 3) != 0);
        EXPECT_EQ(p.immediate_data, (bits & 12) == 12);
        // The first of the initiator's that the target has.
        const Digest expected =
            digest_t.size() == 1 ? digest_t[0] : digest_i[0];
        EXPECT_EQ(p.header_digest, expected);
        EXPECT_EQ(p.data_digest, expected);
      }
    }
  }
}

TEST(LoginTest, RandomOffersAgree) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    FakePolicy policy;
    InitiatorLoginOptions options = DefaultOptions();
    for (Offer* offer : {&options.offer, &policy.offer}) {
      offer->initial_r2t = random() % 2 == 0;
      offer->immediate_data = random() % 2 == 0;
      offer->max_burst_length = 512 + random() % 100000;
      offer->first_burst_length =
          512 + random() % (offer->max_burst_length - 511);
      offer->max_recv_data_segment_length = 512 + random() % 100000;
      offer->max_outstanding_r2t = 1 + random() % 100;
      offer->default_time2retain = random() % 100;
      offer->default_time2wait = random() % 100;
    }
    if (random() % 4 == 0) {
      options.identity.session_type = SessionType::kDiscovery;
    }
    if (random() % 2 == 0) {
      policy.auth_methods = {"Fake"};
      UseAuth({"Fake", "None"}, "secret", random() % 2 == 0, &options);
    }
    Login login(&policy, options);
    login.Run();
    ASSERT_TRUE(login.Succeeded())
        << login.initiator.failure() << " " << login.target.failure();
    EXPECT_EQ(login.initiator.parameters(), login.target.parameters());
    EXPECT_EQ(policy.established, login.target.parameters());
    EXPECT_EQ(policy.establishments, 1);
  }
}

}  // namespace
}  // namespace skiff::protocol
