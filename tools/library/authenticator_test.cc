// CHAP by the C interface: its target's callbacks, and its disks as users.

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/login_callbacks.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;

constexpr char kSecret[] = "a-secret-of-the-test";
constexpr char kTargetSecret[] = "the-targets-own-one";

// It refers to the secret.
skiff_chap_account AccountOf(std::string_view secret) {
  skiff_chap_account account;
  SKIFF_INIT(account);
  account.secret = secret.data();
  account.secret_size = secret.size();
  return account;
}

// The program's users.
struct Users {
  static Users* Of(void* user) { return static_cast<Users*>(user); }
  static uint32_t Terms(void* user, const skiff_login_attempt* /*who*/) {
    return Of(user)->allowed;
  }
  static void Find(void* user, const skiff_login_attempt* who,
                   const char* chap_name, uint64_t login) {
    Users* const self = Of(user);
    {
      const std::lock_guard<std::mutex> lock(self->mutex);
      self->asked.push_back(
          absl::StrCat(chap_name, " of ", who->initiator, " to ", who->target));
      self->login = login;
    }
    if (self->find) self->find(login);
  }

  uint64_t last() {
    const std::lock_guard<std::mutex> lock(mutex);
    return login;
  }

  uint32_t allowed = SKIFF_CHAP_ALL;
  std::function<void(uint64_t login)> find;  // Before logins come.
  std::mutex mutex;
  std::vector<std::string> asked;  // Under `mutex`.
  uint64_t login = 0;              // Under `mutex`.
};

skiff_authenticator_ops OpsOf(Users* users) {
  skiff_authenticator_ops ops;
  SKIFF_INIT(ops);
  ops.terms = &Users::Terms;
  ops.find = &Users::Find;
  ops.user = users;
  return ops;
}

// With that many threads.
class AuthenticatorTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Start(uint32_t login_timeout_ms = 0) {
    const skiff_authenticator_ops ops = OpsOf(&users_);
    skiff_server_options options;
    SKIFF_INIT(options);
    options.authenticator = &ops;
    options.login_timeout_ms = login_timeout_ms;
    server_ = std::make_unique<TestServer>(GetParam(), &options);
    store_.Create(server_->context);
    server_->AddLun(0, store_.backend);
  }
  void TearDown() override {
    EXPECT_EQ(skiff_target_remove_lun(server_->target, 0, nullptr, nullptr), 0)
        << skiff_last_error();
    EXPECT_EQ(skiff_backend_close(store_.backend), 0) << skiff_last_error();
  }

  std::string Url(const std::string& user, const std::string& more = "") const {
    const std::string& portal = server_->portal;
    return absl::StrCat("iscsi://", user, portal.substr(portal.find("//") + 2),
                        "/", TestServer::kName, "/0", more);
  }
  // Opens a disk, and closes it. What opening it returned.
  int Open(const std::string& url) const {
    skiff_disk* disk = nullptr;
    const int result = skiff_disk_open(server_->context, url.c_str(), nullptr,
                                       nullptr, nullptr, &disk);
    if (result == 0) {
      EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
    }
    return result;
  }
  int Answer(uint64_t login, const std::string& secret) const {
    const skiff_chap_account account = AccountOf(secret);
    return skiff_server_answer_login(server_->server, login, 0, &account);
  }

  Users users_;
  TestStore store_{TestStore::Mode::kInside, 1 << 20};
  std::unique_ptr<TestServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Contexts, AuthenticatorTest, ::testing::Values(0u, 2u),
                         [](const auto& info) {
                           return info.param == 0 ? std::string("OwnLoop")
                                                  : std::string("Threads");
                         });

