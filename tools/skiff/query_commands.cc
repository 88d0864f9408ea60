// discover, ls, inquiry, capacity: what a target has.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scsi/initiator/scsi_error.h"
#include "scsi/lun.h"
#include "scsi/sense.h"
#include "tools/skiff/base/client.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/lun.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/vpd_facts.h"

namespace skiff::tools {
namespace {

// A client with a session, for the commands that need one of each.
struct Connected {
  std::unique_ptr<Client> client;
  std::unique_ptr<Session> session;
};

absl::StatusOr<Connected> Connect(const CommonOptions& common,
                                  const Endpoint& endpoint) {
  Connected connected;
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  connected.client = *std::move(client);
  auto session = connected.client->Connect(endpoint, endpoint.target);
  if (!session.ok()) return session.status();
  connected.session = *std::move(session);
  return connected;
}

// `wire` is the number as the target lists it.
LunReport ReportLun(Session* session, uint32_t number, uint64_t wire) {
  LunReport report;
  report.lun = number;
  const auto inquiry = FetchInquiry(session, wire);
  if (inquiry.ok() && inquiry->peripheral_qualifier == 0 &&
      inquiry->device_type != 0) {
    report.device_type = inquiry->device_type;
    report.vendor = inquiry->vendor;
    report.product = inquiry->product;
    report.revision = inquiry->revision;
    return report;
  }
  const auto lun = Lun::Open(session, number);
  if (!lun.ok()) {
    report.problem = std::string(lun.status().message());
    return report;
  }
  const scsi::DiskInfo& info = (*lun)->info();
  report.size_bytes = info.size_bytes;
  report.block_size = info.block_size;
  report.vendor = info.vendor;
  report.product = info.product;
  report.revision = info.revision;
  report.serial = info.serial;
  return report;
}

bool IsIllegalRequest(const absl::Status& status) {
  const std::optional<scsi::ScsiError> error = scsi::GetScsiError(status);
  return error.has_value() && error->sense.has_value() &&
         error->sense->key == scsi::SenseKey::kIllegalRequest;
}

absl::StatusOr<std::vector<LunReport>> ReportLuns(Session* session) {
  auto luns = FetchLuns(session);
  // Small targets don't know the command; they have one LUN.
  if (IsIllegalRequest(luns.status())) luns = std::vector<uint64_t>{0};
  if (!luns.ok()) return luns.status();
  std::vector<LunReport> reports;
  for (const uint64_t wire : *luns) {
    const std::optional<uint64_t> number = scsi::DecodeLun(wire);
    // Others are well-known LUNs, or of several levels; not disks of ours.
    if (number.has_value()) {
      reports.push_back(
          ReportLun(session, static_cast<uint32_t>(*number), wire));
    }
  }
  return reports;
}

}  // namespace

absl::StatusOr<DiscoveryReport> Discover(const CommonOptions& common,
                                         const DiscoverOptions& options) {
  const auto endpoint = ParsePortal(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  const auto targets = (*client)->Discover(*endpoint);
  if (!targets.ok()) return targets.status();
  DiscoveryReport report;
  for (const protocol::DiscoveredTarget& found : *targets) {
    DiscoveryReport::Target target;
    target.name = found.name;
    target.portals = found.portals;
    report.targets.push_back(std::move(target));
  }
  return report;
}

absl::StatusOr<ListReport> List(const CommonOptions& common,
                                const ListOptions& options) {
  const auto endpoint = ParsePortalOrTarget(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  std::vector<std::string> names;
  if (!endpoint->target.empty()) {
    names.push_back(endpoint->target);
  } else {
    const auto targets = (*client)->Discover(*endpoint);
    if (!targets.ok()) return targets.status();
    for (const auto& target : *targets) names.push_back(target.name);
  }

  ListReport report;
  for (const std::string& name : names) {
    ListReport::Target target;
    target.name = name;
    auto session = (*client)->Connect(*endpoint, name);
    // With one target to look at, its problem is the whole answer.
    if (!session.ok() && names.size() == 1) return session.status();
    if (!session.ok()) {
      target.problem = std::string(session.status().message());
    } else {
      auto luns = ReportLuns(session->get());
      if (!luns.ok() && names.size() == 1) return luns.status();
      if (luns.ok()) {
        target.luns = *std::move(luns);
      } else {
        target.problem = std::string(luns.status().message());
      }
      target.session = (*session)->Report();
    }
    report.targets.push_back(std::move(target));
  }
  return report;
}

absl::StatusOr<FactsReport> Inquire(const CommonOptions& common,
                                    const InquiryOptions& options) {
  const auto endpoint = ParseLun(options.url);
  if (!endpoint.ok()) return endpoint.status();
  const auto pages = ParseVpdPages(options.pages);
  if (!pages.ok()) return pages.status();
  auto connected = Connect(common, *endpoint);
  if (!connected.ok()) return connected.status();
  Session* session = connected->session.get();
  const uint64_t wire = WireLun(session, endpoint->lun);
  // Of whatever it is, a disk or not.
  const auto inquiry = FetchInquiry(session, wire);
  if (absl::IsNotFound(inquiry.status()) ||
      (inquiry.ok() &&
       inquiry->peripheral_qualifier == scsi::InquiryData::kNoLogicalUnit)) {
    return NoSuchLun(session, endpoint->lun);
  }
  if (!inquiry.ok()) return inquiry.status();

  FactsReport report;
  if (options.pages.empty()) {
    report.sections.push_back(InquirySection(*inquiry));
    report.session = session->Report();
    return report;
  }
  std::vector<uint8_t> wanted = *pages;
  if (wanted.empty()) {  // "all".
    const auto data = FetchVpd(session, wire, scsi::kVpdSupportedPages);
    if (!data.ok()) return data.status();
    auto supported = scsi::ParseSupportedVpdPages(*data);
    if (!supported.ok()) return supported.status();
    wanted = *std::move(supported);
  }
  for (const uint8_t page : wanted) {
    const auto data = FetchVpd(session, wire, page);
    if (!data.ok()) return data.status();
    auto section = VpdSection(page, *data);
    if (!section.ok()) return section.status();
    report.sections.push_back(*std::move(section));
  }
  report.session = session->Report();
  return report;
}

absl::StatusOr<FactsReport> Capacity(const CommonOptions& common,
                                     const CapacityOptions& options) {
  const auto endpoint = ParseLun(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto connected = Connect(common, *endpoint);
  if (!connected.ok()) return connected.status();
  const auto lun = Lun::Open(connected->session.get(), endpoint->lun);
  if (!lun.ok()) return lun.status();
  FactsReport report;
  report.sections.push_back(CapacitySection((*lun)->info()));
  report.session = connected->session->Report();
  return report;
}

}  // namespace skiff::tools
