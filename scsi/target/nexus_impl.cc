#include "scsi/target/nexus_impl.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "scsi/lun.h"

namespace skiff::scsi {
namespace {

// For the logical units that carry no data.
constexpr uint32_t kMaxControlTasks = 256;

}  // namespace

// Tells the port that a task management function is done, on the nexus's
// reactor, when nobody holds the token any more. Wherever tasks are aborted for
// the function, somebody holds it until they are.
class NexusImpl::ManagementToken {
 public:
  ManagementToken(NexusImpl* nexus,
                  absl::AnyInvocable<void(TaskManagementResult)> done)
      : anchor_(nexus->anchor()),
        reactor_(nexus->worker()->reactor()),
        done_(std::move(done)) {
    ++nexus->managing_;
  }
  ~ManagementToken() {
    // The nexus is not closed before this ran, so that the reactor is there.
    reactor_->Post([anchor = anchor_, done = std::move(done_),
                    result = result_]() mutable {
      done(result);
      if (anchor->nexus != nullptr) anchor->nexus->OnManaged();
    });
  }
  void set_result(TaskManagementResult result) { result_ = result; }

 private:
  const std::shared_ptr<Anchor> anchor_;
  transport::Reactor* const reactor_;
  absl::AnyInvocable<void(TaskManagementResult)> done_;
  TaskManagementResult result_ = TaskManagementResult::kFunctionComplete;
};

// Held on the nexus's reactor only. The turn's end needs no memory, as a posted
// function would.
class NexusImpl::CloseToken {
 public:
  explicit CloseToken(NexusImpl* nexus) : anchor_(nexus->anchor()) {}
  ~CloseToken() {
    NexusImpl* nexus = anchor_->nexus;
    if (nexus != nullptr) nexus->worker()->reactor()->ScheduleTurnEnd(nexus);
  }

