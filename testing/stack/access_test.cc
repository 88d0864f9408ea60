// Who may log in to a target and discover it, by rules of an access list.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/target/authenticator.h"
#include "protocol/target/target_server.h"
#include "scsi/target/access_list.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFriend[] = "iqn.2001-04.com.example:friend";
constexpr char kStranger[] = "iqn.2001-04.com.example:stranger";
constexpr char kSecret[] = "the client's secret";

// Anybody, by one secret; not for discovery.
class OneSecret final : public Authenticator {
 public:
  Terms TermsOf(const LoginAttempt& attempt) override {
    Terms terms;
    terms.everybody = attempt.identity.session_type != SessionType::kNormal;
    return terms;
  }
  void FindAccount(const LoginAttempt& /*attempt*/,
                   const std::string& /*chap_name*/, Answer answer) override {
    answer(ChapAccount{ChapSecret(kSecret), {}});
  }
};

class AccessTest : public ::testing::Test {
 protected:
  AccessTest()
      : stack_(testing::SimWorld::SeedFromEnvironment(1),
               /*server_reactors=*/2) {
    Serve(nullptr);
  }
  void Serve(std::shared_ptr<Authenticator> authenticator) {
    stack_.StopServer();
    stack_.target = scsi::Target::Create(kTargetName, list_);
    EXPECT_TRUE(
        stack_.target
            ->AddLogicalUnit(std::make_shared<scsi::testing::TestBackend>(
                                 scsi::testing::ThinInfo(64)),
                             {})
            .ok());
    stack_.server_options.authenticator = std::move(authenticator);
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
  }
  static scsi::AccessRule For(const std::string& initiator,
                              const std::string& as = "") {
    scsi::AccessRule rule;
    rule.initiator = initiator;
    rule.authenticated_as = as;
    return rule;
  }
  int StatusOf(absl::string_view initiator,
               absl::string_view target = kTargetName) {
    RawPeer peer(&stack_);
    peer.LogIn(1, target, initiator);
    return peer.LoginStatus();
  }
  std::string Discovered(absl::string_view initiator) {
    RawPeer peer(&stack_);
    peer.LogIn(1, "", initiator);
    EXPECT_EQ(peer.LoginStatus(), 0);
    TextRequestPdu request;
    request.final = true;
    request.initiator_task_tag = 2;
    request.target_transfer_tag = kReservedTag;
    request.cmd_sn = 1;
    const size_t before = peer.received().size();
    peer.Send(ToWire(request, absl::string_view("SendTargets=All\0", 16)));
    stack_.RunUntil([&] { return peer.received().size() > before; });
    return peer.received().substr(before);
  }
  // By CHAP, as kFriend.
  absl::Status LogInAs(const std::string& chap_name) {
    InitiatorOptions options = stack_.Options();
    options.initiator_name = kFriend;
    options.chap.emplace().self = {chap_name, ChapSecret(kSecret)};
    stack_.Connect(options);
    EXPECT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
    return stack_.ready().value_or(absl::UnknownError("not told"));
  }

  const std::shared_ptr<scsi::AccessList> list_ =
      std::make_shared<scsi::AccessList>(std::vector<scsi::AccessRule>());
  std::vector<std::string> log_;
  SimStack stack_;
};

// RFC 7143 section 11.13.5: 0203, not found.
TEST_F(AccessTest, ForWhoHasNoRightTheTargetIsNotThere) {
  list_->Replace({For(kFriend)});
  EXPECT_EQ(StatusOf(kFriend), 0);
  EXPECT_EQ(StatusOf(kStranger), 0x0203);
  EXPECT_EQ(StatusOf(kStranger, "iqn.2001-04.com.example:none"), 0x0203);
  EXPECT_THAT(log_, Contains(HasSubstr("login refused: no access rule of " +
                                       std::string(kTargetName) + " lets in " +
                                       kStranger)));
}

TEST_F(AccessTest, DiscoveryShowsWhatMayBeUsed) {
  list_->Replace({For(kFriend)});
  EXPECT_THAT(Discovered(kFriend), HasSubstr(kTargetName));
  EXPECT_THAT(Discovered(kStranger), Not(HasSubstr(kTargetName)));
}

TEST_F(AccessTest, ARuleCanAskForAnAccount) {
  list_->Replace({For(kFriend, "alice")});
  Serve(std::make_shared<OneSecret>());
  // It may be alice yet.
  EXPECT_THAT(Discovered(kFriend), HasSubstr(kTargetName));
  EXPECT_EQ(LogInAs("alice"), absl::OkStatus());
  EXPECT_THAT(LogInAs("bob").message(), HasSubstr("0202"));
  EXPECT_THAT(log_, Contains(HasSubstr("as bob")));
}

TEST_F(AccessTest, WhoLosesTheRightLosesTheSession) {
  list_->Replace({For(kFriend), For(kStranger)});
  RawPeer stays(&stack_);
  RawPeer goes(&stack_);
  stays.LogIn(1, kTargetName, kFriend);
  goes.LogIn(1, kTargetName, kStranger);
  ASSERT_EQ(stays.LoginStatus(), 0);
  ASSERT_EQ(goes.LoginStatus(), 0);
  list_->Replace({For(kFriend)});
  stack_.target->ReviewAccess();
  EXPECT_TRUE(stack_.RunUntil([&] { return goes.closed(); }));
  EXPECT_FALSE(stays.closed());
  EXPECT_THAT(log_, Contains(HasSubstr("may not be here any more")));
}

}  // namespace
}  // namespace skiff::protocol