TEST_P(AuthenticatorTest, LetsInWhoKnowsTheSecret) {
  users_.find = [&](uint64_t login) {
    std::string secret = kSecret;
    EXPECT_EQ(Answer(login, secret), 0) << skiff_last_error();
    secret.assign(secret.size(), 'x');  // It was copied.
    EXPECT_EQ(Answer(login, kSecret), -ENOENT) << "answered twice";
  };
  Start();
  EXPECT_EQ(Open(Url("me%a-secret-of-the-test@")), 0) << skiff_last_error();
  EXPECT_THAT(
      users_.asked,
      ::testing::Contains(HasSubstr(absl::StrCat(" to ", TestServer::kName))));
  EXPECT_EQ(Open(Url("me%another-secret-as-long@")), -EACCES);
  EXPECT_EQ(Open(Url("")), -EACCES) << "without CHAP";
}

TEST_P(AuthenticatorTest, RefusesWhomNobodyKnows) {
  int answer = -ENOENT;
  users_.find = [&](uint64_t login) {
    EXPECT_EQ(
        skiff_server_answer_login(server_->server, login, answer, nullptr), 0)
        << skiff_last_error();
  };
  Start();
  EXPECT_EQ(Open(Url("me%a-secret-of-the-test@")), -EACCES);
  answer = -EIO;
  EXPECT_LT(Open(Url("me%a-secret-of-the-test@")), 0);
  EXPECT_TRUE(server_->Await([&] {
    return server_->Lines("the program's authenticator failed") > 0;
  }));
}

TEST_P(AuthenticatorTest, AsksOnlyWhomItsTermsName) {
  users_.allowed = SKIFF_CHAP_EVERYBODY;
  Start();
  EXPECT_EQ(Open(Url("")), 0) << skiff_last_error();
  for (const uint32_t nobody : {0u, 1u << 30}) {
    users_.allowed = nobody;
    EXPECT_LT(Open(Url("")), 0);
    EXPECT_LT(Open(Url("me%a-secret-of-the-test@")), 0);
  }
  EXPECT_TRUE(users_.asked.empty());
}

TEST_P(AuthenticatorTest, ShowsWhoTheTargetIs) {
  users_.find = [&](uint64_t login) {
    skiff_chap_account account = AccountOf(kSecret);
    account.target_name = "target";
    account.target_secret = kTargetSecret;
    account.target_secret_size = sizeof(kTargetSecret) - 1;
    EXPECT_EQ(skiff_server_answer_login(server_->server, login, 0, &account), 0)
        << skiff_last_error();
  };
  Start();
  const std::string user = "me%a-secret-of-the-test@";
  EXPECT_EQ(Open(Url(user,
                     "?target_user=target&target_password=the-targets-own-"
                     "one")),
            0)
      << skiff_last_error();
  EXPECT_LT(
      Open(
          Url(user, "?target_user=target&target_password=not-the-targets-one")),
      0);
}

TEST_P(AuthenticatorTest, WaitsForAnotherThread) {
  std::thread later;
  users_.find = [&](uint64_t login) {
    later = std::thread([this, login] {
      EXPECT_EQ(Answer(login, kSecret), 0) << skiff_last_error();
      EXPECT_EQ(Answer(login, kSecret), -ENOENT);
    });
  };
  Start();
  EXPECT_EQ(Open(Url("me%a-secret-of-the-test@")), 0) << skiff_last_error();
  later.join();
}

TEST_P(AuthenticatorTest, GivesUpWithoutAnAnswer) {
  Start(/*login_timeout_ms=*/50);
  EXPECT_LT(Open(Url("me%a-secret-of-the-test@")), 0);
  ASSERT_EQ(users_.asked.size(), 1u);
  skiff_server* const closed = std::exchange(server_->server, nullptr);
  ASSERT_EQ(skiff_server_close(closed, 0, nullptr, nullptr), 0);
  const skiff_chap_account account = AccountOf(kSecret);
  EXPECT_EQ(skiff_server_answer_login(closed, users_.last(), 0, &account),
            -EBADF);
}

