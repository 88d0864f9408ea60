#include "protocol/auth/held_refusal.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Progress = AuthExchange::Progress;

// What the next step of an exchange leads to.
struct Script {
  Progress progress = Progress::kContinue;
  LoginStatus status = LoginStatus::kSuccess;
  std::string reason;
  std::function<void()> ready;
  int steps = 0;
};

class Scripted final : public AuthExchange {
 public:
  explicit Scripted(Script* script) : script_(script) {}
  void SetReady(const std::function<void()>& ready) override {
    script_->ready = ready;
  }
  Progress Step(absl::Span<const KeyValue> /*in*/, std::vector<KeyValue>*,
                LoginStatus* status, std::string* reason) override {
    ++script_->steps;
    *status = script_->status;
    *reason = script_->reason;
    return script_->progress;
  }
  std::string peer_name() const override { return "somebody"; }

 private:
  Script* const script_;
};

class HeldRefusalTest : public ::testing::Test {
 protected:
  HeldRefusalTest() {
    exchange_->SetReady([this] { ++ready_; });
  }
  Progress Step() {
    std::vector<KeyValue> out;
    status_ = LoginStatus::kSuccess;
    reason_.clear();
    return exchange_->Step({}, &out, &status_, &reason_);
  }
  void Refuse(const std::string& reason) {
    script_.progress = Progress::kFailed;
    script_.status = LoginStatus::kAuthenticationFailure;
    script_.reason = reason;
  }

  Script script_;
  bool hold_ = true;
  std::vector<std::string> asked_;
  std::function<void()> tell_;
  int ready_ = 0;
  LoginStatus status_ = LoginStatus::kSuccess;
  std::string reason_;
  std::unique_ptr<AuthExchange> exchange_ = HoldRefusals(
      std::make_unique<Scripted>(&script_),
      [this](const std::string& reason, std::function<void()> tell) {
        asked_.push_back(reason);
        tell_ = std::move(tell);
        return hold_;
      });
};

TEST_F(HeldRefusalTest, ARefusalWaitsUntilItIsTold) {
  Refuse("a wrong secret");
  EXPECT_EQ(Step(), Progress::kWaiting);
  EXPECT_THAT(asked_, ElementsAre("a wrong secret"));
  EXPECT_EQ(ready_, 0);
  tell_();
  EXPECT_EQ(ready_, 1);
  EXPECT_EQ(Step(), Progress::kFailed);
  EXPECT_EQ(status_, LoginStatus::kAuthenticationFailure);
  EXPECT_EQ(reason_, "a wrong secret");
  EXPECT_EQ(script_.steps, 1);
}

TEST_F(HeldRefusalTest, OneThatNeedNotWaitIsToldAtOnce) {
  hold_ = false;
  Refuse("nobody is called so");
  EXPECT_EQ(Step(), Progress::kFailed);
  EXPECT_EQ(reason_, "nobody is called so");
}

TEST_F(HeldRefusalTest, NothingElseIsAskedAbout) {
  EXPECT_EQ(Step(), Progress::kContinue);
  script_.progress = Progress::kDone;
  EXPECT_EQ(Step(), Progress::kDone);
  EXPECT_EQ(exchange_->peer_name(), "somebody");
  script_.progress = Progress::kFailed;
  for (const LoginStatus status :
       {LoginStatus::kInitiatorError, LoginStatus::kServiceUnavailable}) {
    script_.status = status;
    EXPECT_EQ(Step(), Progress::kFailed);
    EXPECT_EQ(status_, status);
  }
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(HeldRefusalTest, WaitsAfterWhoIsAskedHasAnswered) {
  script_.progress = Progress::kWaiting;
  EXPECT_EQ(Step(), Progress::kWaiting);
  script_.ready();
  EXPECT_EQ(ready_, 1);
  Refuse("nobody is called so");
  EXPECT_EQ(Step(), Progress::kWaiting);
  tell_();
  EXPECT_EQ(ready_, 2);
  EXPECT_EQ(Step(), Progress::kFailed);
}

}  // namespace
}  // namespace skiff::protocol
