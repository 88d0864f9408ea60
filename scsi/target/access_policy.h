#ifndef SKIFF_SCSI_TARGET_ACCESS_POLICY_H_
#define SKIFF_SCSI_TARGET_ACCESS_POLICY_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "scsi/target/nexus_identity.h"

namespace skiff::scsi {

// What a command asks of a logical unit, as far as rights to it go.
enum class AccessClass : uint8_t {
  kIdentify,  // Tells what is there, and nothing of what it holds.
  kRead,      // Reads the medium, or how it is set; or flushes it.
  kWrite,     // Changes the medium.
  kControl,   // Changes the logical unit's state, and not the medium.
};

class AccessClasses {
 public:
  constexpr AccessClasses() = default;
  constexpr AccessClasses(std::initializer_list<AccessClass> classes) {
    for (const AccessClass c : classes) bits_ |= Bit(c);
  }
  static constexpr AccessClasses All() {
    return {AccessClass::kIdentify, AccessClass::kRead, AccessClass::kWrite,
            AccessClass::kControl};
  }
  constexpr bool Has(AccessClass c) const { return (bits_ & Bit(c)) != 0; }

 private:
  static constexpr uint8_t Bit(AccessClass c) {
    return static_cast<uint8_t>(1u << static_cast<uint8_t>(c));
  }

  uint8_t bits_ = 0;
};

enum class AccessVerdict : uint8_t {
  kAllowed,
  kDenied,    // ILLEGAL REQUEST, ACCESS DENIED - NO ACCESS RIGHTS.
  kReadOnly,  // DATA PROTECT, WRITE PROTECTED.
};

// Which logical unit of a target a nexus sees, and under which LUN.
struct LunMapping {
  uint64_t lun = 0;   // The target's: LogicalUnitOptions::lun.
  uint64_t seen = 0;  // The initiator's, 0 .. 16383.

  // Field by field.
  bool operator==(const LunMapping&) const = default;
};

// Nothing: all of them, under the target's own LUNs. Without a value for a
// logical unit, it is not there for the nexus.
using LunMap = std::optional<std::vector<LunMapping>>;

// Who may come in to a target, what each sees of it, and what each may do
// there. Knows nexuses, not iSCSI.
//
// Called on the reactors of the nexuses, several at once: it is thread-safe,
// does not block, and does not call the target, which may hold a lock. Answers
// may change; Target::ReviewAccess() has them asked for again.
class AccessPolicy {
 public:
  virtual ~AccessPolicy() = default;

  // Whether the target is there at all for an initiator: asked where targets
  // are discovered, and when a login begins. Then nobody has authenticated yet,
  // so that `authenticated_as` is empty, and so may all of the ports' names be.
  // An initiator for which it is not there can't tell it from a target that
  // does not exist.
  virtual bool IsThere(const NexusIdentity& /*nexus*/) { return true; }
  // At login, before there is a nexus. PermissionDenied: this one may not come
  // in. Unauthenticated: it has not shown who it is. NotFound: as without such
  // a target. Unavailable: nobody may come in at present, and who is in stays.
  // The message goes to the log.
  virtual absl::Status Admit(const NexusIdentity& nexus) = 0;
  // Asked once for each nexus, after Admit. One LUN that is seen twice, or one
  // logical unit under two: the first counts.
  virtual LunMap Map(const NexusIdentity& /*nexus*/) { return std::nullopt; }
  // Here and below `lun` is the target's, whatever the initiator sees.
  //
  // Asked once for each logical unit: the classes of which the nexus may do
  // everything, until access is reviewed.
  virtual AccessClasses Grant(const NexusIdentity& nexus, uint64_t lun) = 0;
  // About each command of another class; and about resets, where kControl is
  // one.
  virtual AccessVerdict Decide(const NexusIdentity& nexus, uint64_t lun,
                               AccessClass access) = 0;
};

// Everybody may do everything.
class AllowAll final : public AccessPolicy {
 public:
  absl::Status Admit(const NexusIdentity& /*nexus*/) override {
    return absl::OkStatus();
  }
  AccessClasses Grant(const NexusIdentity& /*nexus*/,
                      uint64_t /*lun*/) override {
    return AccessClasses::All();
  }
  AccessVerdict Decide(const NexusIdentity& /*nexus*/, uint64_t /*lun*/,
                       AccessClass /*access*/) override {
    return AccessVerdict::kAllowed;
  }
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_ACCESS_POLICY_H_