 private:
  const std::shared_ptr<Anchor> anchor_;
};

NexusImpl::NexusImpl(NexusOwner* target, WorkerImpl* worker, TargetPort* port,
                     NexusIdentity identity)
    : target_(target),
      worker_(worker),
      port_(port),
      identity_(std::move(identity)),
      account_(&worker->buffers(), port),
      last_lun_(kReportLunsWellKnownLun),
      report_luns_(std::make_unique<LuNexus>(Home(), LuNexus::Kind::kReportLuns,
                                             nullptr, 0, kMaxControlTasks)),
      missing_(std::make_unique<LuNexus>(Home(), LuNexus::Kind::kNone, nullptr,
                                         0, kMaxControlTasks)) {
  ReadMap();
  last_lu_nexus_ = report_luns_.get();
  anchor_->nexus = this;
}

NexusImpl::~NexusImpl() { anchor_->nexus = nullptr; }

LuNexus::Home NexusImpl::Home() {
  return {.nexus = this,
          .port = port_,
          .buffers = &worker_->buffers(),
          .account = &account_,
          .commands = &target_->commands(),
          .access = &target_->access(),
          .identity = &identity_,
          .reactor = worker_->reactor(),
          .totals = &totals_};
}

LuNexus* NexusImpl::Route(uint64_t lun) {
  LuNexus* lu_nexus = missing_.get();
  if (lun == kReportLunsWellKnownLun) {
    lu_nexus = report_luns_.get();
  } else if (const auto number = DecodeLun(lun); number.has_value()) {
    const auto it = lu_nexuses_.find(*number);
    if (it != lu_nexuses_.end()) lu_nexus = it->second.get();
  }
  last_lun_ = lun;
  last_lu_nexus_ = lu_nexus;
  return lu_nexus;
}

void NexusImpl::OnDataOut(Task* task, bool ok) {
  task->lu_nexus->OnTransferDone(task, ok);
}

void NexusImpl::OnDataInSent(Task* task, bool ok) {
  task->lu_nexus->OnTransferDone(task, ok);
}

void NexusImpl::Release(Task* task) {
  LuNexus* lu_nexus = task->lu_nexus;
  lu_nexus->Release(task);
  if (lu_nexus->shut() && lu_nexus->idle()) Retire(lu_nexus);
}

// Destroys a LuNexus of a removed logical unit when no task refers to it any
// more; not from inside its own functions.
void NexusImpl::Retire(const LuNexus* lu_nexus) {
  worker_->reactor()->Post([anchor = anchor_, lu_nexus] {
    if (anchor->nexus == nullptr) return;
    auto& retired = anchor->nexus->retired_;
    const auto it =
        std::find_if(retired.begin(), retired.end(),
                     [&](const auto& r) { return r.get() == lu_nexus; });
    if (it != retired.end() && (*it)->idle()) retired.erase(it);
  });
}

std::vector<uint64_t> NexusImpl::ReportedLuns() const {
  std::vector<uint64_t> luns;
  luns.reserve(lu_nexuses_.size());
  for (const auto& [number, lu_nexus] : lu_nexuses_) {
    luns.push_back(EncodeLun(number));
  }
  std::sort(luns.begin(), luns.end());
  return luns;
}

void NexusImpl::ClearAnnouncedLuns() {
  constexpr auto kCode = AdditionalSense::kReportedLunsDataHasChanged;
  report_luns_->unit_attentions().Clear(kCode);
  for (const auto& [number, lu_nexus] : lu_nexuses_) {
    lu_nexus->unit_attentions().Clear(kCode);
  }
}

void NexusImpl::AttachLu(const std::shared_ptr<LogicalUnit>& lu,
                         bool announce) {
  if (on_closed_ != nullptr) return;
  const std::optional<uint64_t> seen = SeenAs(*lu);
  if (!seen.has_value()) return;
  if (announce) AnnounceLuns();
  Attach(lu, *seen);
  Route(last_lun_);  // What it found may have changed.
}

void NexusImpl::Attach(const std::shared_ptr<LogicalUnit>& lu, uint64_t seen) {
  auto lu_nexus = std::make_unique<LuNexus>(Home(), LuNexus::Kind::kBlockDevice,
                                            worker_->Attach(lu), seen,
                                            lu->options().max_tasks);
  lu_nexuses_.reserve(lu_nexuses_.size() + 1);
  by_lu_[lu.get()] = lu_nexus.get();
  lu_nexuses_[seen] = std::move(lu_nexus);
}

void NexusImpl::DetachLu(const std::shared_ptr<LogicalUnit>& lu) {
  LuNexus* const lu_nexus = FindLu(*lu);
  if (lu_nexus == nullptr) return;
  TakeOut(lu_nexus);
  AnnounceLuns();
  ShutOut(lu_nexus);
}

// Nobody finds it any more.
void NexusImpl::TakeOut(const LuNexus* lu_nexus) {
  const auto it = lu_nexuses_.find(lu_nexus->seen());
  retired_.push_back(std::move(it->second));
  lu_nexuses_.erase(it);
  by_lu_.erase(&lu_nexus->lu());
  Route(last_lun_);
}

// With a response, whatever TAS says: initiators that were told nothing would
// only time out.
void NexusImpl::ShutOut(LuNexus* lu_nexus) {
  lu_nexus->Shut(/*respond=*/true);
  if (lu_nexus->idle()) Retire(lu_nexus);
}

void NexusImpl::ReadMap() {
  map_.reset();
  const LunMap map = target_->access().Map(identity_);
  if (!map.has_value()) return;
  map_.emplace();
  absl::flat_hash_set<uint64_t> seen;
  for (const LunMapping& one : *map) {
    if (map_->count(one.lun) != 0 || !seen.insert(one.seen).second) continue;
    map_->emplace(one.lun, one.seen);
  }
}

std::optional<uint64_t> NexusImpl::SeenAs(const LogicalUnit& lu) const {
  if (!map_.has_value()) return lu.lun();
  const auto found = map_->find(lu.lun());
  if (found == map_->end()) return std::nullopt;
  return found->second;
}

// Those that go do so before any comes: two may have changed places.
void NexusImpl::ReviewAccess(
    const std::vector<std::shared_ptr<LogicalUnit>>& lus) {
  if (on_closed_ != nullptr) return;
  const absl::Status admitted = target_->access().Admit(identity_);
  const bool stays = admitted.ok() || absl::IsUnavailable(admitted);
  if (stays) {
    ReadMap();
  } else {
    map_.emplace();  // It sees nothing.
  }
  std::vector<LuNexus*> out;
  std::vector<std::pair<std::shared_ptr<LogicalUnit>, uint64_t>> in;
  for (const std::shared_ptr<LogicalUnit>& lu : lus) {
    LuNexus* const here = FindLu(*lu);
    const std::optional<uint64_t> seen = SeenAs(*lu);
    if (here != nullptr && seen == here->seen()) {
      here->ReviewRights();
      continue;
    }
    if (here != nullptr) {
      out.push_back(here);
      TakeOut(here);
    }
    if (seen.has_value()) in.emplace_back(lu, *seen);
  }
  if (!out.empty() || !in.empty()) AnnounceLuns();
  for (const auto& [lu, seen] : in) Attach(lu, seen);
  Route(last_lun_);
  for (LuNexus* const lu_nexus : out) ShutOut(lu_nexus);
  if (stays) return;
  port_->EndNexus(absl::StrCat(
      identity_.ToString(), " may not be here any more: ", admitted.message()));
}

void NexusImpl::AnnounceLuns() {
  report_luns_->Establish(AdditionalSense::kReportedLunsDataHasChanged);
  for (const auto& [number, lu_nexus] : lu_nexuses_) {
    lu_nexus->Establish(AdditionalSense::kReportedLunsDataHasChanged);
  }
  ReportAsync(*report_luns_, AdditionalSense::kReportedLunsDataHasChanged);
}

void NexusImpl::ReportAsync(const LuNexus& lu_nexus, AdditionalSense code) {
  const SenseData sense{.key = SenseKey::kUnitAttention, .code = code};
  std::array<uint8_t, kMaxEncodedSense> bytes;
  const size_t length =
      EncodeSense(sense, lu_nexus.sense_format(), bytes.data());
  const uint64_t lun = lu_nexus.kind() == LuNexus::Kind::kBlockDevice
                           ? EncodeLun(lu_nexus.seen())
                           : kReportLunsWellKnownLun;
  port_->AsyncEvent(lun, bytes.data(), length);
}

LuNexus* NexusImpl::FindLu(const LogicalUnit& lu) {
  const auto it = by_lu_.find(&lu);
  return it == by_lu_.end() ? nullptr : it->second;
}

void NexusImpl::Establish(const LogicalUnit& lu, AdditionalSense code) {
  LuNexus* lu_nexus = FindLu(lu);
  if (lu_nexus == nullptr) return;
  lu_nexus->Establish(code);
  if (code == AdditionalSense::kCapacityDataHasChanged) {
    ReportAsync(*lu_nexus, code);
  }
}

void NexusImpl::Manage(TaskManagement function, uint64_t lun, Task* task,
                       absl::AnyInvocable<void(TaskManagementResult)> done) {
  const auto token = std::make_shared<ManagementToken>(this, std::move(done));
  if (function == TaskManagement::kTargetReset) return ResetTarget(token);
  LuNexus* lu_nexus = Route(lun);
  if (lu_nexus == missing_.get()) {
    return token->set_result(TaskManagementResult::kIncorrectLun);
  }
  switch (function) {
    case TaskManagement::kAbortTask:
      if (task == nullptr || task->lu_nexus != lu_nexus ||
          !lu_nexus->AbortTask(task)) {
        token->set_result(TaskManagementResult::kTaskDoesNotExist);
      }
      break;
    case TaskManagement::kAbortTaskSet:
    case TaskManagement::kClearTaskSet:
      // The same, with a task set for each I_T nexus (SAM-5 section 7.5).
      lu_nexus->AbortAll(/*respond=*/false);
      break;
    case TaskManagement::kClearAca:
      lu_nexus->ClearAca();
      break;
    case TaskManagement::kLogicalUnitReset:
      if (!lu_nexus->MayReset()) {
        return token->set_result(TaskManagementResult::kNotAuthorized);
      }
      if (lu_nexus->kind() == LuNexus::Kind::kBlockDevice) {
        target_->Reset(lu_nexus->shared_lu(), this, token);
      }
      lu_nexus->Reset(/*respond=*/false);
      break;
    case TaskManagement::kTargetReset:
      break;
  }
  lu_nexus->HoldUntilAborted(token);
}

// All logical units "known to the issuing initiator" (RFC 7143 section 11.6.1).
void NexusImpl::ResetTarget(const std::shared_ptr<ManagementToken>& token) {
  for (const auto& [number, lu_nexus] : lu_nexuses_) {
    if (!lu_nexus->MayReset()) {
      return token->set_result(TaskManagementResult::kNotAuthorized);
    }
  }
  for (const auto& lu : target_->LogicalUnits()) {
    LuNexus* here = FindLu(*lu);
    if (here == nullptr) continue;
    target_->Reset(lu, this, token);
    here->Reset(/*respond=*/false);
    here->HoldUntilAborted(token);
  }
}

void NexusImpl::OnManaged() {
  --managing_;
  FinishCloseIfDone();
}

void NexusImpl::Close(absl::AnyInvocable<void()> done) {
  assert(on_closed_ == nullptr || close_token_ != nullptr);
  // Memory first: where there is none, nothing has happened.
  for (const auto& [number, lu_nexus] : lu_nexuses_) lu_nexus->ReserveToken();
  report_luns_->ReserveToken();
  missing_->ReserveToken();
  for (const auto& lu_nexus : retired_) lu_nexus->ReserveToken();
  // What aborted tasks tell may need some, too. The token stays then, so that
  // the nexus is not closed before somebody has come to the end of this.
  if (close_token_ == nullptr) {
    close_token_ = std::make_shared<CloseToken>(this);
  }
  on_closed_ = std::move(done);
  target_->Unregister(this);
  const auto shut = [this](LuNexus* lu_nexus) {
    lu_nexus->Shut(/*respond=*/false);
    lu_nexus->HoldUntilAborted(close_token_);
  };
  for (const auto& [number, lu_nexus] : lu_nexuses_) shut(lu_nexus.get());
  shut(report_luns_.get());
  shut(missing_.get());
  for (const auto& lu_nexus : retired_) {
    lu_nexus->HoldUntilAborted(close_token_);
  }
  close_token_.reset();
}

void NexusImpl::OnTurnEnd() {
  tasks_aborted_ = true;
  FinishCloseIfDone();
}

void NexusImpl::FinishCloseIfDone() {
  if (!tasks_aborted_ || managing_ > 0) return;
  tasks_aborted_ = false;
  // The nexus may be destroyed in there.
  std::exchange(on_closed_, nullptr)();
}

}  // namespace skiff::scsi
