// How a daemon becomes another while it serves: Daemon::Apply().

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/skiffd/daemon.h"

namespace skiff::tools::skiffd {
namespace {

using Kind = Change::Kind;

// For reactors to say which sessions there are, and for what was taken away to
// come to its end.
constexpr absl::Duration kPatience = absl::Seconds(5);

constexpr char kBlocked[] =
    "a reactor is blocked, by a disk perhaps; try again later";

bool Resizes(const Change& change) {
  return change.kind == Kind::kGrowFile || change.kind == Kind::kShrinkFile;
}

// The targets of which something is taken away.
std::set<std::string> Disturbed(const Plan& plan) {
  std::set<std::string> targets;
  for (const Change& change : plan.changes) {
    if (change.disturbs()) targets.insert(change.target);
  }
  return targets;
}

bool Has(const Plan& plan, Kind kind) {
  return std::any_of(
      plan.changes.begin(), plan.changes.end(),
      [kind](const Change& change) { return change.kind == kind; });
}

bool Adds(const Change& change) {
  return change.kind == Kind::kAddLun || change.kind == Kind::kReplaceLun;
}

}  // namespace

// Targets and media that were taken away. Whoever lets go of them last may
// block, so that this is never a reactor. Thread-safe.
class Daemon::Leaving {
 public:
  // Something is about to leave, which Left() tells of.
  void Expect() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++expected_;
    left_.reserve(left_.size() + expected_);  // Left() must not throw.
  }
  void ExpectTarget(const std::string& name) {
    Expect();
    const std::lock_guard<std::mutex> lock(mutex_);
    targets_.insert(name);
  }
  void Left(std::shared_ptr<const void> what, const std::string& target = "") {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      left_.push_back(std::move(what));
      targets_.erase(target);
      --expected_;
    }
    changed_.notify_all();
  }
  bool HasTarget(const std::string& name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return targets_.count(name) > 0;
  }
  // Waits for all to have left, and destroys what has. False: not all have.
  bool Finish(absl::Duration limit) {
    std::vector<std::shared_ptr<const void>> left;
    std::unique_lock<std::mutex> lock(mutex_);
    const bool all = changed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                                       [this] { return expected_ == 0; });
    left.swap(left_);
    lock.unlock();
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int expected_ = 0;  // All under `mutex_`.
  std::set<std::string> targets_;
  std::vector<std::shared_ptr<const void>> left_;
};

// What can fail, and was done before anything else.
struct Daemon::Prepared {
  std::map<LunKey, std::shared_ptr<scsi::Backend>> media;
  // Files that have another size, and what they had.
  std::vector<std::pair<std::shared_ptr<scsi::FileBackend>, uint64_t>> resized;
  // What takes the place of the service that runs, and then that one.
  std::unique_ptr<MetricsService> metrics;
};

Daemon::Applied Daemon::Apply(DaemonConfig wanted, const ParsedConfig& parsed,
                              const ApplyOptions& options) {
  Applied out;
  if (leaving_ == nullptr) leaving_ = std::make_shared<Leaving>();
  leaving_->Finish(absl::ZeroDuration());
  const Plan plan = PlanChanges(config_, wanted, parsed);
  out.notes = plan.notes;
  out.problems = plan.refusals;
  if (!out.problems.empty()) return out;
  CheckLeaving(plan, &out.problems);
  if (!out.problems.empty()) return out;
  if (options.dry_run) {
    for (const Change& change : plan.changes) {
      out.changes.push_back(change.text);
    }
  }
  if (!options.force) CheckUse(plan, &out);
  if (!out.problems.empty() || options.dry_run) return out;
  Prepared prepared;
  Prepare(plan, wanted, options, &prepared, &out);
  if (out.problems.empty()) Switch(plan, wanted, &prepared, &out.problems);
  if (!out.problems.empty()) {
    Undo(prepared);
    return out;
  }
  if (Has(plan, Kind::kMetrics)) {
    // Who asks the old one is answered first.
    metrics_.swap(prepared.metrics);
    prepared.metrics.reset();
  }
  config_ = std::move(wanted);
  LookAtFiles();
  WarnOfOpen(config_);
  ReviewConnections();
  for (const Change& change : plan.changes) out.changes.push_back(change.text);
  if (!leaving_->Finish(kPatience)) {
    out.notes.push_back(
        "what was taken away still waits for its disks; its files are in use "
        "until they give back what they have");
  }
  return out;
}

