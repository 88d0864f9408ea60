// How nexuses and targets go on in another process.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scsi/target/nexus_impl.h"
#include "scsi/target/target_impl.h"

namespace skiff::scsi {
namespace {

std::string CurrentPages(const ModePages& pages) {
  std::array<uint8_t, ModePages::kMaxBytes> bytes;
  const size_t size =
      pages.Read(ModePages::Values::kCurrent, ModePages::kAllPages,
                 ModePages::kAllSubpages, bytes.data());
  return std::string(bytes.begin(), bytes.begin() + size);
}

void Set(UnitAttentions* attentions, const std::vector<uint16_t>& codes) {
  attentions->ClearAll();
  for (const uint16_t code : codes) {
    attentions->Establish(static_cast<AdditionalSense>(code));
  }
}

bool IsWhatItWas(const LogicalUnit& lu, const NexusState::Lu& was) {
  return lu.serial() == was.serial && lu.block_size() == was.block_size;
}

}  // namespace

absl::StatusOr<NexusState> NexusImpl::State() const {
  NexusState state;
  state.report_luns_unit_attentions = report_luns_->unit_attentions().Codes();
  const auto busy = [](const LuNexus& lu) { return !lu.idle() || lu.aca(); };
  bool any = busy(*report_luns_) || busy(*missing_) || managing_ > 0 ||
             on_closed_ != nullptr;
  for (const auto& lu_nexus : retired_) any = any || !lu_nexus->idle();
  for (const auto& [seen, lu_nexus] : lu_nexuses_) {
    any = any || busy(*lu_nexus);
    const LogicalUnit& lu = lu_nexus->lu();
    state.lus.push_back(
        {.seen = seen,
         .serial = lu.serial(),
         .size_bytes = lu.block_count() * lu.block_size(),
         .block_size = lu.block_size(),
         .mode_pages = CurrentPages(lu.mode_pages()),
         .unit_attentions = lu_nexus->unit_attentions().Codes()});
  }
  if (any) {
    return absl::FailedPreconditionError(
        absl::StrCat(identity_.ToString(), " has tasks, or an ACA condition"));
  }
  return state;
}

void NexusImpl::Restore(const NexusState& state) {
  Set(&report_luns_->unit_attentions(), state.report_luns_unit_attentions);
  // Commands that are on their way were meant for the disk that was there.
  for (const NexusState::Lu& lu : state.lus) {
    const auto found = lu_nexuses_.find(lu.seen);
    if (found == lu_nexuses_.end() || IsWhatItWas(found->second->lu(), lu)) {
      continue;
    }
    return port_->EndNexus(
        absl::StrCat("LUN ", lu.seen, " is another disk than it was"));
  }
  size_t same = 0;
  for (const NexusState::Lu& lu : state.lus) same += RestoreLu(lu) ? 1 : 0;
  if (same != state.lus.size() || same != lu_nexuses_.size()) AnnounceLuns();
}

// False: it is gone.
bool NexusImpl::RestoreLu(const NexusState::Lu& state) {
  const auto found = lu_nexuses_.find(state.seen);
  if (found == lu_nexuses_.end()) return false;
  LuNexus* const here = found->second.get();
  LogicalUnit& lu = here->lu();
  Set(&here->unit_attentions(), state.unit_attentions);
  if (lu.block_count() * lu.block_size() != state.size_bytes) {
    Establish(lu, AdditionalSense::kCapacityDataHasChanged);
  }
  if (CurrentPages(lu.mode_pages()) != state.mode_pages) {
    Establish(lu, AdditionalSense::kModeParametersChanged);
  }
  return true;
}

TargetState TargetImpl::State() const {
  TargetState state;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [lun, lu] : luns_) {
    state.lus.push_back({lun, lu->serial(), CurrentPages(lu->mode_pages())});
  }
  return state;
}

void TargetImpl::Restore(const TargetState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const TargetState::Lu& was : state.lus) {
    const auto found = luns_.find(was.lun);
    if (found == luns_.end() || found->second->serial() != was.serial) continue;
    ModePages& pages = found->second->mode_pages();
    if (CurrentPages(pages) == was.mode_pages) continue;
    bool changed = false;
    // What is not taken is found out by the nexuses.
    (void)pages.Select({reinterpret_cast<const uint8_t*>(was.mode_pages.data()),
                        was.mode_pages.size()},
                       &changed);
  }
}

}  // namespace skiff::scsi
