#ifndef SKIFF_PROTOCOL_TARGET_AUTHENTICATOR_H_
#define SKIFF_PROTOCOL_TARGET_AUTHENTICATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/auth/chap.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// Who wants to log in, as far as he has said.
struct LoginAttempt {
  LoginIdentity identity;  // Which target, or a discovery session.
  std::string peer;        // Where from: "host:port".
  // For FindAccount(): gone once nobody waits for the answer.
  std::weak_ptr<const void> waiting = {};
};

// Who has to authenticate himself, and by which secrets: the front of a user
// database. Asked for each login, also for one that takes a session over.
//
// Called on the reactors of the logins, several at once: it is thread-safe, and
// does not block.
class Authenticator {
 public:
  // What an attempt has to go by.
  struct Terms {
    // Nobody has to authenticate himself.
    bool everybody = false;
    // Else CHAP, with the first of these that the initiator offers. Without any
    // nobody comes in.
    std::vector<ChapAlgorithm> algorithms = {AllChapAlgorithms().begin(),
                                             AllChapAlgorithms().end()};
  };
  virtual ~Authenticator() = default;

  // Asked first, once for each attempt.
  virtual Terms TermsOf(const LoginAttempt& attempt) = 0;

  // Takes an account, or why there is none.
  using Answer = ChapTargetOptions::Answer;
  // Who is called `chap_name` (CHAP_N) to the target of this attempt. An
  // initiator's iSCSI name is what it says; only the name of CHAP is shown to
  // be true. Where it matters that both belong together, as for an access
  // policy or so that nobody takes another's session over, answer NotFound to a
  // pair that does not. `answer` is called once, by any thread, within this
  // call or later; it may outlive the login, and does nothing then. The login
  // goes on waiting until the server's `login_timeout`. An answer that is not
  // called counts against the server's `max_account_lookups` until it is
  // destroyed: destroy those that nobody waits for.
  //
  // NotFound: nobody, which the initiator can't tell from a wrong secret. Other
  // errors end the login with "service unavailable", and are logged.
  virtual void FindAccount(const LoginAttempt& attempt,
                           const std::string& chap_name, Answer answer) = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_AUTHENTICATOR_H_
