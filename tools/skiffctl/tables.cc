#include "tools/skiffctl/tables.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/units.h"
#include "transport/log/printable.h"

namespace skiff::tools::skiffctl {
namespace {

namespace api = management::v1;
using Rows = std::vector<std::vector<std::string>>;

// Of UTF-8: characters, not bytes.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xc0) != 0x80; });
}

std::string YesNo(bool yes) { return yes ? "yes" : "no"; }

std::string Mean(uint64_t nanoseconds, uint64_t count) {
  if (count == 0) return "-";
  return ShortDuration(absl::Nanoseconds(nanoseconds / count));
}

// A counter begins again where a LUN is replaced.
uint64_t Since(uint64_t before, uint64_t after) {
  return after >= before ? after - before : after;
}

api::Commands Since(const api::Commands& before, const api::Commands& after) {
  api::Commands out = after;
  out.set_reads(Since(before.reads(), after.reads()));
  out.set_read_bytes(Since(before.read_bytes(), after.read_bytes()));
  out.set_read_nanoseconds(
      Since(before.read_nanoseconds(), after.read_nanoseconds()));
  out.set_writes(Since(before.writes(), after.writes()));
  out.set_written_bytes(Since(before.written_bytes(), after.written_bytes()));
  out.set_write_nanoseconds(
      Since(before.write_nanoseconds(), after.write_nanoseconds()));
  return out;
}

}  // namespace

std::string Table(const Rows& rows) {
  std::vector<size_t> widths;
  Rows cells = rows;
  for (std::vector<std::string>& row : cells) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = transport::Printable(row[i]);
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : cells) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i]);
      if (i + 1 == row.size()) break;
      line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string TableOf(const api::ListSessionsReply& reply) {
  Rows rows = {{"ID", "INITIATOR", "PEER", "TARGET", "PORTAL", "MODEL", "AS",
                "READS", "WRITES", "IN FLIGHT"}};
  for (const api::Session& session : reply.session()) {
    const std::string target = session.discovery()   ? "(discovery)"
                               : session.logged_in() ? session.target()
                                                     : "(login)";
    rows.push_back(
        {absl::StrCat(session.id()), session.initiator(), session.peer(),
         target, session.portal(), session.data_model(),
         session.authenticated_as().empty() ? "-" : session.authenticated_as(),
         absl::StrCat(session.commands().reads()),
         absl::StrCat(session.commands().writes()),
         absl::StrCat(session.commands().in_flight())});
  }
  return Table(rows);
}

std::string TableOf(const api::ListTargetsReply& reply) {
  Rows rows = {{"TARGET", "LUNS", "SESSIONS", "OPEN", "STATE", "ALIAS"}};
  for (const api::Target& target : reply.target()) {
    rows.push_back({target.name(), absl::StrCat(target.luns()),
                    absl::StrCat(target.sessions()), YesNo(target.open()),
                    target.draining() ? "draining" : "serving",
                    target.alias()});
  }
  return Table(rows);
}

std::string TableOf(const api::ListLunsReply& reply) {
  Rows rows = {{"TARGET", "LUN", "SIZE", "BLOCK", "SERIAL", "READS", "WRITES",
                "FAILURES", "MEDIUM"}};
  for (const api::Lun& lun : reply.lun()) {
    std::string medium = lun.medium();
    if (lun.read_only()) absl::StrAppend(&medium, ", read only");
    if (!lun.data_loss().empty()) {
      absl::StrAppend(&medium, "; ", lun.data_loss());
    }
    rows.push_back({lun.target(), absl::StrCat(lun.lun()),
                    FormatSize(lun.size_bytes()),
                    absl::StrCat(lun.block_size()), lun.serial(),
                    absl::StrCat(lun.commands().reads()),
                    absl::StrCat(lun.commands().writes()),
                    absl::StrCat(lun.failures()), std::move(medium)});
  }
  return Table(rows);
}

std::string TableOf(const api::ListPortalsReply& reply) {
  Rows rows = {{"PORTAL", "CONFIGURED", "SESSIONS"}};
  for (const api::Portal& portal : reply.portal()) {
    rows.push_back(
        {portal.bound(), portal.configured(), absl::StrCat(portal.sessions())});
  }
  return Table(rows);
}

std::string TableOf(const api::ListDevicesReply& reply) {
  Rows rows = {{"TRANSPORT", "DEVICE", "USABLE", "WHAT IT IS"}};
  for (const api::Device& device : reply.device()) {
    rows.push_back({device.transport(), device.name(), YesNo(device.usable()),
                    device.usable() ? device.detail() : device.problem()});
  }
  return Table(rows);
}

std::string TableOf(const api::GetStatusReply& reply) {
  return Table({
      {"version", reply.version()},
      {"process", absl::StrCat(reply.pid())},
      {"up", ShortDuration(absl::Seconds(reply.uptime_seconds()))},
      {"sessions", absl::StrCat(reply.sessions())},
      {"log level", reply.log_level()},
      {"trace", reply.trace_file().empty() ? "none" : reply.trace_file()},
      {"memory budget",
       absl::StrCat(FormatSize(reply.memory_budget_used_bytes()), " of ",
                    FormatSize(reply.memory_budget_bytes()))},
      {"buffers", absl::StrCat(FormatSize(reply.buffers_held_bytes()), " of ",
                               FormatSize(reply.buffers_bytes()), " held, ",
                               reply.waiting_commands(), " commands wait")},
  });
}

std::string TopTable(const api::ListLunsReply& before,
                     const api::ListLunsReply& after, absl::Duration between,
                     size_t rows) {
  std::map<std::pair<std::string, uint64_t>, api::Commands> then;
  for (const api::Lun& lun : before.lun()) {
    then[{lun.target(), lun.lun()}] = lun.commands();
  }
  std::vector<std::pair<const api::Lun*, api::Commands>> did;
  for (const api::Lun& lun : after.lun()) {
    did.emplace_back(&lun,
                     Since(then[{lun.target(), lun.lun()}], lun.commands()));
  }
  const auto total = [](const api::Commands& commands) {
    return commands.reads() + commands.writes();
  };
  std::stable_sort(did.begin(), did.end(), [&](const auto& a, const auto& b) {
    return total(a.second) > total(b.second);
  });
  if (did.size() > rows) did.resize(rows);
  const double seconds = std::max(absl::ToDoubleSeconds(between), 1e-6);
  Rows table = {{"TARGET", "LUN", "READ/s", "READ MiB/s", "READ TIME",
                 "WRITE/s", "WRITE MiB/s", "WRITE TIME", "IN FLIGHT"}};
  const auto rate = [seconds](uint64_t count) {
    return absl::StrFormat("%.0f", static_cast<double>(count) / seconds);
  };
  const auto mib = [seconds](uint64_t bytes) {
    return absl::StrFormat("%.1f",
                           static_cast<double>(bytes) / seconds / (1 << 20));
  };
  for (const auto& [lun, commands] : did) {
    table.push_back({lun->target(), absl::StrCat(lun->lun()),
                     rate(commands.reads()), mib(commands.read_bytes()),
                     Mean(commands.read_nanoseconds(), commands.reads()),
                     rate(commands.writes()), mib(commands.written_bytes()),
                     Mean(commands.write_nanoseconds(), commands.writes()),
                     absl::StrCat(commands.in_flight())});
  }
  return Table(table);
}

}  // namespace skiff::tools::skiffctl
