#include "tools/skiff/base/json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

// Keys stay in the order in which they are added.
using Json = nlohmann::ordered_json;

// What a target says need not be UTF-8: bytes that are not are replaced.
std::string Dump(const Json& json) {
  return transport::PrintableJson(
      json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json LatencyJson(const LatencyReport& report) {
  Json percentiles = Json::object();
  for (const auto& [name, us] : report.percentiles_us) percentiles[name] = us;
  return {{"ios", report.ios},
          {"iops", report.iops},
          {"mb_per_s", report.megabytes_per_second},
          {"latency_us",
           {{"mean", report.mean_us},
            {"min", report.min_us},
            {"max", report.max_us},
            {"percentiles", percentiles}}}};
}

Json SessionJson(const SessionReport& report) {
  Json keys = Json::object();
  for (const auto& [name, value] : report.keys) keys[name] = value;
  Json counters = Json::object();
  for (const auto& [name, value] : report.counters) counters[name] = value;
  return {{"target", report.target},
          {"peer", report.peer},
          {"transport", report.transport},
          {"data_model", report.data_model},
          {"dialect", report.dialect},
          {"device", report.device},
          {"remote_invalidation", report.remote_invalidation},
          {"fallbacks", report.fallbacks},
          {"keys", keys},
          {"commands", report.commands},
          {"retries", report.retries},
          {"reconnects", report.reconnects},
          {"counters", counters}};
}

}  // namespace

std::string ToJson(const DiscoveryReport& report) {
  Json targets = Json::array();
  for (const auto& target : report.targets) {
    targets.push_back({{"name", target.name}, {"portals", target.portals}});
  }
  return Dump({{"targets", targets}});
}

std::string ToJson(const ListReport& report) {
  Json targets = Json::array();
  for (const auto& target : report.targets) {
    Json luns = Json::array();
    for (const LunReport& lun : target.luns) {
      if (!lun.problem.empty()) {
        luns.push_back({{"lun", lun.lun}, {"problem", lun.problem}});
        continue;
      }
      if (lun.device_type != 0) {
        luns.push_back({{"lun", lun.lun},
                        {"device_type", lun.device_type},
                        {"vendor", lun.vendor},
                        {"product", lun.product},
                        {"revision", lun.revision}});
        continue;
      }
      luns.push_back({{"lun", lun.lun},
                      {"size", lun.size_bytes},
                      {"block_size", lun.block_size},
                      {"vendor", lun.vendor},
                      {"product", lun.product},
                      {"revision", lun.revision},
                      {"serial", lun.serial}});
    }
    Json json = {{"name", target.name}, {"luns", luns}};
    if (!target.problem.empty()) json["problem"] = target.problem;
    if (target.session.has_value()) {
      json["session"] = SessionJson(*target.session);
    }
    targets.push_back(json);
  }
  return Dump({{"targets", targets}});
}

std::string ToJson(const FactsReport& report) {
  Json json = Json::object();
  for (const auto& section : report.sections) {
    Json& facts = json[section.key] = Json::object();
    for (const auto& fact : section.facts) {
      std::visit([&](const auto& value) { facts[fact.key] = value; },
                 fact.value);
    }
  }
  if (report.session.has_value()) {
    json["session"] = SessionJson(*report.session);
  }
  return Dump(json);
}

std::string ToJson(const CopyReport& report) {
  Json json = {{"source", report.source},
               {"destination", report.destination},
               {"bytes", report.bytes},
               {"seconds", report.seconds},
               {"verified", report.verify_seconds.has_value()},
               {"cut_short", report.cut_short}};
  if (report.verify_seconds.has_value()) {
    json["verify_seconds"] = *report.verify_seconds;
  }
  return Dump(json);
}

std::string ToJson(const PerfReport& report) {
  Json json = {{"url", report.url},
               {"transport", report.transport},
               {"data_model", report.data_model},
               {"rw", report.rw},
               {"bs", report.io_bytes},
               {"iodepth", report.depth},
               {"numjobs", report.jobs},
               {"seconds", report.seconds}};
  if (report.read.ios != 0) json["read"] = LatencyJson(report.read);
  if (report.write.ios != 0) json["write"] = LatencyJson(report.write);
  json["cpu_us_per_io"] = {
      {"user", report.cpu_user_us},
      {"system", report.cpu_system_us},
      {"total", report.cpu_user_us + report.cpu_system_us}};
  json["verify"] = report.verify;
  if (report.verify) json["verified_blocks"] = report.verified_blocks;
  json["sent_again"] = {{"interrupted", report.interrupted},
                        {"unanswered", report.unanswered}};
  json["recovered_errors"] = report.recovered;
  json["cut_short"] = report.cut_short;
  json["sessions"] = Json::array();
  for (const SessionReport& session : report.sessions) {
    json["sessions"].push_back(SessionJson(session));
  }
  return Dump(json);
}

std::string ToJson(const PingReport& report) {
  Json json = {{"peer", report.peer},
               {"sent", report.sent},
               {"received", report.round_trips_us.size()},
               {"round_trips_us", report.round_trips_us},
               {"cut_short", report.cut_short}};
  if (report.session.has_value()) {
    json["session"] = SessionJson(*report.session);
  }
  return Dump(json);
}

std::string ToJson(const ErrorReport& report) {
  return Dump(
      {{"error",
        {{"exit_code", report.exit_code}, {"message", report.message}}}});
}

}  // namespace skiff::tools
