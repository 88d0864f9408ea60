#include "tools/skiffd/accounts.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace skiff::tools::skiffd {
namespace {

class Accounts final : public protocol::Authenticator {
 public:
  explicit Accounts(const DaemonConfig& config)
      : algorithms_(config.chap_algorithms) {
    Add("", config.discovery_accounts);
    for (const TargetConfig& target : config.targets) {
      Add(target.name, target.accounts);
    }
  }
  bool empty() const { return accounts_.empty(); }

  Terms TermsOf(const protocol::LoginAttempt& attempt) override {
    Terms terms;
    terms.everybody = Of(attempt) == nullptr;
    terms.algorithms = algorithms_;
    return terms;
  }
  void FindAccount(const protocol::LoginAttempt& attempt,
                   const std::string& chap_name, Answer answer) override {
    const ByName* const accounts = Of(attempt);
    if (accounts == nullptr) return answer(absl::NotFoundError("no accounts"));
    const auto found = accounts->find(chap_name);
    if (found == accounts->end() ||
        !IsOf(found->second, attempt.identity.initiator_name)) {
      return answer(absl::NotFoundError("no such account"));
    }
    answer(found->second.chap);
  }

 private:
  using ByName = std::map<std::string, AccountConfig>;

  static bool IsOf(const AccountConfig& account, const std::string& initiator) {
    return account.initiator_name.empty() ||
           account.initiator_name == initiator;
  }

  void Add(const std::string& target,
           const std::vector<AccountConfig>& accounts) {
    for (const AccountConfig& account : accounts) {
      accounts_[target].emplace(account.name, account);
    }
  }
  // Null: nobody has to authenticate himself. A discovery session may name a
  // target, too: it is one all the same.
  const ByName* Of(const protocol::LoginAttempt& attempt) const {
    const bool discovery =
        attempt.identity.session_type == protocol::SessionType::kDiscovery;
    const auto found = accounts_.find(discovery ? std::string()
                                                : attempt.identity.target_name);
    return found == accounts_.end() ? nullptr : &found->second;
  }

  const std::vector<protocol::ChapAlgorithm> algorithms_;
  std::map<std::string, ByName> accounts_;  // By target; "": discovery.
};

}  // namespace

std::shared_ptr<protocol::Authenticator> AccountsOf(
    const DaemonConfig& config) {
  auto accounts = std::make_shared<Accounts>(config);
  if (accounts->empty()) return nullptr;
  return accounts;
}

}  // namespace skiff::tools::skiffd
