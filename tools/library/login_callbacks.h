#ifndef SKIFF_TOOLS_LIBRARY_LOGIN_CALLBACKS_H_
#define SKIFF_TOOLS_LIBRARY_LOGIN_CALLBACKS_H_

#include <skiff/target.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "protocol/target/authenticator.h"

namespace skiff::library {

// Asks a program's callbacks who logs in, and keeps the questions that it has
// not answered, by numbers. Thread-safe.
class LoginCallbacks final : public protocol::Authenticator {
 public:
  // 0, or a remembered error: the callbacks make no sense. They are copied.
  static int Create(const skiff_authenticator_ops& ops,
                    std::shared_ptr<LoginCallbacks>* made);
  explicit LoginCallbacks(const skiff_authenticator_ops& ops) : ops_(ops) {}

  Terms TermsOf(const protocol::LoginAttempt& attempt) override;
  void FindAccount(const protocol::LoginAttempt& attempt,
                   const std::string& chap_name,
                   protocol::Authenticator::Answer answer) override;

  // As skiff_server_answer_login().
  int Answer(uint64_t login, int result, const skiff_chap_account* account);

 private:
  struct Question {
    protocol::Authenticator::Answer answer;
    std::weak_ptr<const void> waiting;  // The login; gone with it.
  };

  // Those whose logins have ended go: the server bounds how many there are.
  void DropOver();
  uint64_t Ask(Question question);

  const skiff_authenticator_ops ops_;
  std::mutex mutex_;
  uint64_t last_ = 0;                       // Under `mutex_`.
  std::map<uint64_t, Question> questions_;  // Under `mutex_`.
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_LOGIN_CALLBACKS_H_