TEST_P(AuthenticatorTest, IsClosedWhileALoginWaits) {
  Start();
  skiff_disk* disk = nullptr;
  Outcome opened;
  ASSERT_EQ(
      skiff_disk_open(server_->context, Url("me%a-secret-of-the-test@").c_str(),
                      nullptr, &Outcome::Done, &opened, &disk),
      0)
      << skiff_last_error();
  ASSERT_TRUE(server_->Await([this] { return users_.last() != 0; }));
  skiff_server* const closed = std::exchange(server_->server, nullptr);
  ASSERT_EQ(skiff_server_close(closed, 0, nullptr, nullptr), 0);
  const skiff_chap_account account = AccountOf(kSecret);
  EXPECT_EQ(skiff_server_answer_login(closed, users_.last(), 0, &account),
            -EBADF);
  EXPECT_TRUE(server_->Await(opened));
  EXPECT_LT(opened.result(), 0);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0) << skiff_last_error();
}

TEST_P(AuthenticatorTest, RefusesAnswersThatAreNone) {
  users_.find = [&](uint64_t login) {
    skiff_server* const server = server_->server;
    skiff_chap_account account = AccountOf(kSecret);
    EXPECT_EQ(skiff_server_answer_login(server, login, 0, nullptr), -EINVAL);
    EXPECT_EQ(skiff_server_answer_login(server, login, 1, nullptr), -EINVAL);
    EXPECT_EQ(skiff_server_answer_login(server, login, -EIO, &account),
              -EINVAL);
    account.secret_size = 3;
    EXPECT_EQ(skiff_server_answer_login(server, login, 0, &account), -EINVAL);
    account.secret_size = SIZE_MAX;
    EXPECT_EQ(skiff_server_answer_login(server, login, 0, &account), -EINVAL);
    account = AccountOf(kSecret);
    account.target_name = "target";
    EXPECT_EQ(skiff_server_answer_login(server, login, 0, &account), -EINVAL);
    EXPECT_THAT(skiff_last_error(), HasSubstr("target_secret"));
    account.target_secret = kSecret;
    account.target_secret_size = sizeof(kSecret) - 1;
    EXPECT_EQ(skiff_server_answer_login(server, login, 0, &account), -EINVAL)
        << "one secret for both directions";
    EXPECT_EQ(skiff_server_answer_login(server, login + 1, -EIO, nullptr),
              -ENOENT);
    EXPECT_EQ(Answer(login, kSecret), 0) << skiff_last_error();
  };
  Start();
  EXPECT_EQ(Open(Url("me%a-secret-of-the-test@")), 0) << skiff_last_error();
}

TEST(LoginCallbacksTest, ForgetsLoginsThatHaveEnded) {
  Users users;
  std::shared_ptr<LoginCallbacks> callbacks;
  skiff_authenticator_ops ops = OpsOf(&users);
  ASSERT_EQ(LoginCallbacks::Create(ops, &callbacks), 0);
  auto login = std::make_shared<int>(0);
  // Lasts as long as the question.
  const auto kept = std::make_shared<int>(0);
  protocol::LoginAttempt attempt;
  attempt.waiting = login;
  callbacks->FindAccount(attempt, "me", [kept](const auto&) { FAIL(); });
  EXPECT_EQ(kept.use_count(), 2);
  login.reset();
  const auto next = std::make_shared<int>(0);
  attempt.waiting = next;
  callbacks->TermsOf(attempt);
  EXPECT_EQ(kept.use_count(), 1) << "a login that ended is kept";
  callbacks->FindAccount(attempt, "me", [](const auto&) {});
  EXPECT_EQ(callbacks->Answer(users.last() - 1, -EIO, nullptr), -ENOENT);
  EXPECT_EQ(callbacks->Answer(users.last(), -EIO, nullptr), 0);
  ops.find = nullptr;
  EXPECT_EQ(LoginCallbacks::Create(ops, &callbacks), -EINVAL);
}

}  // namespace
}  // namespace skiff::library