void Daemon::CheckLeaving(const Plan& plan,
                          std::vector<std::string>* problems) const {
  for (const Change& change : plan.changes) {
    if (change.kind == Kind::kAddTarget && leaving_->HasTarget(change.target)) {
      problems->push_back(absl::StrCat(
          change.where, ": ", change.target,
          " was removed, and still waits for its disks; try again later"));
    }
  }
}

void Daemon::CheckUse(const Plan& plan, Applied* out) const {
  const bool disturbs =
      std::any_of(plan.changes.begin(), plan.changes.end(),
                  [](const Change& change) { return change.disturbs(); });
  if (!disturbs) return;
  const auto sessions = Sessions();
  if (!sessions.ok()) {
    out->problems.emplace_back(sessions.status().message());
    return;
  }
  std::map<std::string, std::vector<std::string>> users;
  for (const protocol::SessionInfo& session : *sessions) {
    // What others say of themselves holds nobody up.
    if (!session.logged_in || session.discovery) continue;
    users[session.target_name].push_back(session.initiator_name);
  }
  for (const Change& change : plan.changes) {
    if (!change.disturbs() || users.count(change.target) == 0) continue;
    const std::vector<std::string>& of_target = users[change.target];
    out->in_use = true;
    out->problems.push_back(absl::StrCat(
        change.where, ": ", change.text, ", but ", of_target.size(),
        " sessions use ", change.target, ", such as that of ",
        of_target.front(),
        "; log them out first, wait for them, or take it by force"));
  }
}

void Daemon::OpenMedia(const Plan& plan, const ConfigIndex& wanted,
                       Prepared* prepared, std::vector<std::string>* problems) {
  for (const Change& change : plan.changes) {
    if (!Adds(change) || change.medium_of.has_value()) continue;
    const LunKey key = {change.target, change.lun};
    auto medium = Open(key.first, *wanted.Find(key.first, key.second));
    if (!medium.ok()) {
      problems->emplace_back(medium.status().message());
      continue;
    }
    prepared->media.emplace(key, *std::move(medium));
  }
  // Media go from one LUN to another.
  for (const Change& change : plan.changes) {
    if (!Adds(change) || !change.medium_of.has_value()) continue;
    prepared->media.emplace(LunKey{change.target, change.lun},
                            media_.at(*change.medium_of));
  }
  for (const auto& [key, medium] : prepared->media) {
    // A target that nobody sees says whether it would take it.
    const LunConfig& lun = *wanted.Find(key.first, key.second);
    const absl::Status status =
        scsi::Target::Create(key.first)->AddLogicalUnit(medium, lun.options);
    if (!status.ok()) {
      problems->push_back(absl::StrCat(lun.where, ": ", status.message()));
    }
  }
}

// All that can fail, but for the portals.
void Daemon::Prepare(const Plan& plan, const DaemonConfig& wanted,
                     const ApplyOptions& options, Prepared* prepared,
                     Applied* out) {
  std::vector<std::string>* const problems = &out->problems;
  OpenMedia(plan, ConfigIndex(wanted), prepared, problems);
  if (Has(plan, Kind::kMetrics)) {
    auto metrics = StartMetrics(wanted.metrics);
    if (metrics.ok()) {
      prepared->metrics = *std::move(metrics);
    } else {
      problems->emplace_back(metrics.status().message());
    }
  }
  if (!problems->empty()) return;
  // From here on nobody begins to use these, so that nobody loses what he uses,
  // or sees a LUN that goes by a rule that comes.
  const std::set<std::string> closed = Disturbed(plan);
  // Initiators are told to come again (0301), and the target stays in
  // discovery.
  for (const std::string& target : closed) access_.at(target)->SetClosed(true);
  // Who came in since the last look.
  if (!closed.empty() && !options.force) CheckUse(plan, out);
  if (!problems->empty()) return;
  ResizeFiles(plan, prepared, problems);
}

