// The report of `skiff transports`, for people.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/common/units.h"
#include "tools/skiff/base/text.h"

namespace skiff::tools {
namespace {

using Row = std::vector<std::string>;
using transport::Capabilities;
using transport::DeviceReport;

std::string NumberOrNothing(uint64_t number) {
  return number == 0 ? "" : absl::StrCat(number);
}

// A row for each address; those after the first have nothing else.
void AddDevice(const std::string& scheme, const DeviceReport& device,
               std::vector<Row>* rows) {
  std::vector<std::string> addresses = device.addresses;
  if (addresses.empty()) addresses.push_back(device.detail);
  const std::string usable =
      !device.usable ? "no" : (device.emulated ? "emulated" : "yes");
  rows->push_back({scheme, device.name, usable, device.kind, device.link,
                   NumberOrNothing(device.mtu), addresses[0]});
  for (size_t i = 1; i < addresses.size(); ++i) {
    rows->push_back({"", "", "", "", "", "", addresses[i]});
  }
}

std::string Extras(const Capabilities& c) {
  std::vector<std::string> extras;
  if (c.send_with_invalidate) extras.emplace_back("invalidate");
  if (c.memory_windows) extras.emplace_back("windows");
  if (c.shared_receive_queue) extras.emplace_back("shared receives");
  if (c.receiver_not_ready_retry) extras.emplace_back("waits for receives");
  if (c.read_sink_needs_remote_write) extras.emplace_back("writable read sink");
  if (c.serial_transfers) extras.emplace_back("serial transfers");
  if (!c.deregistration_ends_access) extras.emplace_back("lasting transfers");
  return absl::StrJoin(extras, ", ");
}

Row CapabilitiesRow(const std::string& scheme, const DeviceReport& device) {
  const Capabilities& c = device.capabilities;
  return {scheme,
          device.name,
          FormatSize(c.max_message_bytes),
          absl::StrCat(c.max_inline_bytes),
          absl::StrCat(c.max_send_sges, "/", c.max_receive_sges, "/",
                       c.max_read_sges),
          absl::StrCat(c.max_send_queue, "/", c.max_receive_queue),
          absl::StrCat(c.max_read_depth),
          absl::StrCat(c.max_private_data_bytes),
          absl::StrCat(c.remote_key_bits),
          Extras(c)};
}

std::string DevicesText(const TransportsReport& report) {
  std::vector<Row> devices = {
      {"TRANSPORT", "DEVICE", "USABLE", "KIND", "LINK", "MTU", "ADDRESSES"}};
  std::vector<Row> rdma = {{"TRANSPORT", "DEVICE", "MESSAGE", "INLINE",
                            "SGES S/R/READ", "QUEUE S/R", "READS",
                            "PRIVATE DATA", "KEY BITS", "CAN DO"}};
  for (const auto& transport : report.transports) {
    for (const DeviceReport& device : transport.devices) {
      AddDevice(transport.scheme, device, &devices);
      if (device.usable && device.capabilities.rdma) {
        rdma.push_back(CapabilitiesRow(transport.scheme, device));
      }
    }
  }
  std::string text = FormatTable(devices);
  if (rdma.size() > 1) {
    absl::StrAppend(&text, "\n", FormatTable(rdma));
  } else {
    absl::StrAppend(&text, "\nno RDMA on this machine\n");
  }
  return text;
}

std::string Amount(const LimitReport& limit,
                   const std::optional<uint64_t>& value) {
  if (!value.has_value()) return "unlimited";
  return limit.is_bytes ? FormatSize(*value) : absl::StrCat(*value);
}

std::string MachineText(const MachineReport& machine) {
  std::vector<Row> limits = {{"LIMIT", "NOW", "AT MOST"}};
  for (const LimitReport& limit : machine.limits) {
    limits.push_back({limit.label, Amount(limit, limit.value),
                      Amount(limit, limit.maximum)});
  }
  for (const HugePagesReport& pages : machine.huge_pages) {
    limits.push_back(
        {absl::StrCat("huge pages of ", FormatSize(pages.page_bytes)),
         absl::StrCat(pages.free, " free"), absl::StrCat(pages.total)});
  }
  std::vector<Row> modules = {{"KERNEL MODULE", "STATE", "FOR"}};
  for (const KernelModuleReport& module : machine.modules) {
    modules.push_back({module.name, module.state, module.purpose});
  }
  return absl::StrCat(FormatTable(limits), "\n", FormatTable(modules));
}

std::string ProblemsText(const TransportsReport& report) {
  std::string text;
  const auto add = [&text](absl::string_view what, absl::string_view problem) {
    if (problem.empty()) return;
    absl::StrAppend(&text, text.empty() ? "\nproblems, and what to do\n" : "",
                    "  ", what, ": ", problem, "\n");
  };
  for (const auto& transport : report.transports) {
    for (const DeviceReport& device : transport.devices) {
      add(absl::StrCat(transport.scheme, " ", device.name), device.problem);
    }
  }
  const MachineReport& machine = report.machine;
  for (const auto& limit : machine.limits) add(limit.label, limit.problem);
  for (const auto& module : machine.modules) add(module.name, module.problem);
  for (const auto& file : machine.device_files) add(file.path, file.problem);
  return text;
}

}  // namespace

std::string ToText(const TransportsReport& report) {
  return absl::StrCat(DevicesText(report), "\n", MachineText(report.machine),
                      ProblemsText(report));
}

}  // namespace skiff::tools
