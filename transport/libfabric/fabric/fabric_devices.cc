#include "transport/libfabric/fabric/fabric_devices.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/libfabric_library.h"
#include "transport/libfabric/fabric/open_domains.h"

namespace skiff::transport {
namespace {

const char* LinkState(const fi_info& info) {
  if (info.nic == nullptr || info.nic->link_attr == nullptr) return "";
  return info.nic->link_attr->state == FI_LINK_UP ? ", link up" : ", link down";
}

std::string Detail(const fi_info& info) {
  std::string out =
      absl::StrCat("fabric ", info.fabric_attr->name, LinkState(info));
  if (info.nic != nullptr && info.nic->link_attr != nullptr &&
      info.nic->link_attr->mtu != 0) {
    absl::StrAppend(&out, ", mtu ", info.nic->link_attr->mtu);
  }
  if (info.src_addr != nullptr && info.addr_format != FI_ADDR_STR) {
    absl::StrAppend(
        &out, ", ",
        FabricAddressText(info.addr_format, info.src_addr, info.src_addrlen));
  }
  return out;
}

void AddAddress(const fi_info& info, DeviceReport* report) {
  // In shared memory, endpoints have names and the device has none.
  if (info.src_addr == nullptr || info.addr_format == FI_ADDR_STR) return;
  const std::string text =
      FabricAddressText(info.addr_format, info.src_addr, info.src_addrlen);
  const std::string address(absl::StripSuffix(text, ":0"));
  auto& known = report->addresses;
  // Layered providers report each of the provider below.
  if (std::find(known.begin(), known.end(), address) == known.end()) {
    known.push_back(address);
  }
}

void AddFacts(const fi_info& info, DeviceReport* report) {
  report->kind = info.fabric_attr->prov_name;
  if (info.nic != nullptr && info.nic->link_attr != nullptr) {
    const fi_link_attr& link = *info.nic->link_attr;
    report->link = link.state == FI_LINK_UP ? "up" : "down";
    report->mtu = static_cast<uint32_t>(link.mtu);
  }
  AddAddress(info, report);
  report->address_options["provider"] = info.fabric_attr->prov_name;
  report->emulated = IsEmulated(info);
  if (report->kind == "verbs") {
    report->rdma_device = info.domain_attr->name;
    report->layered = true;
  }
  if (info.ep_attr->type == FI_EP_RDM) {
    report->not_for_auto =
        "its connections begin at a TCP port of their own; name its provider "
        "in an address of libfabric";
  }
}

DeviceReport Report(const fi_info& info, const LibfabricOptions& settings) {
  DeviceReport report;
  report.name =
      absl::StrCat(info.fabric_attr->prov_name, "/", info.domain_attr->name);
  report.detail = Detail(info);
  AddFacts(info, &report);
  report.problem = UnusableBecause(info);
  if (!report.problem.empty()) {
    absl::StrAppend(&report.problem,
                    "; use another provider (option provider=)");
    return report;
  }
  auto domain = DomainFor(info, settings);
  if (!domain.ok()) {
    report.problem = std::string(domain.status().message());
    return report;
  }
  report.usable = true;
  report.capabilities = (*domain)->capabilities();
  return report;
}

// With every registration mode on offer, so that providers show which they
// cannot do without.
InfoPtr Everything(const FabricAddressOptions& options, fi_ep_type type) {
  const InfoPtr hints = FabricHints(options, type, 0, 0);
  if (hints == nullptr) return nullptr;
  hints->domain_attr->mr_mode |= FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_RMA_EVENT;
  fi_info* list = nullptr;
  if (fi_getinfo(FabricApiVersion(), nullptr, nullptr, 0, hints.get(), &list) !=
      0) {
    return nullptr;
  }
  return InfoPtr(list);
}

class Reports {
 public:
  explicit Reports(const LibfabricOptions& settings) : settings_(settings) {}

  void AddAll(const fi_info* list) {
    for (const fi_info* info = list; info != nullptr; info = info->next) {
      // The same device with shared receive contexts.
      if (info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) continue;
      const auto [known, is_new] =
          seen_.emplace(FabricName(*info), reports_.size());
      if (is_new) {
        reports_.push_back(Report(*info, settings_));
      } else {
        AddAddress(*info, &reports_[known->second]);
      }
    }
  }

  std::vector<DeviceReport> Take() { return std::move(reports_); }

 private:
  const LibfabricOptions& settings_;
  std::vector<DeviceReport> reports_;
  std::map<std::string, size_t> seen_;
};

// The providers that have datagrams and no connections.
std::set<std::string> DatagramProviders() {
  std::set<std::string> out;
  const InfoPtr list = Everything({}, FI_EP_RDM);
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    FabricAddressOptions options;
    options.provider = info->fabric_attr->prov_name;
    if (UsesDatagrams(options)) out.insert(options.provider);
  }
  return out;
}

}  // namespace

std::vector<DeviceReport> FabricDevices(const LibfabricOptions& settings) {
  if (const absl::Status loaded = LoadLibfabric(); !loaded.ok()) {
    DeviceReport report;
    report.name = "libfabric";
    report.problem = std::string(loaded.message());
    return {report};
  }
  Reports reports(settings);
  reports.AddAll(Everything({}, FI_EP_MSG).get());
  for (const std::string& provider : DatagramProviders()) {
    FabricAddressOptions options;
    options.provider = provider;
    // Asked by name, a provider gives what connections to it get.
    reports.AddAll(Everything(options, FI_EP_RDM).get());
  }
  std::vector<DeviceReport> out = reports.Take();
  if (out.empty()) {
    DeviceReport report;
    report.name = "libfabric";
    report.problem =
        "no provider offers connected endpoints or reliable datagrams with "
        "messages and one-sided operations; `fi_info` (package libfabric-bin) "
        "says what is there";
    out.push_back(report);
  }
  return out;
}

}  // namespace skiff::transport
