#include "tools/skiffd/account_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"
#include "tools/common/secret_file.h"

namespace skiff::tools::skiffd {
namespace {

// Empty: it is missing, or what is wrong was told.
protocol::ChapSecret ReadSecret(const Account& account, int field,
                                const std::string& path, Checker* checker) {
  if (path.empty()) return protocol::ChapSecret();
  absl::StatusOr<protocol::ChapSecret> secret = ReadSecretFile(path);
  if (secret.ok()) return *std::move(secret);
  checker->Problem(account, field, secret.status().message());
  return protocol::ChapSecret();
}

void CheckOwn(const Account& account, absl::string_view target,
              Checker* checker, AccountConfig* out) {
  if (account.own_secret_file().empty()) {
    if (account.has_own_name()) {
      checker->Problem(account, Account::kOwnNameFieldNumber,
                       "own_name needs own_secret_file");
    }
    return;
  }
  protocol::ChapCredential own;
  own.name = out->own_name.empty() ? std::string(target) : out->own_name;
  own.secret = ReadSecret(account, Account::kOwnSecretFileFieldNumber,
                          account.own_secret_file(), checker);
  if (own.secret.empty() || out->chap.secret.empty()) return;
  const absl::Status pair =
      protocol::CheckChapPair(out->chap.secret, own.secret);
  if (!pair.ok()) {
    checker->Problem(account, Account::kOwnSecretFileFieldNumber,
                     pair.message());
  }
  out->chap.target = std::move(own);
}

}  // namespace

std::vector<AccountConfig> CheckAccounts(
    const google::protobuf::RepeatedPtrField<Account>& accounts,
    absl::string_view target, Checker* checker) {
  std::vector<AccountConfig> all;
  for (const Account& account : accounts) {
    AccountConfig to;
    to.where = checker->Where(account);
    checker->Read(account, SettingsOf(&to));
    if (account.name().empty()) {
      checker->Problem(account, Account::kNameFieldNumber,
                       "an account needs the name that initiators send");
    }
    if (account.secret_file().empty()) {
      checker->Problem(account, Account::kSecretFileFieldNumber,
                       "an account needs its secret_file");
    }
    const auto other = std::find_if(
        all.begin(), all.end(),
        [&to](const AccountConfig& one) { return one.name == to.name; });
    if (other != all.end() && !to.name.empty()) {
      checker->Problem(account, Account::kNameFieldNumber,
                       absl::StrCat("account ", to.name,
                                    " is defined already by ", other->where));
    }
    to.chap.secret = ReadSecret(account, Account::kSecretFileFieldNumber,
                                account.secret_file(), checker);
    CheckOwn(account, target, checker, &to);
    if (account.has_initiator_name()) {
      auto initiator = protocol::NormalizeName(account.initiator_name());
      if (initiator.ok()) {
        to.initiator_name = *std::move(initiator);
      } else {
        checker->Problem(account, Account::kInitiatorNameFieldNumber,
                         initiator.status().message());
      }
    }
    all.push_back(std::move(to));
  }
  return all;
}

// RFC 7143 section 9.2.1: whoever knows a target's secret, as its initiators
// do, could log in by it.
void CheckDirections(const std::vector<AccountConfig>& accounts,
                     std::vector<std::string>* problems) {
  for (const AccountConfig& one : accounts) {
    for (const AccountConfig& other : accounts) {
      if (!one.chap.target.has_value() || one.where == other.where ||
          !one.chap.target->secret.Equals(other.chap.secret)) {
        continue;
      }
      problems->push_back(absl::StrCat(
          one.where, ": own_secret_file has the secret of account ", other.name,
          " at ", other.where,
          ": initiators and targets need secrets of their "
          "own (RFC 7143 section 9.2.1)"));
    }
  }
}

std::vector<protocol::ChapAlgorithm> CheckAlgorithms(const Chap& chap,
                                                     Checker* checker) {
  std::vector<protocol::ChapAlgorithm> chosen;
  for (int i = 0; i < chap.algorithm_size(); ++i) {
    const absl::StatusOr<protocol::ChapAlgorithm> one =
        protocol::ParseChapAlgorithm(chap.algorithm(i));
    if (one.ok()) {
      chosen.push_back(*one);
    } else {
      checker->Problem(chap, Chap::kAlgorithmFieldNumber,
                       one.status().message(), i);
    }
  }
  if (!chosen.empty()) return chosen;
  return {protocol::AllChapAlgorithms().begin(),
          protocol::AllChapAlgorithms().end()};
}

}  // namespace skiff::tools::skiffd
