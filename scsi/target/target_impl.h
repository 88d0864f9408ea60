#ifndef SKIFF_SCSI_TARGET_TARGET_IMPL_H_
#define SKIFF_SCSI_TARGET_TARGET_IMPL_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scsi/target/logical_unit.h"
#include "scsi/target/nexus_impl.h"
#include "scsi/target/target.h"

namespace skiff::scsi {

// The mutex guards the lists of logical units and nexuses, which change rarely;
// commands never take it. Functions for other reactors are posted while it is
// held: a registered nexus is not closed, so that its reactor exists, and all
// nexuses see the changes in the same order.
class TargetImpl final : public Target, public NexusOwner {
 public:
  // `commands` are for ever.
  TargetImpl(absl::string_view name, const CommandSet& commands,
             std::shared_ptr<AccessPolicy> access)
      : name_(name), commands_(commands), access_(std::move(access)) {}
  ~TargetImpl() override;

  absl::string_view name() const override { return name_; }
  absl::Status AddLogicalUnit(std::shared_ptr<Backend> backend,
                              const LogicalUnitOptions& options) override;
  using Target::RemoveLogicalUnit;
  absl::Status RemoveLogicalUnit(uint64_t lun,
                                 LogicalUnitRemoved done) override;
  void NotifyBackendChanged(uint64_t lun) override;
  std::vector<uint64_t> Luns() const override;
  std::vector<LogicalUnitStatus> LogicalUnitStatuses() const override;
  std::vector<DirectMemory> DirectMemories() const override;
  bool IsThereFor(const NexusIdentity& who) const override {
    return access_->IsThere(who);
  }
  void ReviewAccess() override;
  TargetState State() const override;
  void Restore(const TargetState& state) override;
  absl::StatusOr<std::unique_ptr<Nexus>> OpenNexus(
      Worker* worker, TargetPort* port, const NexusIdentity& identity) override;

  // --- NexusOwner.
  const CommandSet& commands() const override { return commands_; }
  AccessPolicy& access() const override { return *access_; }
  void Unregister(const NexusImpl* nexus) override;
  std::vector<std::shared_ptr<LogicalUnit>> LogicalUnits() const override;
  void Reset(const std::shared_ptr<LogicalUnit>& lu, const NexusImpl* origin,
             const std::shared_ptr<void>& token) override;
  void EstablishForOthers(const std::shared_ptr<LogicalUnit>& lu,
                          AdditionalSense code,
                          const NexusImpl* origin) override;

 private:
  struct Registration {
    const NexusImpl* nexus;  // To recognize it; others must not touch it.
    std::shared_ptr<NexusImpl::Anchor> anchor;
    transport::Reactor* reactor;
  };

  absl::Status InUse(uint64_t lun) const;
  // With `mutex_` held: runs `fn` on the reactor of each nexus but `origin`.
  void PostToNexuses(const NexusImpl* origin,
                     const std::function<void(NexusImpl&)>& fn);

  const std::string name_;
  const CommandSet& commands_;
  const std::shared_ptr<AccessPolicy> access_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<LogicalUnit>> luns_;
  std::vector<Registration> nexuses_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_TARGET_IMPL_H_
