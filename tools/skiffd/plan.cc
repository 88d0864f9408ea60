#include "tools/skiffd/plan.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/common/units.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/config_index.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

using Kind = Change::Kind;

const scsi::FileBackendOptions* FileOf(const LunConfig& lun) {
  return std::get_if<scsi::FileBackendOptions>(&lun.medium);
}
const scsi::RamBackendOptions* RamOf(const LunConfig& lun) {
  return std::get_if<scsi::RamBackendOptions>(&lun.medium);
}

// Their sizes are no matter: files are served as large as they are found.
bool OpenedAlike(const scsi::FileBackendOptions& a,
                 const scsi::FileBackendOptions& b) {
  return a.block_size == b.block_size && a.read_only == b.read_only &&
         a.direct == b.direct && a.queue_depth == b.queue_depth;
}

bool Same(const scsi::RamBackendOptions& a, const scsi::RamBackendOptions& b) {
  return a.size_bytes == b.size_bytes && a.block_size == b.block_size &&
         a.read_only == b.read_only && a.thin == b.thin &&
         a.huge_pages == b.huge_pages;
}

bool Same(const scsi::LogicalUnitOptions& a,
          const scsi::LogicalUnitOptions& b) {
  return a.lun == b.lun && a.vendor == b.vendor && a.product == b.product &&
         a.revision == b.revision && a.serial == b.serial &&
         a.max_transfer_bytes == b.max_transfer_bytes &&
         a.max_tasks == b.max_tasks;
}

bool Same(const AccountConfig& a, const AccountConfig& b) {
  const auto& own = a.chap.target;
  const auto& others = b.chap.target;
  return a.name == b.name && a.own_name == b.own_name &&
         a.initiator_name == b.initiator_name &&
         a.chap.secret.Equals(b.chap.secret) &&
         own.has_value() == others.has_value() &&
         (!own.has_value() ||
          (own->name == others->name && own->secret.Equals(others->secret)));
}

bool Same(const std::vector<AccountConfig>& a,
          const std::vector<AccountConfig>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AccountConfig& x, const AccountConfig& y) {
                      return Same(x, y);
                    });
}

std::string Name(const LunKey& key) {
  return absl::StrCat(key.first, " LUN ", key.second);
}

std::string MediumOf(const LunConfig& lun) {
  if (const auto* ram = RamOf(lun)) {
    return absl::StrCat("a RAM disk of ", FormatSize(ram->size_bytes));
  }
  return absl::StrCat("file ", FileOf(lun)->path);
}

class Planner {
 public:
  Planner(const DaemonConfig& running, const DaemonConfig& wanted,
          const ParsedConfig& parsed)
      : running_(running),
        wanted_(wanted),
        parsed_(parsed),
        index_of_running_(running),
        index_of_wanted_(wanted) {}

  Plan Make() {
    CompareSettings();
    CompareMetrics();
    CompareManagement();
    ComparePortals();
    CompareTargets();
    CompareAccess();
    std::stable_sort(
        plan_.changes.begin(), plan_.changes.end(),
        [](const Change& a, const Change& b) { return a.kind < b.kind; });
    return std::move(plan_);
  }

 private:
  void CompareSettings();
  void CompareMetrics();
  void CompareManagement();
  void CompareSetting(const Setting& running, const Setting& wanted);
  void ComparePortals();
  void CompareTargets();
  void CompareTarget(const TargetConfig& from, const TargetConfig& to);
  void CompareLun(const TargetConfig& target, const LunConfig& from,
                  const LunConfig& to);
  void CompareAccess();
  void AddLun(const TargetConfig& target, const LunConfig& lun);
  // The file stays open, which the LUN `key` has until now, as large as it is
  // found. False: it was refused.
  bool KeepFile(const std::string& target, const LunConfig& from,
                const LunConfig& to);
  // The running LUN whose file `lun` takes over.
  std::optional<LunKey> Giver(const LunConfig& lun);

