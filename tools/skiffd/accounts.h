#ifndef SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_
#define SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_

#include <memory>
#include <mutex>
#include <string>

#include "protocol/target/authenticator.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

// Knows the accounts of a configuration, and answers at once. Thread-safe.
class Accounts final : public protocol::Authenticator {
 public:
  explicit Accounts(const DaemonConfig& config) { Replace(config); }

  // The accounts of `config` hold for what is asked later. A login that was
  // told to authenticate, and whose account is gone, is refused.
  void Replace(const DaemonConfig& config);

  // As Authenticator has them.
  Terms TermsOf(const protocol::LoginAttempt& attempt) override;
  void FindAccount(const protocol::LoginAttempt& attempt,
                   const std::string& chap_name, Answer answer) override;

 private:
  struct Table;

  std::shared_ptr<const Table> table() const;

  mutable std::mutex mutex_;  // Of the pointer.
  std::shared_ptr<const Table> table_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_ACCOUNTS_H_