// Nobody knows of it until the rest is done.
void Daemon::ResizeFiles(const Plan& plan, Prepared* prepared,
                         std::vector<std::string>* problems) {
  for (const Change& change : plan.changes) {
    if (!Resizes(change)) continue;
    auto file = std::dynamic_pointer_cast<scsi::FileBackend>(
        media_.at({change.target, change.lun}));
    const uint64_t before = file->info().size_bytes;
    if (const absl::Status status = file->Resize(change.bytes); !status.ok()) {
      problems->push_back(absl::StrCat(change.where, ": ", status.message()));
      return;
    }
    prepared->resized.emplace_back(std::move(file), before);
  }
}

// Those who have the media by now tell their initiators.
void Daemon::TellSizes(const Prepared& prepared) {
  if (prepared.resized.empty()) return;
  std::set<const scsi::Backend*> resized;
  for (const auto& [file, before] : prepared.resized) {
    resized.insert(file.get());
  }
  const TargetsByName targets = NamedTargets();
  for (const auto& [lun, medium] : media_) {
    if (resized.count(medium.get()) == 0) continue;
    targets.at(lun.first)->NotifyBackendChanged(lun.second);
  }
}

void Daemon::Undo(const Prepared& prepared) {
  // Where the file has become too short for that, what was beyond is gone.
  for (const auto& [file, before] : prepared.resized) {
    file->Resize(before).IgnoreError();
  }
  SetRules(config_);
}

void Daemon::ReviewAccess() {
  for (const std::shared_ptr<scsi::Target>& target : Targets()) {
    target->ReviewAccess();
  }
}

bool Daemon::FirstReactorTurns() {
  const auto turned = std::make_shared<std::promise<void>>();
  threads_->reactor(0)->Post([turned] { turned->set_value(); });
  return turned->get_future().wait_for(absl::ToChronoNanoseconds(kPatience)) ==
         std::future_status::ready;
}

void Daemon::SetRules(const DaemonConfig& config,
                      const std::set<std::string>& closed) {
  for (const TargetConfig& target : config.targets) {
    const auto found = access_.find(target.name);
    if (found == access_.end() || closed.count(target.name) > 0) continue;
    found->second->Replace(target.rules);
    found->second->SetClosed(IsDraining(target.name));
  }
}

bool Daemon::OpenPortals(const Plan& plan, const DaemonConfig& wanted,
                         std::vector<std::string>* problems) {
  const size_t before = portals_.size();
  for (const PortalConfig& portal : wanted.portals) {
    const bool opens = std::any_of(
        plan.changes.begin(), plan.changes.end(), [&](const Change& one) {
          return one.kind == Kind::kOpenPortal && one.where == portal.where &&
                 one.portal == portal.address;
        });
    if (!opens) continue;
    auto bound = Listen(portal);
    if (bound.ok()) {
      portals_.push_back({portal.address, *std::move(bound)});
      continue;
    }
    problems->emplace_back(bound.status().message());
    for (; portals_.size() > before; portals_.pop_back()) {
      server_->ClosePortalHere(portals_.back().bound).IgnoreError();
    }
    return false;
  }
  return true;
}

void Daemon::ClosePortals(const Plan& plan) {
  for (const Change& change : plan.changes) {
    if (change.kind != Kind::kClosePortal) continue;
    const auto portal = std::find_if(portals_.begin(), portals_.end(),
                                     [&change](const Portal& one) {
                                       return one.configured == change.portal;
                                     });
    server_->ClosePortalHere(portal->bound).IgnoreError();
    portals_.erase(portal);
  }
}

// In one turn of the reactor that takes connections: whoever comes by a new
// portal finds everything as it is wanted, and nobody comes by one that is
// closed again.
void Daemon::Switch(const Plan& plan, const DaemonConfig& wanted,
                    Prepared* prepared, std::vector<std::string>* problems) {
  if (!FirstReactorTurns()) {
    problems->emplace_back(kBlocked);
    return;
  }
  threads_->RunOn(0, [&] {
    if (!OpenPortals(plan, wanted, problems)) return;
    ClosePortals(plan);
    Commit(plan, wanted, prepared);
  });
}

// Denies, removes, lets in, and adds, in this order.
void Daemon::Commit(const Plan& plan, const DaemonConfig& wanted,
                    Prepared* prepared) {
  accounts_->Replace(wanted);
  SetRules(wanted, Disturbed(plan));
  CommitRemovals(plan);
  SetRules(wanted);
  const ConfigIndex index(wanted);
  for (const Change& change : plan.changes) {
    if (change.kind != Kind::kAlias) continue;
    // It is served: the plan says so.
    server_->SetAlias(change.target, index.Find(change.target)->alias)
        .IgnoreError();
  }
  CommitAdditions(plan, index, prepared);
  TellSizes(*prepared);
  ReviewAccess();
}