  // Of a setting; of what is around it, where it is not written.
  std::string Where(absl::string_view section, absl::string_view name) const;
  // Of what is not written.
  std::string Nowhere() const { return parsed_.locations.Of(*parsed_.config); }
  void Refuse(absl::string_view where, absl::string_view why) {
    plan_.refusals.push_back(absl::StrCat(where, ": ", why));
  }
  Change* Add(Kind kind, std::string where, std::string text) {
    Change& change = plan_.changes.emplace_back();
    change.kind = kind;
    change.where = std::move(where);
    change.text = std::move(text);
    return &change;
  }

  const DaemonConfig& running_;
  const DaemonConfig& wanted_;
  const ParsedConfig& parsed_;
  const ConfigIndex index_of_running_;
  const ConfigIndex index_of_wanted_;
  // The running LUNs with files, by their paths, once somebody asks.
  struct FileUser {
    const TargetConfig* target;
    const LunConfig* lun;
  };
  std::multimap<absl::string_view, FileUser> files_;
  Plan plan_;
};

std::string Planner::Where(absl::string_view section,
                           absl::string_view name) const {
  const google::protobuf::Message* in = parsed_.config.get();
  if (!section.empty()) {
    const auto* field =
        in->GetDescriptor()->FindFieldByName(std::string(section));
    if (!in->GetReflection()->HasField(*in, field)) return Nowhere();
    in = &in->GetReflection()->GetMessage(*in, field);
  }
  const int number =
      in->GetDescriptor()->FindFieldByName(std::string(name))->number();
  return parsed_.locations.Of(*in, number);
}

void Planner::CompareSettings() {
  // They are read alone, through tables that could write them.
  const std::vector<Setting> from =
      SettingsOf(const_cast<DaemonConfig*>(&running_));
  const std::vector<Setting> to =
      SettingsOf(const_cast<DaemonConfig*>(&wanted_));
  for (size_t i = 0; i < from.size(); ++i) CompareSetting(from[i], to[i]);
  // What the table does not hold.
  if (running_.reactors.cpus != wanted_.reactors.cpus) {
    Refuse(
        Where("reactors", "cpu"),
        "reactors.cpu is not what it was at start; restart skiffd for it, or "
        "put it back");
  }
  if (running_.fit_connections != wanted_.fit_connections) {
    Refuse(Where("limits", "max_connections"),
           absl::StrCat("limits.max_connections was ",
                        running_.fit_connections ? "not set" : "set",
                        " at start; restart skiffd for it, or put it back"));
  }
}

void Planner::CompareMetrics() {
  if (running_.metrics.address == wanted_.metrics.address) return;
  Add(Kind::kMetrics, Where("metrics", "listen"),
      wanted_.metrics.address.empty()
          ? "metrics are not served"
          : absl::StrCat("metrics are served at ", wanted_.metrics.address));
}

void Planner::CompareManagement() {
  const ManagementConfig& is = running_.management;
  const ManagementConfig& wanted = wanted_.management;
  if (is.socket == wanted.socket && is.mode == wanted.mode &&
      is.user == wanted.user && is.group == wanted.group) {
    return;
  }
  Refuse(Where("management", "socket"),
         "who manages skiffd, and where, cannot change while it runs; restart "
         "it for that, or put it back");
}

void Planner::CompareSetting(const Setting& running, const Setting& wanted) {
  if (running.SameValue(wanted)) return;
  const std::string where = Where(wanted.section, wanted.name);
  if (std::holds_alternative<Level>(wanted.value)) {
    Add(Kind::kLogLevel, where,
        absl::StrCat("log_level is ", wanted.Written()));
    return;
  }
  for (const absl::string_view at_the_end :
       {"shutdown_grace", "restart_grace", "restart_patience"}) {
    if (wanted.name != at_the_end || *wanted.section != '\0') continue;
    Add(Kind::kShutdownGrace, where,
        absl::StrCat(at_the_end, " is ", wanted.Written()));
    return;
  }
  const std::string section = wanted.section;
  Refuse(where, absl::StrCat(section, section.empty() ? "" : ".", wanted.name,
                             " cannot change while skiffd runs, and is ",
                             running.Written(),
                             "; restart skiffd for it, or put it back"));
}

