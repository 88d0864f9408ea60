#ifndef SKIFF_SCSI_TARGET_NEXUS_IMPL_H_
#define SKIFF_SCSI_TARGET_NEXUS_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scsi/target/command_counters.h"
#include "scsi/target/command_set.h"
#include "scsi/target/lu_nexus.h"
#include "scsi/target/target.h"
#include "scsi/target/worker_impl.h"

namespace skiff::scsi {

class NexusImpl;

// The target that nexuses belong to, as they see it. They call it on their
// reactors; never for a command that moves data.
class NexusOwner {
 public:
  virtual absl::string_view name() const = 0;
  virtual const CommandSet& commands() const = 0;
  virtual AccessPolicy& access() const = 0;
  virtual void Unregister(const NexusImpl* nexus) = 0;
  virtual std::vector<std::shared_ptr<LogicalUnit>> LogicalUnits() const = 0;
  // A logical unit reset's effects on all nexuses but `origin`. `token` is held
  // until all tasks there are aborted.
  virtual void Reset(const std::shared_ptr<LogicalUnit>& lu,
                     const NexusImpl* origin,
                     const std::shared_ptr<void>& token) = 0;
  // A unit attention for all nexuses but `origin`.
  virtual void EstablishForOthers(const std::shared_ptr<LogicalUnit>& lu,
                                  AdditionalSense code,
                                  const NexusImpl* origin) = 0;

 protected:
  ~NexusOwner() = default;
};

class NexusImpl : public Nexus, private transport::TurnHook {
 public:
  // What posted functions hold instead of the nexus, which may be gone when
  // they run. Read and written on the nexus's reactor only.
  struct Anchor {
    NexusImpl* nexus = nullptr;
  };

  NexusImpl(NexusOwner* target, WorkerImpl* worker, TargetPort* port,
            NexusIdentity identity);
  ~NexusImpl() override;

  void Submit(Task* task) override {
    LuNexus* lu = task->lun == last_lun_ ? last_lu_nexus_ : Route(task->lun);
    lu->Submit(task);
  }
  void OnDataOut(Task* task, bool ok) override;
  void OnDataInSent(Task* task, bool ok) override;
  void Release(Task* task) override;
  void Manage(TaskManagement function, uint64_t lun, Task* task,
              absl::AnyInvocable<void(TaskManagementResult)> done) override;
  void Close(absl::AnyInvocable<void()> done) override;
  CommandCounts Counts() const override { return totals_.Get(); }
  absl::StatusOr<NexusState> State() const override;
  void Restore(const NexusState& state) override;

  NexusOwner& target() const { return *target_; }
  WorkerImpl* worker() const { return worker_; }
  const NexusIdentity& identity() const { return identity_; }
  const std::shared_ptr<Anchor>& anchor() const { return anchor_; }
  // In SAM-5's encoding, ascending.
  std::vector<uint64_t> ReportedLuns() const;
  // REPORT LUNS has told what REPORTED LUNS DATA HAS CHANGED announces.
  void ClearAnnouncedLuns();

  // --- Consequences of what happens elsewhere, on this reactor.
  void AttachLu(const std::shared_ptr<LogicalUnit>& lu, bool announce);
  void DetachLu(const std::shared_ptr<LogicalUnit>& lu);
  // Of all logical units that the target has.
  void ReviewAccess(const std::vector<std::shared_ptr<LogicalUnit>>& lus);
  // Null unless the nexus has exactly this logical unit.
  LuNexus* FindLu(const LogicalUnit& lu);
  void Establish(const LogicalUnit& lu, AdditionalSense code);

 private:
  class ManagementToken;
  class CloseToken;

  LuNexus::Home Home();
  // The LuNexus in charge of a LUN, which may be the one for missing LUNs.
  LuNexus* Route(uint64_t lun);
  void ReadMap();
  // Under which LUN the initiator sees it, if it does.
  std::optional<uint64_t> SeenAs(const LogicalUnit& lu) const;
  void Attach(const std::shared_ptr<LogicalUnit>& lu, uint64_t seen);
  void TakeOut(const LuNexus* lu_nexus);
  void ShutOut(LuNexus* lu_nexus);
  bool RestoreLu(const NexusState::Lu& state);
  void AnnounceLuns();
  void ReportAsync(const LuNexus& lu_nexus, AdditionalSense code);
  void ResetTarget(const std::shared_ptr<ManagementToken>& token);
  void Retire(const LuNexus* lu_nexus);
  void OnManaged();
  void OnTurnEnd() override;  // When Close() has aborted all tasks.
  void FinishCloseIfDone();

  NexusOwner* const target_;
  WorkerImpl* const worker_;
  TargetPort* const port_;
  const NexusIdentity identity_;
  const std::shared_ptr<Anchor> anchor_ = std::make_shared<Anchor>();
  BufferAccount account_;
  CommandTotals totals_;

  uint64_t last_lun_;
  LuNexus* last_lu_nexus_ = nullptr;
  // By what the initiator sees, and the same by what they are.
  absl::flat_hash_map<uint64_t, std::unique_ptr<LuNexus>> lu_nexuses_;
  absl::flat_hash_map<const LogicalUnit*, LuNexus*> by_lu_;
  // From the target's LUNs to what the initiator sees; nothing: they are the
  // same.
  std::optional<absl::flat_hash_map<uint64_t, uint64_t>> map_;
  std::unique_ptr<LuNexus> report_luns_;
  std::unique_ptr<LuNexus> missing_;
  // Of logical units that were removed; until the port let go of their tasks.
  std::vector<std::unique_ptr<LuNexus>> retired_;
  uint32_t managing_ = 0;
  bool tasks_aborted_ = false;  // Close() waits for `managing_` alone.
  absl::AnyInvocable<void()> on_closed_;
  std::shared_ptr<CloseToken> close_token_;  // While Close() is not through.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_NEXUS_IMPL_H_
