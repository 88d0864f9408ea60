#include "tools/skiffd/allow_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "protocol/negotiation/names.h"
#include "tools/skiffd/rule_index.h"

namespace skiff::tools::skiffd {
namespace {

using scsi::AccessRule;
using scsi::AddressRange;

// What the check of a rule against those before it takes grows with them.
constexpr int kMaxRules = 65536;
constexpr int kMaxAddresses = 1024;

// Of a target, what its rules name.
struct TargetIndex {
  explicit TargetIndex(const TargetConfig& config) : target(config) {
    for (const AccountConfig& account : config.accounts) {
      accounts.emplace(account.name, &account);
    }
    for (const LunConfig& lun : config.luns) luns.insert(lun.options.lun);
  }

  const TargetConfig& target;
  absl::flat_hash_map<absl::string_view, const AccountConfig*> accounts;
  absl::flat_hash_set<uint64_t> luns;
};

void CheckAddresses(const Allow& allow, Checker* checker, AccessRule* rule) {
  if (allow.address_size() > kMaxAddresses) {
    checker->Problem(
        allow, Allow::kAddressFieldNumber,
        absl::StrCat("a rule can have ", kMaxAddresses,
                     " addresses, and this one has ", allow.address_size(),
                     "; write ranges of them, or more rules"),
        kMaxAddresses);
    return;
  }
  AddressIndex before;
  for (int i = 0; i < allow.address_size(); ++i) {
    absl::StatusOr<AddressRange> range = AddressRange::Parse(allow.address(i));
    if (!range.ok()) {
      checker->Problem(allow, Allow::kAddressFieldNumber,
                       range.status().message(), i);
      continue;
    }
    if (before.CountCovering(*range) != 0) {
      checker->Problem(allow, Allow::kAddressFieldNumber,
                       absl::StrCat("address ", allow.address(i),
                                    " is in one before it; take one of them "
                                    "out"),
                       i);
    }
    before.Add(*range, rule->addresses.size());
    rule->addresses.push_back(*std::move(range));
  }
}

// By CHAP's name and, where the account says so, the initiator's.
void CheckAccount(const Allow& allow, const TargetIndex& index,
                  Checker* checker, const AccessRule& rule) {
  if (!allow.has_account()) return;
  const auto found = index.accounts.find(allow.account());
  if (found == index.accounts.end()) {
    checker->Problem(allow, Allow::kAccountFieldNumber,
                     absl::StrCat("target ", index.target.name,
                                  " has no account ", allow.account(),
                                  "; correct the name, or add account { name: "
                                  "\"",
                                  allow.account(), "\" ... } to the target"));
    return;
  }
  const AccountConfig* const account = found->second;
  if (!rule.initiator.empty() && !account->initiator_name.empty() &&
      rule.initiator != account->initiator_name) {
    checker->Problem(
        allow, Allow::kAccountFieldNumber,
        absl::StrCat("nobody can fit this: account ", allow.account(), " at ",
                     account->where, " is for ", account->initiator_name,
                     " alone"));
  }
}

void CheckMaps(const Allow& allow, const TargetIndex& index, Checker* checker,
               AccessRule* rule) {
  if (allow.map().empty()) return;
  rule->luns.emplace();
  absl::flat_hash_set<uint64_t> mapped;
  absl::flat_hash_map<uint64_t, uint64_t> by_seen;
  for (const Map& map : allow.map()) {
    AccessRule::Lun lun;
    checker->Read(map, SettingsOf(&lun));
    if (!map.has_as()) lun.seen = lun.lun;
    if (!map.has_lun()) {
      checker->Problem(map, 0, "map needs the LUN of the target: lun");
      continue;
    }
    if (!index.luns.contains(lun.lun)) {
      checker->Problem(
          map, Map::kLunFieldNumber,
          absl::StrCat("target ", index.target.name, " has no LUN ", lun.lun));
    }
    const auto [other, fresh] = by_seen.emplace(lun.seen, lun.lun);
    if (!mapped.insert(lun.lun).second) {
      checker->Problem(map, Map::kLunFieldNumber,
                       absl::StrCat("LUN ", lun.lun,
                                    " is mapped twice; an initiator sees "
                                    "each LUN once"));
    } else if (!fresh) {
      checker->Problem(
          map, map.has_as() ? Map::kAsFieldNumber : Map::kLunFieldNumber,
          absl::StrCat("LUN ", other->second, " is seen as ", lun.seen,
                       " already; give each another number by as"));
    }
    rule->luns->push_back(lun);
  }
}

AccessRule ReadRule(const Allow& allow, const TargetIndex& index,
                    Checker* checker) {
  AccessRule rule;
  checker->Read(allow, SettingsOf(&rule));
  if (allow.has_initiator_name()) {
    auto name = protocol::NormalizeName(allow.initiator_name());
    if (name.ok()) {
      rule.initiator = *std::move(name);
    } else {
      checker->Problem(allow, Allow::kInitiatorNameFieldNumber,
                       name.status().message());
    }
  }
  CheckAddresses(allow, checker, &rule);
  CheckAccount(allow, index, checker, rule);
  CheckMaps(allow, index, checker, &rule);
  return rule;
}

}  // namespace

void CheckAllow(const Target& target, Checker* checker, TargetConfig* out) {
  if (target.allow_size() > kMaxRules) {
    checker->Problem(
        target.allow(kMaxRules), 0,
        absl::StrCat("a target can have ", kMaxRules, " allow rules, and ",
                     out->name, " has ", target.allow_size(),
                     "; join rules: one can have several addresses"));
    return;
  }
  const TargetIndex index(*out);
  RuleIndex before(&out->rules);
  for (const Allow& allow : target.allow()) {
    const size_t number = out->rules.size();
    out->rules.push_back(ReadRule(allow, index, checker));
    const std::optional<size_t> first =
        before.FirstCovering(out->rules[number]);
    if (!first.has_value()) {
      before.Add(number);
      continue;
    }
    checker->Problem(
        allow, 0,
        absl::StrCat("this can never count: whoever fits it fits the one at ",
                     checker->Where(target.allow(static_cast<int>(*first))),
                     ", which comes first; put it before"));
  }
  out->anybody = out->rules.empty() && out->accounts.empty();
  if (out->rules.empty()) out->rules.emplace_back();
  out->open = target.access() == OPEN;
  if (out->open && !out->anybody) {
    checker->Problem(target, Target::kAccessFieldNumber,
                     "access: OPEN says that everybody may use the target, "
                     "which has accounts or allow rules; take one out");
  }
}

bool PortalConfig::loopback() const {
  return address.host == "localhost" ||
         AddressRange::Parse("127.0.0.0/8")->Contains(address.host) ||
         AddressRange::Parse("::1")->Contains(address.host);
}

void CheckOpen(const DaemonConfig& checked, const Config& config,
               Checker* checker) {
  const auto outside = std::find_if(
      checked.portals.begin(), checked.portals.end(),
      [](const PortalConfig& portal) { return !portal.loopback(); });
  if (outside == checked.portals.end()) return;
  for (int i = 0; i < config.target_size(); ++i) {
    const TargetConfig& target = checked.targets[i];
    if (!target.anybody || target.open) continue;
    checker->Problem(
        config.target(i), 0,
        absl::StrCat("everybody who reaches ", outside->where,
                     " could read and write the disks of ", target.name,
                     "; say who may use it by account or allow, or that it is "
                     "meant: access: OPEN (quick form: --open)"));
  }
}

}  // namespace skiff::tools::skiffd