void Planner::ComparePortals() {
  // By address: the same one may be there several times, if it is of port 0.
  std::vector<const PortalConfig*> left;
  for (const PortalConfig& portal : running_.portals) left.push_back(&portal);
  for (const PortalConfig& portal : wanted_.portals) {
    const auto same =
        std::find_if(left.begin(), left.end(), [&](const PortalConfig* other) {
          return other->address == portal.address;
        });
    if (same != left.end()) {
      left.erase(same);
      continue;
    }
    Add(Kind::kOpenPortal, portal.where,
        absl::StrCat("portal ", portal.address.ToString(), " is opened"))
        ->portal = portal.address;
  }
  for (const PortalConfig* portal : left) {
    Add(Kind::kClosePortal, Nowhere(),
        absl::StrCat("portal ", portal->address.ToString(), " is closed"))
        ->portal = portal->address;
  }
}

void Planner::CompareTargets() {
  for (const TargetConfig& from : running_.targets) {
    if (index_of_wanted_.Find(from.name) != nullptr) continue;
    Add(Kind::kRemoveTarget, Nowhere(),
        absl::StrCat("target ", from.name, " is removed"))
        ->target = from.name;
  }
  for (const TargetConfig& to : wanted_.targets) {
    const TargetConfig* const from = index_of_running_.Find(to.name);
    if (from != nullptr) {
      CompareTarget(*from, to);
      continue;
    }
    Add(Kind::kAddTarget, to.where,
        absl::StrCat("target ", to.name, " is added"))
        ->target = to.name;
    for (const LunConfig& lun : to.luns) AddLun(to, lun);
  }
}

void Planner::CompareTarget(const TargetConfig& from, const TargetConfig& to) {
  if (from.alias != to.alias) {
    Add(Kind::kAlias, to.where,
        absl::StrCat("the alias of ", to.name, " is \"", to.alias, "\""))
        ->target = to.name;
  }
  for (const LunConfig& lun : from.luns) {
    if (index_of_wanted_.Find(to, lun.options.lun) != nullptr) continue;
    Change* const change = Add(Kind::kRemoveLun, Nowhere(),
                               absl::StrCat(Name({to.name, lun.options.lun}),
                                            " is removed: ", MediumOf(lun)));
    change->target = to.name;
    change->lun = lun.options.lun;
  }
  for (const LunConfig& lun : to.luns) {
    const LunConfig* const before =
        index_of_running_.Find(from, lun.options.lun);
    if (before == nullptr) {
      AddLun(to, lun);
    } else {
      CompareLun(to, *before, lun);
    }
  }
}

bool Planner::KeepFile(const std::string& target, const LunConfig& from,
                       const LunConfig& to) {
  const scsi::FileBackendOptions& file = *FileOf(to);
  std::string why;
  if (!OpenedAlike(*FileOf(from), file)) {
    why = absl::StrCat(
        "block_size, read_only, direct and queue_depth of ", file.path,
        " cannot change while it is served; remove its LUN first, and add it "
        "in a second change");
  } else if (from.file.identity != to.file.identity) {
    why = absl::StrCat(
        file.path,
        " is another file than the one that is served; move that one back, or "
        "remove its LUN first, and add it in a second change");
  }
  if (!why.empty()) {
    Refuse(to.where, why);
    return false;
  }
  const uint64_t was = from.file.bytes;
  const uint64_t is = to.file.bytes;
  // A device that does not say keeps its size.
  if (is == was || is == 0) return true;
  const LunKey key = {target, from.options.lun};
  Change* const change =
      Add(is > was ? Kind::kGrowFile : Kind::kShrinkFile, to.where,
          absl::StrCat(Name(key), is > was ? " grows from " : " shrinks from ",
                       FormatSize(was), " to ", FormatSize(is), ": file ",
                       file.path));
  change->target = key.first;
  change->lun = key.second;
  change->bytes = is;
  return true;
}

