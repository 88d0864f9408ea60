#include "scsi/target/access_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

// Whether a condition of a rule that is `wanted` holds.
bool Fits(const std::string& wanted, const std::string& is) {
  return wanted.empty() || wanted == is;
}

// But for who has authenticated.
bool FitsUntilKnown(const AccessRule& rule, const NexusIdentity& nexus) {
  return Fits(rule.initiator, nexus.initiator) &&
         (rule.addresses.empty() ||
          std::any_of(rule.addresses.begin(), rule.addresses.end(),
                      [&nexus](const AddressRange& range) {
                        return range.Contains(nexus.address);
                      }));
}

const AccessRule* RuleFor(const std::vector<AccessRule>& rules,
                          const NexusIdentity& nexus) {
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const AccessRule& rule) {
        return Fits(rule.authenticated_as, nexus.authenticated_as) &&
               FitsUntilKnown(rule, nexus);
      });
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace

bool AccessRule::Covers(const AccessRule& other) const {
  if (!Fits(initiator, other.initiator) ||
      !Fits(authenticated_as, other.authenticated_as)) {
    return false;
  }
  if (addresses.empty()) return true;
  return !other.addresses.empty() &&
         std::all_of(other.addresses.begin(), other.addresses.end(),
                     [this](const AddressRange& wanted) {
                       return std::any_of(addresses.begin(), addresses.end(),
                                          [&wanted](const AddressRange& one) {
                                            return one.Covers(wanted);
                                          });
                     });
}

void AccessList::Replace(std::vector<AccessRule> rules) {
  auto fresh = std::make_shared<const Rules>(std::move(rules));
  const std::lock_guard<std::mutex> lock(mutex_);
  rules_.swap(fresh);
}

bool AccessList::IsThere(const NexusIdentity& nexus) {
  const std::shared_ptr<const Rules> all = rules();
  return std::any_of(all->begin(), all->end(), [&](const AccessRule& rule) {
    return FitsUntilKnown(rule, nexus) &&
           (nexus.authenticated_as.empty() ||
            Fits(rule.authenticated_as, nexus.authenticated_as));
  });
}

absl::Status AccessList::Admit(const NexusIdentity& nexus) {
  if (RuleFor(*rules(), nexus) != nullptr) {
    if (!closed_) return absl::OkStatus();
    return absl::UnavailableError("the target admits nobody at present");
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "no access rule lets in ", nexus.initiator,
      nexus.authenticated_as.empty()
          ? ""
          : absl::StrCat(" as ", nexus.authenticated_as),
      nexus.address.empty() ? "" : absl::StrCat(" from ", nexus.address)));
}

LunMap AccessList::Map(const NexusIdentity& nexus) {
  const std::shared_ptr<const Rules> all = rules();
  const AccessRule* const rule = RuleFor(*all, nexus);
  std::vector<LunMapping> map;
  if (rule == nullptr) return map;
  if (!rule->luns.has_value()) return std::nullopt;
  for (const AccessRule::Lun& lun : *rule->luns) {
    map.push_back({.lun = lun.lun, .seen = lun.seen});
  }
  return map;
}

AccessList::Rights AccessList::RightsOf(const NexusIdentity& nexus,
                                        uint64_t lun) const {
  const std::shared_ptr<const Rules> all = rules();
  const AccessRule* const rule = RuleFor(*all, nexus);
  if (rule == nullptr) return Rights::kNone;
  bool read_only = rule->read_only;
  if (rule->luns.has_value()) {
    const auto found = std::find_if(
        rule->luns->begin(), rule->luns->end(),
        [lun](const AccessRule::Lun& one) { return one.lun == lun; });
    if (found == rule->luns->end()) return Rights::kNone;
    read_only = read_only || found->read_only;
  }
  return read_only ? Rights::kReadOnly : Rights::kAll;
}

AccessClasses AccessList::Grant(const NexusIdentity& nexus, uint64_t lun) {
  switch (RightsOf(nexus, lun)) {
    case Rights::kNone:
      return {};
    case Rights::kReadOnly:
      return {AccessClass::kIdentify, AccessClass::kRead};
    case Rights::kAll:
      return AccessClasses::All();
  }
  return {};
}

AccessVerdict AccessList::Decide(const NexusIdentity& nexus, uint64_t lun,
                                 AccessClass access) {
  const Rights rights = RightsOf(nexus, lun);
  if (rights == Rights::kAll) return AccessVerdict::kAllowed;
  if (rights == Rights::kNone) return AccessVerdict::kDenied;
  switch (access) {
    case AccessClass::kIdentify:
    case AccessClass::kRead:
      return AccessVerdict::kAllowed;
    case AccessClass::kWrite:
      return AccessVerdict::kReadOnly;
    case AccessClass::kControl:
      return AccessVerdict::kDenied;
  }
  return AccessVerdict::kDenied;
}

}  // namespace skiff::scsi
