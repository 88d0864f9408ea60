#include "tools/skiffd/tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "protocol/negotiation/negotiated_keys.h"
#include "scsi/target/command_counts.h"
#include "tools/common/units.h"

namespace skiff::tools::skiffd {
namespace {

std::string Took(const scsi::LatencyCounts& latency, uint64_t commands) {
  if (commands == 0) return "";
  const auto time = [](uint64_t nanos) {
    return absl::FormatDuration(absl::Nanoseconds(nanos));
  };
  return absl::StrCat(", ", time(latency.sum_ns / commands), " each, ",
                      time(latency.max_ns), " at most");
}

// What commands did, where there were any.
void AddCommands(const scsi::CommandCounts& c,
                 std::vector<std::string>* lines) {
  if (c.reads + c.writes + c.others + c.aborted + c.in_flight == 0) return;
  lines->push_back(
      absl::StrFormat("  %d reads (%s%s), %d writes (%s%s), %d others", c.reads,
                      FormatSize(c.read_bytes), Took(c.read_latency(), c.reads),
                      c.writes, FormatSize(c.written_bytes),
                      Took(c.write_latency(), c.writes), c.others));
  lines->push_back(absl::StrFormat(
      "  %d in flight; %d ended in CHECK CONDITION, %d in BUSY or TASK SET "
      "FULL, %d were aborted",
      c.in_flight, c.check_conditions, c.busy, c.aborted));
}

// What a session's connection runs on, and its counters.
void AddConnection(const protocol::ConnectionInfo& connection,
                   std::vector<std::string>* lines) {
  const protocol::ConnectionCounters& c = connection.counters;
  lines->push_back(absl::StrFormat(
      "  %d PDUs in, %d out; %d bytes in, %d out; %d payload bytes copied",
      c.pdus_in, c.pdus_out, c.bytes_in, c.bytes_out, c.copied_bytes));
  for (const std::string& fallback : connection.fallbacks) {
    lines->push_back(absl::StrCat("  ", fallback));
  }
  if (connection.device.empty()) return;
  lines->push_back(absl::StrFormat(
      "  device %s, remote invalidation %s: %d RDMA Reads of %d bytes, "
      "%d RDMA Writes of %d bytes, %d Sends, %d receives, %d keys "
      "invalidated, %d registrations",
      connection.device, connection.remote_invalidation ? "yes" : "no",
      c.rdma_reads, c.rdma_read_bytes, c.rdma_writes, c.rdma_write_bytes,
      c.pdus_out, c.pdus_in, c.invalidations_sent, c.registrations));
}

}  // namespace

std::vector<std::string> MemoryTable(const protocol::ServerMemory& memory) {
  return {
      absl::StrFormat(
          "memory budget: %s of %s used; %d times it had no room, %d times "
          "the system had no memory",
          FormatSize(memory.budget.charged), FormatSize(memory.budget.limit),
          memory.budget.refused, memory.budget.lacking),
      absl::StrFormat(
          "buffers: %s of %s held; %d commands wait, %d writes were given "
          "up as their data did not come",
          FormatSize(memory.buffers.held_bytes),
          FormatSize(memory.buffers.total_bytes), memory.buffers.waiting_tasks,
          memory.buffers.given_up)};
}

std::vector<std::string> LunTable(const scsi::Target& target) {
  std::vector<std::string> lines;
  for (const scsi::LogicalUnitStatus& lu : target.LogicalUnitStatuses()) {
    std::string line = absl::StrFormat(
        "%s LUN %d: %s, %s, serial %s, %d failures", target.name(), lu.lun,
        lu.medium, FormatSize(lu.size_bytes), lu.serial, lu.failures.total());
    const scsi::IoFailures& f = lu.failures;
    if (f.total() > 0) {
      absl::StrAppendFormat(&line,
                            " (%d reads, %d writes, %d flushes, %d unmaps, %d "
                            "writes of zeroes, %d compares and writes)",
                            f.reads, f.writes, f.flushes, f.unmaps,
                            f.write_zeroes, f.compare_and_writes);
    }
    if (!lu.data_loss.empty()) absl::StrAppend(&line, "; ", lu.data_loss);
    lines.push_back(std::move(line));
    AddCommands(lu.commands, &lines);
  }
  return lines;
}

std::vector<std::string> SessionTable(
    const std::vector<protocol::SessionInfo>& sessions) {
  std::vector<std::string> lines = {absl::StrCat(sessions.size(), " sessions")};
  for (const protocol::SessionInfo& s : sessions) {
    lines.push_back(absl::StrFormat(
        "TSIH %d: %s from %s to %s at %s, %s over %s, %d commands, %s out, "
        "%s in",
        s.tsih, s.initiator_name, s.peer,
        s.target_name.empty() ? "discovery" : s.target_name, s.portal,
        s.connection.data_model, s.connection.transport, s.commands,
        FormatSize(s.bytes_out), FormatSize(s.bytes_in)));
    const std::string dialect = protocol::IserDialect(s.parameters.iser);
    if (!dialect.empty()) lines.push_back(absl::StrCat("  iSER: ", dialect));
    lines.push_back(
        absl::StrCat("  ", absl::StrJoin(protocol::NegotiatedKeys(s.parameters),
                                         " ", absl::PairFormatter("="))));
    AddCommands(s.counts, &lines);
    AddConnection(s.connection, &lines);
  }
  return lines;
}

}  // namespace skiff::tools::skiffd