std::optional<LunKey> Planner::Giver(const LunConfig& lun) {
  const scsi::FileBackendOptions* const file = FileOf(lun);
  if (file == nullptr) return std::nullopt;
  if (files_.empty()) {
    for (const TargetConfig& target : running_.targets) {
      for (const LunConfig& other : target.luns) {
        const scsi::FileBackendOptions* const theirs = FileOf(other);
        if (theirs == nullptr) continue;
        files_.emplace(theirs->path, FileUser{&target, &other});
      }
    }
  }
  const auto [begin, end] = files_.equal_range(file->path);
  for (auto user = begin; user != end; ++user) {
    const auto& [target, other] = user->second;
    // Read-only on both sides they may be open twice.
    if (FileOf(*other)->read_only && file->read_only) continue;
    if (!KeepFile(target->name, *other, lun)) return std::nullopt;
    return LunKey{target->name, other->options.lun};
  }
  return std::nullopt;
}

void Planner::AddLun(const TargetConfig& target, const LunConfig& lun) {
  const LunKey key = {target.name, lun.options.lun};
  const std::optional<LunKey> giver = Giver(lun);
  Change* const change =
      Add(Kind::kAddLun, lun.where,
          absl::StrCat(Name(key), " is added: ", MediumOf(lun),
                       giver.has_value() ? ", until now " : "",
                       giver.has_value() ? Name(*giver) : ""));
  change->target = key.first;
  change->lun = key.second;
  change->medium_of = giver;
}

void Planner::CompareLun(const TargetConfig& target, const LunConfig& from,
                         const LunConfig& to) {
  const auto* const ram = RamOf(to);
  const auto* const file = FileOf(to);
  const bool both_ram = ram != nullptr && RamOf(from) != nullptr;
  const bool one_file = file != nullptr && FileOf(from) != nullptr &&
                        FileOf(from)->path == file->path;
  if (both_ram && !Same(*RamOf(from), *ram)) {
    // It would be another disk, and an empty one.
    const bool resized = RamOf(from)->size_bytes != ram->size_bytes;
    return Refuse(
        to.where,
        absl::StrCat("the RAM disk of ", Name({target.name, to.options.lun}),
                     " cannot ", resized ? "grow or shrink" : "change",
                     " while it is served",
                     resized ? ": transfers, and RDMA devices, use its memory "
                               "as one piece of its size"
                             : "",
                     "; put it back, or remove the LUN first, and add it in "
                     "a second change: what is in it is lost"));
  }
  if (one_file && !KeepFile(target.name, from, to)) return;
  const bool kept = both_ram || one_file;
  if (kept && Same(from.options, to.options)) return;
  const LunKey key = {target.name, to.options.lun};
  const std::optional<LunKey> giver = kept ? key : Giver(to);
  Change* const change = Add(
      Kind::kReplaceLun, to.where,
      absl::StrCat(
          Name(key), " is replaced: ",
          kept ? "it looks different to initiators"
               : absl::StrCat(MediumOf(to), " in place of ", MediumOf(from))));
  change->target = key.first;
  change->lun = key.second;
  change->medium_of = giver;
}

void Planner::CompareAccess() {
  if (running_.chap_algorithms != wanted_.chap_algorithms) {
    Add(Kind::kAccess, Where("chap", "algorithm"),
        "the algorithms of CHAP are others");
  }
  if (!Same(running_.discovery_accounts, wanted_.discovery_accounts)) {
    Add(Kind::kAccess, Nowhere(), "the accounts of discovery are others");
  }
  for (const TargetConfig& to : wanted_.targets) {
    const TargetConfig* const from = index_of_running_.Find(to.name);
    if (from == nullptr) continue;
    if (!Same(from->accounts, to.accounts)) {
      Add(Kind::kAccess, to.where,
          absl::StrCat("the accounts of ", to.name, " are others"))
          ->target = to.name;
    }
    if (from->rules != to.rules) {
      Add(Kind::kAccess, to.where,
          absl::StrCat("the access rules of ", to.name, " are others"))
          ->target = to.name;
    }
  }
}

}  // namespace

Plan PlanChanges(const DaemonConfig& running, const DaemonConfig& wanted,
                 const ParsedConfig& parsed) {
  return Planner(running, wanted, parsed).Make();
}

}  // namespace skiff::tools::skiffd
