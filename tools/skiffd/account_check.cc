#include "tools/skiffd/account_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"
#include "tools/common/secret_file.h"
#include "transport/log/printable.h"

namespace skiff::tools::skiffd {
namespace {

// Where an account has a secret: `NAME_file` or `NAME_credential`.
struct SecretSource {
  const char* name;
  const std::string& file;
  int file_field;
  bool is_credential;  // That is set, to what may be empty.
  const std::string& credential;
  int credential_field;

  bool is_set() const { return is_credential || !file.empty(); }
  int field() const { return is_credential ? credential_field : file_field; }
  std::string Fields() const {
    return absl::StrCat(name, "_file or ", name, "_credential");
  }
};

SecretSource SecretOf(const Account& account) {
  return {"secret",
          account.secret_file(),
          Account::kSecretFileFieldNumber,
          account.has_secret_credential(),
          account.secret_credential(),
          Account::kSecretCredentialFieldNumber};
}

SecretSource OwnSecretOf(const Account& account) {
  return {"own_secret",
          account.own_secret_file(),
          Account::kOwnSecretFileFieldNumber,
          account.has_own_secret_credential(),
          account.own_secret_credential(),
          Account::kOwnSecretCredentialFieldNumber};
}

// Empty: it is missing, or what is wrong was told.
protocol::ChapSecret ReadSecret(const Account& account,
                                const SecretSource& source, Checker* checker) {
  if (!source.is_set()) return protocol::ChapSecret();
  if (source.is_credential && !source.file.empty()) {
    checker->Problem(
        account, source.credential_field,
        absl::StrCat(source.name, "_credential is set, and ", source.name,
                     "_file too; take out one of them"));
    return protocol::ChapSecret();
  }
  absl::StatusOr<protocol::ChapSecret> secret =
      source.is_credential ? ReadSecretCredential(source.credential)
                           : ReadSecretFile(source.file);
  if (secret.ok()) return *std::move(secret);
  checker->Problem(account, source.field(), secret.status().message());
  return protocol::ChapSecret();
}

void CheckOwn(const Account& account, absl::string_view target,
              Checker* checker, AccountConfig* out) {
  const SecretSource source = OwnSecretOf(account);
  if (!source.is_set()) {
    if (account.has_own_name()) {
      checker->Problem(account, Account::kOwnNameFieldNumber,
                       absl::StrCat("own_name needs ", source.Fields()));
    }
    return;
  }
  protocol::ChapCredential own;
  own.name = out->own_name.empty() ? std::string(target) : out->own_name;
  own.secret = ReadSecret(account, source, checker);
  if (own.secret.empty() || out->chap.secret.empty()) return;
  const absl::Status pair =
      protocol::CheckChapPair(out->chap.secret, own.secret);
  if (!pair.ok()) {
    checker->Problem(account, source.field(), pair.message());
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
    const SecretSource source = SecretOf(account);
    if (!source.is_set()) {
      checker->Problem(account, source.field(),
                       absl::StrCat("an account needs its ", source.Fields()));
    }
    const auto other = std::find_if(
        all.begin(), all.end(),
        [&to](const AccountConfig& one) { return one.name == to.name; });
    if (other != all.end() && !to.name.empty()) {
      checker->Problem(account, Account::kNameFieldNumber,
                       absl::StrCat("account ", to.name,
                                    " is defined already by ", other->where));
    }
    to.chap.secret = ReadSecret(account, source, checker);
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
  std::multimap<absl::string_view, const AccountConfig*> of_secret;
  for (const AccountConfig& one : accounts) {
    of_secret.emplace(one.chap.secret.bytes(), &one);
  }
  for (const AccountConfig& one : accounts) {
    if (!one.chap.target.has_value()) continue;
    const auto [begin, end] =
        of_secret.equal_range(one.chap.target->secret.bytes());
    for (auto other = begin; other != end; ++other) {
      if (one.where == other->second->where) continue;
      problems->push_back(transport::Printable(absl::StrCat(
          one.where, ": the target's own secret is the secret of account ",
          other->second->name, " at ", other->second->where,
          ": initiators and targets need secrets of their "
          "own (RFC 7143 section 9.2.1)")));
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
