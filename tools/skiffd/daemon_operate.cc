// What operators see of a daemon, and do to its sessions.

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/skiffd/daemon.h"

namespace skiff::tools::skiffd {
namespace {

// For reactors to answer.
constexpr absl::Duration kPatience = absl::Seconds(5);

// What `ask` is told by the function that it is given, which may run on any
// thread, and when nobody waits for it any more.
template <typename T, typename Ask>
absl::StatusOr<T> Answer(Ask ask) {
  const auto told = std::make_shared<std::promise<T>>();
  auto answer = told->get_future();
  ask([told](T value) { told->set_value(std::move(value)); });
  if (answer.wait_for(absl::ToChronoNanoseconds(kPatience)) !=
      std::future_status::ready) {
    return absl::UnavailableError(
        "a reactor is blocked, by a disk perhaps; try again later");
  }
  return answer.get();
}

}  // namespace

absl::StatusOr<std::vector<protocol::SessionInfo>> Daemon::Sessions() const {
  return Answer<std::vector<protocol::SessionInfo>>(
      [this](auto done) { server_->ListSessions(std::move(done)); });
}

absl::Duration Daemon::uptime() const {
  return transport::EpollReactor::MonotonicNow() - started_;
}

absl::StatusOr<protocol::ServerMemory> Daemon::Memory() const {
  return Answer<protocol::ServerMemory>(
      [this](auto done) { server_->ReportMemory(std::move(done)); });
}

std::vector<Daemon::ServedLun> Daemon::Luns() const {
  std::vector<ServedLun> all;
  for (const std::shared_ptr<scsi::Target>& target : Targets()) {
    for (scsi::LogicalUnitStatus& status : target->LogicalUnitStatuses()) {
      ServedLun lun;
      lun.target = std::string(target->name());
      const auto medium = media_.find({lun.target, status.lun});
      if (medium != media_.end()) {
        const scsi::BackendInfo info = medium->second->info();
        lun.block_size = info.block_size;
        lun.read_only = info.read_only;
      }
      lun.status = std::move(status);
      all.push_back(std::move(lun));
    }
  }
  return all;
}

std::vector<Daemon::ServedPortal> Daemon::ServedPortals() const {
  std::vector<ServedPortal> all;
  for (const Portal& portal : portals_) {
    all.push_back({portal.configured.ToString(), portal.bound.ToString()});
  }
  return all;
}

void Daemon::Drop(const std::vector<uint64_t>& sessions, absl::Duration grace) {
  for (const uint64_t id : sessions) {
    // One that is gone already is as it should be.
    server_->DropSession(id, grace, [](const absl::Status& /*status*/) {});
  }
}

absl::StatusOr<std::vector<std::string>> Daemon::SetDraining(
    const std::string& target, bool draining) {
  std::vector<std::string> names;
  for (const auto& [name, access] : access_) {
    if (target.empty() || target == name) names.push_back(name);
  }
  if (names.empty() && !target.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no target ", target,
                     "; 'skiffctl list targets' names those that there are"));
  }
  for (const std::string& name : names) {
    access_.at(name)->SetClosed(draining);
    if (draining) {
      draining_.insert(name);
    } else {
      draining_.erase(name);
    }
  }
  return names;
}

}  // namespace skiff::tools::skiffd
