#include "transport/auto/candidates.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skiff::transport {
namespace {

// A candidate and what the report says of it.
struct Way {
  Candidate candidate;
  ChoiceEntry entry;
};

TransportGrade GradeOf(const ChoiceEntry& entry) {
  if (!entry.rdma) return TransportGrade::kByteStream;
  return entry.emulated ? TransportGrade::kEmulatedRdma : TransportGrade::kRdma;
}

// Why the device is not to be used; empty if it is.
std::string WhyNot(const ChoiceEntry& entry, const DeviceReport& device,
                   const std::string& why_left, const AutoOptions& options) {
  if (entry.rdma && options.policy == RdmaPolicy::kTcpOnly) {
    return "RDMA is switched off (rdma=off)";
  }
  if (!entry.rdma && options.policy == RdmaPolicy::kRequire) {
    return "it is no RDMA, which is required (rdma=require)";
  }
  if (!why_left.empty()) return why_left;
  if (!device.usable) {
    return device.problem.empty() ? "the device is not usable" : device.problem;
  }
  if (entry.emulated && !options.allow_emulated) {
    return "it emulates RDMA over sockets, which gains nothing over TCP; "
           "emulated=yes allows it";
  }
  if (!device.not_for_auto.empty()) return device.not_for_auto;
  if (options.suitable != nullptr) {
    const absl::Status status = options.suitable(device);
    if (!status.ok()) return std::string(status.message());
  }
  return "";
}

std::map<std::string, std::string> Direct(const MachineDevices& machine) {
  std::map<std::string, std::string> direct;
  for (const TransportDevices& found : machine) {
    for (const DeviceReport& device : found.devices) {
      if (device.rdma_device.empty() || device.layered) continue;
      direct.emplace(device.rdma_device, found.transport->scheme());
    }
  }
  return direct;
}

class Ranking {
 public:
  Ranking(const MachineDevices& machine, const Address& address,
          const AutoOptions& options)
      : address_(address), options_(options), direct_(Direct(machine)) {}

  void Add(const TransportDevices& found) {
    if (found.devices.empty()) {
      ChoiceEntry entry;
      entry.scheme = std::string(found.transport->scheme());
      entry.rdma = found.rdma;
      entry.reason = "it finds no device on this machine";
      skipped_.push_back(std::move(entry));
    }
    for (const DeviceReport& device : found.devices) Add(found, device);
  }

  std::vector<Candidate> Finish(ChoiceReport* report) {
    std::stable_sort(ways_.begin(), ways_.end(),
                     [](const Way& a, const Way& b) {
                       return a.candidate.grade < b.candidate.grade;
                     });
    std::vector<Candidate> candidates;
    for (Way& way : ways_) {
      if (candidates.size() < options_.max_attempts) {
        way.entry.rank = static_cast<int>(candidates.size()) + 1;
        way.candidate.entry = candidates.size();
        candidates.push_back(way.candidate);
        report->entries.push_back(std::move(way.entry));
      } else {
        way.entry.reason = absl::StrCat("there are ", options_.max_attempts,
                                        " better ones (max_attempts)");
        skipped_.push_back(std::move(way.entry));
      }
    }
    for (ChoiceEntry& entry : skipped_) {
      report->entries.push_back(std::move(entry));
    }
    return candidates;
  }

 private:
  void Add(const TransportDevices& found, const DeviceReport& device) {
    Transport* const transport = found.transport;
    ChoiceEntry entry;
    entry.scheme = std::string(transport->scheme());
    entry.devices = device.name;
    entry.emulated = device.emulated;
    // What is unusable may not know what it could do.
    entry.rdma = device.capabilities.rdma || (!device.usable && found.rdma);
    entry.reason = WhyNot(entry, device, WhyLeft(device), options_);
    if (!entry.reason.empty()) {
      skipped_.push_back(std::move(entry));
      return;
    }
    Address address = address_;
    address.scheme = entry.scheme;
    address.options = device.address_options;
    const TransportGrade grade = GradeOf(entry);
    for (Way& way : ways_) {
      if (way.candidate.transport == transport &&
          way.candidate.grade == grade && way.candidate.address == address) {
        absl::StrAppend(&way.entry.devices, ", ", device.name);
        return;
      }
    }
    ways_.push_back({{transport, std::move(address), grade, 0}, entry});
  }

  // Why a device is left to another transport; empty if it is not. What keeps
  // that one from it keeps a layer above it, too. While both are under way, the
  // worse one could win by chance, as where the better one's first packet is
  // lost.
  std::string WhyLeft(const DeviceReport& device) const {
    if (!device.layered) return "";
    const auto found = direct_.find(device.rdma_device);
    return found == direct_.end()
               ? ""
               : absl::StrCat(found->second, " has the same device");
  }

  const Address& address_;
  const AutoOptions& options_;
  // The transports that have RDMA devices themselves.
  const std::map<std::string, std::string> direct_;
  std::vector<Way> ways_;
  std::vector<ChoiceEntry> skipped_;
};

}  // namespace

std::vector<Candidate> RankCandidates(const MachineDevices& machine,
                                      const Address& address,
                                      const AutoOptions& options,
                                      ChoiceReport* report) {
  report->address = address.ToString();
  report->policy = options.policy;
  Ranking ranking(machine, address, options);
  for (const TransportDevices& found : machine) ranking.Add(found);
  return ranking.Finish(report);
}

absl::Status NothingSucceeded(const ChoiceReport& report,
                              const absl::Status& failure) {
  std::vector<std::string> reasons;
  for (const ChoiceEntry& entry : report.entries) {
    reasons.push_back(absl::StrCat(
        entry.scheme, entry.devices.empty() ? "" : " ", entry.devices, " ",
        ChoiceOutcomeName(entry.outcome), ": ", entry.reason));
  }
  if (reasons.empty()) reasons.push_back("this program has no transports");
  const absl::Status base =
      failure.ok() ? absl::FailedPreconditionError("") : failure;
  absl::Status status(
      base.code(),
      absl::StrCat(
          report.listening ? "cannot listen on " : "connect ", report.address,
          ": ",
          failure.ok() ? "no transport is usable" : "no transport succeeded",
          " (", RdmaPolicyName(report.policy),
          "): ", absl::StrJoin(reasons, "; ")));
  base.ForEachPayload([&](absl::string_view name, const absl::Cord& payload) {
    status.SetPayload(name, payload);
  });
  return status;
}

}  // namespace skiff::transport
