#include "scsi/target/target_impl.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::scsi {

TargetImpl::~TargetImpl() { assert(nexuses_.empty()); }

void TargetImpl::PostToNexuses(const NexusImpl* origin,
                               const std::function<void(NexusImpl&)>& fn) {
  for (const Registration& r : nexuses_) {
    if (r.nexus == origin) continue;
    r.reactor->Post([anchor = r.anchor, fn] {
      if (anchor->nexus != nullptr) fn(*anchor->nexus);
    });
  }
}

absl::Status TargetImpl::InUse(uint64_t lun) const {
  return absl::AlreadyExistsError(absl::StrCat(
      "LUN ", lun, " of ", name_,
      " is in use; remove its logical unit first or choose another LUN"));
}

absl::Status TargetImpl::AddLogicalUnit(std::shared_ptr<Backend> backend,
                                        const LogicalUnitOptions& options) {
  if (backend == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN ", options.lun, " needs a backend"));
  }
  {
    // Before it has a medium, whose end its backend would hear of.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (luns_.count(options.lun) != 0) return InUse(options.lun);
  }
  auto created = LogicalUnit::Create(name_, backend, options);
  if (!created.ok()) return created.status();
  const std::shared_ptr<LogicalUnit> lu = *std::move(created);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!luns_.emplace(lu->lun(), lu).second) return InUse(lu->lun());
  PostToNexuses(nullptr, [lu](NexusImpl& nexus) {
    nexus.AttachLu(lu, /*announce=*/true);
  });
  return absl::OkStatus();
}

absl::Status TargetImpl::RemoveLogicalUnit(uint64_t lun,
                                           LogicalUnitRemoved done) {
  // Goes without the mutex: its backend may be told of it, or go, too.
  std::shared_ptr<LogicalUnit> removed;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = luns_.find(lun);
  if (it == luns_.end()) {
    return absl::NotFoundError(absl::StrCat(name_, " has no LUN ", lun));
  }
  removed = std::move(it->second);
  luns_.erase(it);
  removed->set_on_gone(std::move(done));
  PostToNexuses(nullptr,
                [lu = removed](NexusImpl& nexus) { nexus.DetachLu(lu); });
  return absl::OkStatus();
}

void TargetImpl::NotifyBackendChanged(uint64_t lun) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = luns_.find(lun);
  if (it == luns_.end()) return;
  Medium& medium = it->second->medium();
  medium.Refresh();
  for (const auto& [number, lu] : luns_) {
    if (&lu->medium() != &medium) continue;
    for (const AdditionalSense code : lu->TakeChanges()) {
      PostToNexuses(nullptr, [lu = lu, code](NexusImpl& nexus) {
        nexus.Establish(*lu, code);
      });
    }
  }
}

std::vector<DirectMemory> TargetImpl::DirectMemories() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<DirectMemory> memories;
  for (const auto& [lun, lu] : luns_) {
    const std::shared_ptr<Backend>& backend = lu->medium().shared_backend();
    if (lu->memory() == nullptr || backend->direct_memory_moves()) continue;
    memories.push_back({lu->memory(), backend->info().size_bytes, backend});
  }
  return memories;
}

std::vector<uint64_t> TargetImpl::Luns() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<uint64_t> luns;
  for (const auto& [lun, lu] : luns_) luns.push_back(lun);
  return luns;
}

std::vector<LogicalUnitStatus> TargetImpl::LogicalUnitStatuses() const {
  std::vector<LogicalUnitStatus> statuses;
  for (const std::shared_ptr<LogicalUnit>& lu : LogicalUnits()) {
    statuses.push_back(lu->Status());
  }
  return statuses;
}

std::vector<std::shared_ptr<LogicalUnit>> TargetImpl::LogicalUnits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<LogicalUnit>> lus;
  for (const auto& [lun, lu] : luns_) lus.push_back(lu);
  return lus;
}

absl::StatusOr<std::unique_ptr<Nexus>> TargetImpl::OpenNexus(
    Worker* worker, TargetPort* port, const NexusIdentity& identity) {
  if (worker == nullptr || port == nullptr || identity.initiator_port.empty() ||
      identity.relative_target_port == 0) {
    return absl::InvalidArgumentError(
        "a nexus needs a worker, a target port and its relative identifier, "
        "and an initiator port name");
  }
  // What is reviewed from here on is posted to it.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status admitted = access_->Admit(identity); !admitted.ok()) {
    return admitted;
  }
  auto nexus = std::make_unique<NexusImpl>(
      this, static_cast<WorkerImpl*>(worker), port, identity);
  for (const auto& [lun, lu] : luns_) {
    nexus->AttachLu(lu, /*announce=*/false);
  }
  nexuses_.push_back({nexus.get(), nexus->anchor(), worker->reactor()});
  return nexus;
}

void TargetImpl::ReviewAccess() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<LogicalUnit>> lus;
  lus.reserve(luns_.size());
  for (const auto& [lun, lu] : luns_) lus.push_back(lu);
  PostToNexuses(nullptr, [lus = std::move(lus)](NexusImpl& nexus) {
    nexus.ReviewAccess(lus);
  });
}

void TargetImpl::Unregister(const NexusImpl* nexus) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nexuses_.erase(
      std::remove_if(nexuses_.begin(), nexuses_.end(),
                     [nexus](const auto& r) { return r.nexus == nexus; }),
      nexuses_.end());
}

void TargetImpl::Reset(const std::shared_ptr<LogicalUnit>& lu,
                       const NexusImpl* origin,
                       const std::shared_ptr<void>& token) {
  const bool respond = lu->mode_pages().task_aborted_status();
  lu->mode_pages().Reset();
  const std::lock_guard<std::mutex> lock(mutex_);
  PostToNexuses(origin, [lu, token, respond](NexusImpl& nexus) {
    LuNexus* lu_nexus = nexus.FindLu(*lu);
    if (lu_nexus == nullptr) return;
    lu_nexus->Reset(respond);
    lu_nexus->HoldUntilAborted(token);
  });
}

void TargetImpl::EstablishForOthers(const std::shared_ptr<LogicalUnit>& lu,
                                    AdditionalSense code,
                                    const NexusImpl* origin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PostToNexuses(origin,
                [lu, code](NexusImpl& nexus) { nexus.Establish(*lu, code); });
}

}  // namespace skiff::scsi
