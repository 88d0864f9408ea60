// The report of `skiff transports`, for programs.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/skiff/base/json.h"
#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

using Json = nlohmann::ordered_json;
using transport::Capabilities;
using transport::DeviceReport;

Json ToObject(const Capabilities& c) {
  return {{"rdma", c.rdma},
          {"max_message_bytes", c.max_message_bytes},
          {"eager_message_bytes",
           std::min(c.eager_message_bytes, c.max_message_bytes)},
          {"max_transfer_bytes", c.max_transfer_bytes},
          {"max_inline_bytes", c.max_inline_bytes},
          {"max_send_sges", c.max_send_sges},
          {"max_receive_sges", c.max_receive_sges},
          {"max_read_sges", c.max_read_sges},
          {"max_read_depth", c.max_read_depth},
          {"max_send_queue", c.max_send_queue},
          {"max_receive_queue", c.max_receive_queue},
          {"max_private_data_bytes", c.max_private_data_bytes},
          {"remote_key_bits", c.remote_key_bits},
          {"send_with_invalidate", c.send_with_invalidate},
          {"shared_receive_queue", c.shared_receive_queue},
          {"memory_windows", c.memory_windows},
          {"receiver_not_ready_retry", c.receiver_not_ready_retry},
          {"read_sink_needs_remote_write", c.read_sink_needs_remote_write},
          {"serial_transfers", c.serial_transfers},
          {"deregistration_ends_access", c.deregistration_ends_access}};
}

void AddProblem(const std::string& problem, Json* json) {
  if (!problem.empty()) (*json)["problem"] = problem;
}

Json ToObject(const DeviceReport& device) {
  Json json = {{"name", device.name},
               {"usable", device.usable},
               {"emulated", device.emulated},
               {"kind", device.kind},
               {"link", device.link},
               {"mtu", device.mtu},
               {"addresses", device.addresses},
               {"detail", device.detail},
               {"address_options", device.address_options}};
  AddProblem(device.problem, &json);
  if (device.usable) json["capabilities"] = ToObject(device.capabilities);
  return json;
}

// Unlimited is null.
Json ToValue(const std::optional<uint64_t>& limit) {
  return limit.has_value() ? Json(*limit) : Json(nullptr);
}

void AddMachine(const MachineReport& machine, Json* json) {
  Json& limits = (*json)["limits"] = Json::object();
  for (const LimitReport& limit : machine.limits) {
    Json& object = limits[limit.key] = {{"now", ToValue(limit.value)},
                                        {"at_most", ToValue(limit.maximum)}};
    AddProblem(limit.problem, &object);
  }
  Json& pages = (*json)["huge_pages"] = Json::array();
  for (const HugePagesReport& report : machine.huge_pages) {
    pages.push_back({{"page_bytes", report.page_bytes},
                     {"total", report.total},
                     {"free", report.free}});
  }
  Json& modules = (*json)["modules"] = Json::array();
  for (const KernelModuleReport& module : machine.modules) {
    modules.push_back({{"name", module.name}, {"state", module.state}});
    AddProblem(module.problem, &modules.back());
  }
  Json& files = (*json)["device_files"] = Json::array();
  for (const DeviceFileReport& file : machine.device_files) {
    files.push_back({{"path", file.path}, {"usable", file.usable}});
    AddProblem(file.problem, &files.back());
  }
}

}  // namespace

std::string ToJson(const TransportsReport& report) {
  Json json = {{"transports", Json::array()}};
  for (const auto& transport : report.transports) {
    Json devices = Json::array();
    for (const DeviceReport& device : transport.devices) {
      devices.push_back(ToObject(device));
    }
    json["transports"].push_back(
        {{"scheme", transport.scheme}, {"devices", devices}});
  }
  AddMachine(report.machine, &json);
  return transport::PrintableJson(
      json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace skiff::tools
