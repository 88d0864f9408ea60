#ifndef SKIFF_SCSI_TARGET_ACCESS_LIST_H_
#define SKIFF_SCSI_TARGET_ACCESS_LIST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scsi/target/access_policy.h"
#include "scsi/target/address_range.h"

namespace skiff::scsi {

// Who may come in, and what he sees and may do. A nexus has to fit all of the
// conditions; an empty one fits every nexus.
struct AccessRule {
  // A logical unit that is seen.
  struct Lun {
    uint64_t lun = 0;        // The target's.
    uint64_t seen = 0;       // The initiator's.
    bool read_only = false;  // Also where the rule is not.

    // Field by field.
    bool operator==(const Lun&) const = default;
  };

  std::string initiator;         // NexusIdentity::initiator.
  std::string authenticated_as;  // NexusIdentity::authenticated_as.
  // NexusIdentity::address is in one of them.
  std::vector<AddressRange> addresses;

  // Nothing: all logical units, under the target's LUNs.
  std::optional<std::vector<Lun>> luns;
  // Writes meet DATA PROTECT. What changes the state that others meet, such as
  // a reset or MODE SELECT, is denied.
  bool read_only = false;

  // Whether each nexus that fits `other` fits this one.
  bool Covers(const AccessRule& other) const;
  // Field by field.
  bool operator==(const AccessRule&) const = default;
};

// An access policy of rules. Of those that a nexus fits, the first one counts.
// Who fits none is not admitted; without rules, nobody is.
//
// Where targets are discovered and logins begin, initiators have not shown who
// they are. A rule that asks for that counts then, as they may fit it yet.
class AccessList final : public AccessPolicy {
 public:
  explicit AccessList(std::vector<AccessRule> rules) {
    Replace(std::move(rules));
  }

  // By any thread, at any time. Tell the target, which asks for its open
  // nexuses then: Target::ReviewAccess().
  void Replace(std::vector<AccessRule> rules);

  // Whether nobody may come in at present (Unavailable); who is in stays. By
  // any thread, at any time.
  void SetClosed(bool closed) { closed_ = closed; }

  // As AccessPolicy has them.
  bool IsThere(const NexusIdentity& nexus) override;
  absl::Status Admit(const NexusIdentity& nexus) override;
  LunMap Map(const NexusIdentity& nexus) override;
  AccessClasses Grant(const NexusIdentity& nexus, uint64_t lun) override;
  AccessVerdict Decide(const NexusIdentity& nexus, uint64_t lun,
                       AccessClass access) override;

 private:
  using Rules = std::vector<AccessRule>;
  enum class Rights : uint8_t { kNone, kReadOnly, kAll };

  std::shared_ptr<const Rules> rules() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rules_;
  }
  Rights RightsOf(const NexusIdentity& nexus, uint64_t lun) const;

  std::atomic<bool> closed_ = false;
  mutable std::mutex mutex_;  // Of the pointer.
  std::shared_ptr<const Rules> rules_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_ACCESS_LIST_H_
