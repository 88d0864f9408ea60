#include "tools/skiffd/allow_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"

namespace skiff::tools::skiffd {
namespace {

using scsi::AccessRule;
using scsi::AddressRange;

void CheckAddresses(const Allow& allow, Checker* checker, AccessRule* rule) {
  for (int i = 0; i < allow.address_size(); ++i) {
    absl::StatusOr<AddressRange> range = AddressRange::Parse(allow.address(i));
    if (!range.ok()) {
      checker->Problem(allow, Allow::kAddressFieldNumber,
                       range.status().message(), i);
      continue;
    }
    if (std::any_of(rule->addresses.begin(), rule->addresses.end(),
                    [&range](const AddressRange& other) {
                      return other.Covers(*range);
                    })) {
      checker->Problem(allow, Allow::kAddressFieldNumber,
                       absl::StrCat("address ", allow.address(i),
                                    " is in one before it; take one of them "
                                    "out"),
                       i);
    }
    rule->addresses.push_back(*std::move(range));
  }
}

// By CHAP's name and, where the account says so, the initiator's.
void CheckAccount(const Allow& allow, const TargetConfig& target,
                  Checker* checker, const AccessRule& rule) {
  if (!allow.has_account()) return;
  const auto account =
      std::find_if(target.accounts.begin(), target.accounts.end(),
                   [&allow](const AccountConfig& one) {
                     return one.name == allow.account();
                   });
  if (account == target.accounts.end()) {
    checker->Problem(allow, Allow::kAccountFieldNumber,
                     absl::StrCat("target ", target.name, " has no account ",
                                  allow.account(),
                                  "; correct the name, or add account { name: "
                                  "\"",
                                  allow.account(), "\" ... } to the target"));
    return;
  }
  if (!rule.initiator.empty() && !account->initiator_name.empty() &&
      rule.initiator != account->initiator_name) {
    checker->Problem(
        allow, Allow::kAccountFieldNumber,
        absl::StrCat("nobody can fit this: account ", allow.account(), " at ",
                     account->where, " is for ", account->initiator_name,
                     " alone"));
  }
}

void CheckMaps(const Allow& allow, const TargetConfig& target, Checker* checker,
               AccessRule* rule) {
  if (allow.map().empty()) return;
  rule->luns.emplace();
  for (const Map& map : allow.map()) {
    AccessRule::Lun lun;
    checker->Read(map, SettingsOf(&lun));
    if (!map.has_as()) lun.seen = lun.lun;
    if (!map.has_lun()) {
      checker->Problem(map, 0, "map needs the LUN of the target: lun");
      continue;
    }
    if (std::none_of(target.luns.begin(), target.luns.end(),
                     [&lun](const LunConfig& one) {
                       return one.options.lun == lun.lun;
                     })) {
      checker->Problem(
          map, Map::kLunFieldNumber,
          absl::StrCat("target ", target.name, " has no LUN ", lun.lun));
    }
    for (const AccessRule::Lun& other : *rule->luns) {
      if (other.lun == lun.lun) {
        checker->Problem(map, Map::kLunFieldNumber,
                         absl::StrCat("LUN ", lun.lun,
                                      " is mapped twice; an initiator sees "
                                      "each LUN once"));
      } else if (other.seen == lun.seen) {
        checker->Problem(
            map, map.has_as() ? Map::kAsFieldNumber : Map::kLunFieldNumber,
            absl::StrCat("LUN ", other.lun, " is seen as ", lun.seen,
                         " already; give each another number by as"));
      }
    }
    rule->luns->push_back(lun);
  }
}

AccessRule ReadRule(const Allow& allow, const TargetConfig& target,
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
  CheckAccount(allow, target, checker, rule);
  CheckMaps(allow, target, checker, &rule);
  return rule;
}

}  // namespace

void CheckAllow(const Target& target, Checker* checker, TargetConfig* out) {
  std::vector<std::string> places;
  for (const Allow& allow : target.allow()) {
    AccessRule rule = ReadRule(allow, *out, checker);
    for (size_t i = 0; i < out->rules.size(); ++i) {
      if (!out->rules[i].Covers(rule)) continue;
      checker->Problem(
          allow, 0,
          absl::StrCat("this can never count: whoever fits it fits the one at ",
                       places[i], ", which comes first; put it before"));
      break;
    }
    places.push_back(checker->Where(allow));
    out->rules.push_back(std::move(rule));
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
