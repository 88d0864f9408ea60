#include "tools/library/access.h"

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace skiff::library {
namespace {

using scsi::AccessClass;
using scsi::AccessClasses;
using scsi::AccessVerdict;

constexpr AccessClass kClasses[] = {AccessClass::kIdentify, AccessClass::kRead,
                                    AccessClass::kWrite, AccessClass::kControl};

// Lasts as long as what it was made of.
skiff_initiator_id IdOf(const scsi::NexusIdentity& nexus) {
  return {nexus.initiator.c_str(), nexus.initiator_port.c_str(),
          nexus.target_port.c_str(), nexus.authenticated_as.c_str(),
          nexus.address.c_str()};
}

bool Has(uint32_t rights, AccessClass access) {
  switch (access) {
    case AccessClass::kIdentify:
      return (rights & SKIFF_ACCESS_IDENTIFY) != 0;
    case AccessClass::kRead:
      return (rights & SKIFF_ACCESS_READ) != 0;
    case AccessClass::kWrite:
      return (rights & SKIFF_ACCESS_WRITE) != 0;
    case AccessClass::kControl:
      return (rights & SKIFF_ACCESS_CONTROL) != 0;
  }
  return false;
}

class CallbackPolicy final : public scsi::AccessPolicy {
 public:
  explicit CallbackPolicy(const skiff_access_ops& ops) : ops_(ops) {}

  absl::Status Admit(const scsi::NexusIdentity& nexus) override {
    if (ops_.admit == nullptr) return absl::OkStatus();
    const skiff_initiator_id id = IdOf(nexus);
    const int answer = ops_.admit(ops_.user, &id);
    if (answer == 0) return absl::OkStatus();
    if (answer == -EPERM) {
      return absl::UnauthenticatedError(
          absl::StrCat(nexus.initiator, " has not shown who it is"));
    }
    return absl::PermissionDeniedError(
        absl::StrCat(nexus.initiator, " may not log in"));
  }

  AccessClasses Grant(const scsi::NexusIdentity& nexus, uint64_t lun) override {
    const uint32_t rights = RightsOf(nexus, lun);
    if (rights == SKIFF_ACCESS_ALL) return AccessClasses::All();
    for (const AccessClass one : kClasses) {
      if (!Has(rights, one)) continue;
      // What it may not do is left out: `one` stands there a second time.
      const auto or_one = [&](AccessClass c) {
        return Has(rights, c) ? c : one;
      };
      return {or_one(kClasses[0]), or_one(kClasses[1]), or_one(kClasses[2]),
              or_one(kClasses[3])};
    }
    return {};
  }

  AccessVerdict Decide(const scsi::NexusIdentity& nexus, uint64_t lun,
                       AccessClass access) override {
    const uint32_t rights = RightsOf(nexus, lun);
    if (Has(rights, access)) return AccessVerdict::kAllowed;
    return access == AccessClass::kWrite && Has(rights, AccessClass::kRead)
               ? AccessVerdict::kReadOnly
               : AccessVerdict::kDenied;
  }

 private:
  uint32_t RightsOf(const scsi::NexusIdentity& nexus, uint64_t lun) {
    if (ops_.rights == nullptr) return SKIFF_ACCESS_ALL;
    const skiff_initiator_id id = IdOf(nexus);
    return ops_.rights(ops_.user, &id, lun) & SKIFF_ACCESS_ALL;
  }

  const skiff_access_ops ops_;
};

}  // namespace

std::shared_ptr<scsi::AccessPolicy> MakeAccessPolicy(
    const skiff_access_ops& ops) {
  if (ops.admit == nullptr && ops.rights == nullptr) return nullptr;
  return std::make_shared<CallbackPolicy>(ops);
}

}  // namespace skiff::library
