#include "tools/skiffd/management_lists.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"

namespace skiff::tools::skiffd {

std::string ValidUtf8(absl::string_view text) {
  using Json = nlohmann::json;
  const std::string clean =
      Json(std::string(text))
          .dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(clean).get<std::string>();
}

management::v1::Commands CommandsOf(const scsi::CommandCounts& counts) {
  management::v1::Commands out;
  out.set_reads(counts.reads);
  out.set_read_bytes(counts.read_bytes);
  out.set_read_nanoseconds(counts.read_latency().sum_ns);
  out.set_writes(counts.writes);
  out.set_written_bytes(counts.written_bytes);
  out.set_write_nanoseconds(counts.write_latency().sum_ns);
  out.set_others(counts.others);
  out.set_check_conditions(counts.check_conditions);
  out.set_busy(counts.busy);
  out.set_aborted(counts.aborted);
  out.set_in_flight(counts.in_flight);
  return out;
}

management::v1::Session SessionOf(const protocol::SessionInfo& info) {
  management::v1::Session out;
  out.set_id(info.id);
  out.set_initiator(ValidUtf8(info.initiator_name));
  out.set_initiator_alias(ValidUtf8(info.initiator_alias));
  out.set_authenticated_as(ValidUtf8(info.authenticated_as));
  out.set_target(ValidUtf8(info.target_name));
  out.set_discovery(info.discovery);
  out.set_logged_in(info.logged_in);
  out.set_portal(info.portal);
  out.set_peer(info.peer);
  out.set_transport(info.connection.transport);
  out.set_data_model(info.connection.data_model);
  out.set_device(info.connection.device);
  out.set_tsih(info.tsih);
  out.set_isid(absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(info.isid.data()), info.isid.size())));
  *out.mutable_commands() = CommandsOf(info.counts);
  out.set_bytes_in(info.bytes_in);
  out.set_bytes_out(info.bytes_out);
  return out;
}

management::v1::Lun LunOf(const Daemon::ServedLun& lun) {
  management::v1::Lun out;
  out.set_target(lun.target);
  out.set_lun(lun.status.lun);
  out.set_medium(ValidUtf8(lun.status.medium));
  out.set_size_bytes(lun.status.size_bytes);
  out.set_block_size(lun.block_size);
  out.set_serial(ValidUtf8(lun.status.serial));
  out.set_read_only(lun.read_only);
  out.set_data_loss(ValidUtf8(lun.status.data_loss));
  out.set_failures(lun.status.failures.total());
  *out.mutable_commands() = CommandsOf(lun.status.commands);
  return out;
}

management::v1::Device DeviceOf(const std::string& transport,
                                const transport::DeviceReport& report) {
  management::v1::Device out;
  out.set_transport(transport);
  out.set_name(report.name);
  out.set_detail(report.detail);
  out.set_usable(report.usable);
  out.set_problem(report.problem);
  return out;
}

}  // namespace skiff::tools::skiffd