// Those that were made when they were opened were not there to be looked at,
// and one can have grown before it was opened.
void Daemon::LookAtFiles() {
  for (TargetConfig& target : config_.targets) {
    for (LunConfig& lun : target.luns) {
      const auto* file = std::get_if<scsi::FileBackendOptions>(&lun.medium);
      if (file == nullptr) continue;
      if (lun.file.identity.empty()) lun.file = LookAtFile(file->path);
      lun.file.bytes =
          media_.at({target.name, lun.options.lun})->info().size_bytes;
    }
  }
}

void Daemon::CommitRemovals(const Plan& plan) {
  const ConfigIndex running(config_);
  const TargetsByName targets = NamedTargets();
  std::set<const scsi::Target*> removed;
  for (const Change& change : plan.changes) {
    if (change.kind == Kind::kRemoveTarget) {
      for (const LunConfig& lun : running.Find(change.target)->luns) {
        Forget({change.target, lun.options.lun});
      }
      access_.erase(change.target);
      draining_.erase(change.target);
      leaving_->ExpectTarget(change.target);
      removed.insert(targets.at(change.target));
      server_->RemoveTarget(
          change.target, absl::ZeroDuration(),
          [leaving = leaving_, name = change.target](
              absl::StatusOr<std::shared_ptr<scsi::Target>> target) {
            leaving->Left(target.ok() ? *std::move(target) : nullptr, name);
          });
    } else if (change.kind == Kind::kRemoveLun ||
               change.kind == Kind::kReplaceLun) {
      leaving_->Expect();
      Forget({change.target, change.lun});
      const absl::Status gone =
          targets.at(change.target)
              ->RemoveLogicalUnit(
                  change.lun,
                  [leaving = leaving_](std::shared_ptr<scsi::Backend> it) {
                    leaving->Left(std::move(it));
                  });
      if (!gone.ok()) leaving_->Left(nullptr);
    }
  }
  const std::lock_guard<std::mutex> lock(targets_mutex_);
  targets_.erase(std::remove_if(targets_.begin(), targets_.end(),
                                [&removed](const auto& one) {
                                  return removed.count(one.get()) > 0;
                                }),
                 targets_.end());
}

// What can fail here has been checked with the configuration.
void Daemon::CommitAdditions(const Plan& plan, const ConfigIndex& wanted,
                             Prepared* prepared) {
  std::vector<std::shared_ptr<scsi::Target>> added;
  for (const Change& change : plan.changes) {
    if (change.kind == Kind::kAddTarget) {
      added.push_back(MakeTarget(*wanted.Find(change.target)));
      const std::lock_guard<std::mutex> lock(targets_mutex_);
      targets_.push_back(added.back());
    }
  }
  const TargetsByName targets = NamedTargets();
  absl::Status status;
  for (const Change& change : plan.changes) {
    if (!Adds(change)) continue;
    status.Update(Serve(
        targets.at(change.target), *wanted.Find(change.target, change.lun),
        std::move(prepared->media.at(LunKey(change.target, change.lun)))));
  }
  // With its LUNs: initiators look once.
  for (const std::shared_ptr<scsi::Target>& target : added) {
    status.Update(
        server_->AddTarget(target, wanted.Find(target->name())->alias));
  }
  if (!status.ok()) Log(protocol::LogLevel::kError, status.message());
}

void Daemon::Forget(const LunKey& lun) {
  const auto medium = media_.find(lun);
  if (medium == media_.end()) return;
  const auto named = identities_.find(medium->second->info().identity);
  if (named != identities_.end() && named->second == lun) {
    identities_.erase(named);
  }
  media_.erase(medium);
}

Daemon::TargetsByName Daemon::NamedTargets() const {
  TargetsByName targets;
  targets.reserve(targets_.size());
  for (const std::shared_ptr<scsi::Target>& target : targets_) {
    targets.emplace(target->name(), target.get());
  }
  return targets;
}

}  // namespace skiff::tools::skiffd
