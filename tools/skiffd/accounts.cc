#include "tools/skiffd/accounts.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace skiff::tools::skiffd {
namespace {

using ByName = std::map<std::string, AccountConfig>;

}  // namespace

struct Accounts::Table {
  std::vector<protocol::ChapAlgorithm> algorithms;
  std::set<std::string> targets;           // That are configured.
  std::map<std::string, ByName> accounts;  // By target; "": discovery.
  // Initiators that have accounts of their own, by target as well.
  std::map<std::string, std::set<std::string>> bound;
  ByName none;

  void Add(const std::string& target,
           const std::vector<AccountConfig>& of_target) {
    for (const AccountConfig& account : of_target) {
      accounts[target].emplace(account.name, account);
      if (account.initiator_name.empty()) continue;
      bound[target].insert(account.initiator_name);
    }
  }
  // Null: nobody has to authenticate himself. A discovery session may name a
  // target, too: it is one all the same. A target that is not configured, as
  // one that is being removed, has no accounts, and lets nobody in.
  const ByName* Of(const protocol::LoginAttempt& attempt) const {
    const std::string target = PlaceOf(attempt);
    if (!target.empty() && targets.count(target) == 0) return &none;
    const auto found = accounts.find(target);
    return found == accounts.end() ? nullptr : &found->second;
  }
  // Who says that he is an initiator with an account of its own has to log in
  // by that: he would take its sessions over (RFC 7143 section 6.3.5).
  bool Fits(const AccountConfig& account,
            const protocol::LoginAttempt& attempt) const {
    const std::string& initiator = attempt.identity.initiator_name;
    if (!account.initiator_name.empty()) {
      return account.initiator_name == initiator;
    }
    const auto found = bound.find(PlaceOf(attempt));
    return found == bound.end() || found->second.count(initiator) == 0;
  }

 private:
  static std::string PlaceOf(const protocol::LoginAttempt& attempt) {
    const bool discovery =
        attempt.identity.session_type == protocol::SessionType::kDiscovery;
    return discovery ? std::string() : attempt.identity.target_name;
  }
};

void Accounts::Replace(const DaemonConfig& config) {
  auto table = std::make_shared<Table>();
  table->algorithms = config.chap_algorithms;
  table->Add("", config.discovery_accounts);
  for (const TargetConfig& target : config.targets) {
    table->targets.insert(target.name);
    table->Add(target.name, target.accounts);
  }
  std::shared_ptr<const Table> fresh = std::move(table);
  const std::lock_guard<std::mutex> lock(mutex_);
  table_.swap(fresh);
}

std::shared_ptr<const Accounts::Table> Accounts::table() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return table_;
}

protocol::Authenticator::Terms Accounts::TermsOf(
    const protocol::LoginAttempt& attempt) {
  const std::shared_ptr<const Table> now = table();
  Terms terms;
  terms.everybody = now->Of(attempt) == nullptr;
  terms.algorithms = now->algorithms;
  return terms;
}

void Accounts::FindAccount(const protocol::LoginAttempt& attempt,
                           const std::string& chap_name, Answer answer) {
  const std::shared_ptr<const Table> now = table();
  const ByName* const accounts = now->Of(attempt);
  if (accounts == nullptr) return answer(absl::NotFoundError("no accounts"));
  const auto found = accounts->find(chap_name);
  if (found == accounts->end() || !now->Fits(found->second, attempt)) {
    return answer(absl::NotFoundError("no such account"));
  }
  answer(found->second.chap);
}

}  // namespace skiff::tools::skiffd
