#include "tools/library/login_callbacks.h"

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/auth/chap.h"
#include "protocol/auth/chap_algorithm.h"
#include "protocol/auth/chap_secret.h"
#include "tools/library/error.h"
#include "tools/library/options.h"

namespace skiff::library {
namespace {

using protocol::ChapAccount;
using protocol::ChapAlgorithm;
using protocol::ChapSecret;

uint32_t BitOf(ChapAlgorithm algorithm) {
  switch (algorithm) {
    case ChapAlgorithm::kMd5:
      return SKIFF_CHAP_MD5;
    case ChapAlgorithm::kSha1:
      return SKIFF_CHAP_SHA1;
    case ChapAlgorithm::kSha256:
      return SKIFF_CHAP_SHA256;
    case ChapAlgorithm::kSha3:
      return SKIFF_CHAP_SHA3_256;
  }
  return 0;
}

// Lasts as long as what it was made of.
skiff_login_attempt AttemptOf(const protocol::LoginAttempt& attempt) {
  // A discovery session may name a target, and is one all the same.
  const bool discovery =
      attempt.identity.session_type == protocol::SessionType::kDiscovery;
  return {attempt.identity.initiator_name.c_str(),
          discovery ? "" : attempt.identity.target_name.c_str(),
          attempt.peer.c_str()};
}

// 0, or a remembered error.
int ReadSecret(const void* bytes, size_t size, ChapSecret* secret) {
  // Before it is copied: a size that was never set may be any.
  if (bytes == nullptr || size > ChapSecret::kMaxBytes) {
    return Fail(EINVAL,
                absl::StrCat("a secret of ", bytes == nullptr ? 0 : size,
                             " bytes was given: it has ", ChapSecret::kMinBytes,
                             " to ", ChapSecret::kMaxBytes));
  }
  *secret = ChapSecret({static_cast<const char*>(bytes), size});
  return Fail(protocol::CheckChapSecret(*secret));
}

int ReadAccount(const skiff_chap_account& given, ChapAccount* account) {
  if (const int error =
          ReadSecret(given.secret, given.secret_size, &account->secret)) {
    return error;
  }
  const bool has_secret =
      given.target_secret != nullptr && given.target_secret_size != 0;
  if ((given.target_name != nullptr) != has_secret) {
    return Fail(EINVAL,
                "target_name and target_secret of skiff_chap_account go "
                "together: only one of them is set");
  }
  if (!has_secret) return 0;
  protocol::ChapCredential target;
  target.name = given.target_name;
  if (const int error = Fail(protocol::CheckChapName(target.name))) {
    return error;
  }
  if (const int error = ReadSecret(given.target_secret,
                                   given.target_secret_size, &target.secret)) {
    return error;
  }
  if (const int error =
          Fail(protocol::CheckChapPair(account->secret, target.secret))) {
    return error;
  }
  account->target = std::move(target);
  return 0;
}

}  // namespace

int LoginCallbacks::Create(const skiff_authenticator_ops& ops,
                           std::shared_ptr<LoginCallbacks>* made) {
  skiff_authenticator_ops known;
  if (const int error = ReadOptions(&ops, "skiff_authenticator_ops", &known)) {
    return error;
  }
  if (known.find == nullptr) {
    return Fail(EINVAL,
                "find of skiff_authenticator_ops is NULL: who would know the "
                "secrets?");
  }
  *made = std::make_shared<LoginCallbacks>(known);
  return 0;
}

protocol::Authenticator::Terms LoginCallbacks::TermsOf(
    const protocol::LoginAttempt& attempt) {
  DropOver();
  Terms terms;
  if (ops_.terms == nullptr) return terms;
  const skiff_login_attempt who = AttemptOf(attempt);
  const uint32_t allowed = ops_.terms(ops_.user, &who);
  // Whatever else is set: a bit that means nothing here lets nobody in.
  terms.everybody = allowed == SKIFF_CHAP_EVERYBODY;
  terms.algorithms.clear();
  for (const ChapAlgorithm algorithm : protocol::AllChapAlgorithms()) {
    if ((allowed & BitOf(algorithm)) != 0) {
      terms.algorithms.push_back(algorithm);
    }
  }
  return terms;
}

void LoginCallbacks::FindAccount(const protocol::LoginAttempt& attempt,
                                 const std::string& chap_name,
                                 protocol::Authenticator::Answer answer) {
  const uint64_t login = Ask({std::move(answer), attempt.waiting});
  const skiff_login_attempt who = AttemptOf(attempt);
  ops_.find(ops_.user, &who, chap_name.c_str(), login);
}

void LoginCallbacks::DropOver() {
  std::map<uint64_t, Question> over;  // Destroyed without the lock.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = questions_.begin(); it != questions_.end();) {
    const auto next = std::next(it);
    if (it->second.waiting.expired()) over.insert(questions_.extract(it));
    it = next;
  }
}

uint64_t LoginCallbacks::Ask(Question question) {
  const std::lock_guard<std::mutex> lock(mutex_);
  questions_.emplace(++last_, std::move(question));
  return last_;
}

int LoginCallbacks::Answer(uint64_t login, int result,
                           const skiff_chap_account* account) {
  if (result > 0 || (result == 0) != (account != nullptr)) {
    return Fail(EINVAL,
                absl::StrCat("the result is ", result, ", and the account is ",
                             account == nullptr ? "" : "not ",
                             "NULL: an account goes with 0, and none with a "
                             "negative errno"));
  }
  absl::StatusOr<ChapAccount> answer =
      result == -ENOENT ? absl::NotFoundError("there is no such user")
                        : absl::UnavailableError(absl::StrCat(
                              "the program's authenticator failed: ",
                              std::generic_category().message(-result)));
  if (account != nullptr) {
    skiff_chap_account given;
    if (const int error = ReadOptions(account, "skiff_chap_account", &given)) {
      return error;
    }
    ChapAccount known;
    if (const int error = ReadAccount(given, &known)) return error;
    answer = std::move(known);
  }
  Question question;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = questions_.find(login);
    if (found != questions_.end()) {
      question = std::move(found->second);
      questions_.erase(found);
    }
  }
  if (question.answer == nullptr || question.waiting.expired()) {
    return Fail(ENOENT, absl::StrCat("no login of number ", login,
                                     " waits: it was answered before, or has "
                                     "ended"));
  }
  question.answer(std::move(answer));
  return 0;
}

}  // namespace skiff::library
