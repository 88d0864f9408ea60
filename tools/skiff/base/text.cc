#include "tools/skiff/base/text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tools/common/units.h"

namespace skiff::tools {
namespace {

using Row = std::vector<std::string>;

bool LooksLikeANumber(const std::string& cell) {
  return std::all_of(cell.begin(), cell.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' ||
           c == ',' || c == '-';
  });
}

std::string Rounded(double number) {
  return WithCommas(static_cast<uint64_t>(std::llround(number)));
}

std::string Megabytes(double bytes, double seconds) {
  return absl::StrFormat("%.0f MB/s",
                         seconds > 0 ? bytes / 1e6 / seconds : 0.0);
}

Row LatencyRow(const std::string& name, const LatencyReport& r) {
  Row row = {name, Rounded(r.iops),
             absl::StrFormat("%.1f", r.megabytes_per_second),
             absl::StrFormat("%.1f", r.mean_us)};
  for (const auto& [unused, us] : r.percentiles_us) {
    row.push_back(absl::StrFormat("%.1f", us));
  }
  row.push_back(absl::StrFormat("%.1f", r.max_us));
  return row;
}

std::string ValueText(const FactsReport::Fact& fact) {
  if (const bool* flag = std::get_if<bool>(&fact.value)) {
    return *flag ? "yes" : "no";
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&fact.value)) {
    return absl::StrJoin(*list, ", ");
  }
  const auto* number = std::get_if<uint64_t>(&fact.value);
  if (number == nullptr) return std::get<std::string>(fact.value);
  if (fact.unit == "B") {
    return absl::StrCat(*number, " bytes (", FormatSize(*number), ")");
  }
  return absl::StrCat(*number, fact.unit.empty() ? "" : " ", fact.unit);
}

}  // namespace

std::string FirstFew(std::vector<std::string> names, absl::string_view who) {
  constexpr size_t kMost = 16;
  if (names.empty()) return "none";
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  const std::string some = absl::StrJoin(names, ", ");
  return more == 0
             ? some
             : absl::StrCat(some, " and ", more, " more (", who, " them)");
}

std::string WithCommas(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numbers;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    numbers.resize(widths.size(), true);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
      if (&row != &rows.front() && !LooksLikeANumber(row[i])) {
        numbers[i] = false;
      }
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", numbers[i] ? padding : "",
                      row[i], numbers[i] ? "" : padding);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string ToText(const DiscoveryReport& report) {
  if (report.targets.empty()) return "no targets\n";
  std::vector<Row> rows = {{"TARGET", "PORTALS"}};
  for (const auto& target : report.targets) {
    rows.push_back({target.name, absl::StrJoin(target.portals, " ")});
  }
  return FormatTable(rows);
}

std::string ToText(const ListReport& report) {
  std::vector<Row> rows = {{"TARGET", "LUN", "SIZE", "BLOCK", "VENDOR",
                            "PRODUCT", "REVISION", "SERIAL"}};
  std::string notes;  // Sentences, which are no columns.
  for (const auto& target : report.targets) {
    if (target.luns.empty()) {
      rows.push_back({target.name, "-"});
      absl::StrAppend(&notes, target.name, ": ",
                      target.problem.empty() ? "no LUNs" : target.problem,
                      "\n");
    }
    for (const LunReport& lun : target.luns) {
      if (!lun.problem.empty()) {
        rows.push_back({target.name, absl::StrCat(lun.lun), "-"});
        absl::StrAppend(&notes, target.name, " LUN ", lun.lun, ": ",
                        lun.problem, "\n");
        continue;
      }
      if (lun.device_type != 0) {
        rows.push_back({target.name, absl::StrCat(lun.lun), "-", "-",
                        lun.vendor, lun.product, lun.revision});
        absl::StrAppendFormat(&notes, "%s LUN %d: no disk, but of type %02xh\n",
                              target.name, lun.lun, lun.device_type);
        continue;
      }
      rows.push_back({target.name, absl::StrCat(lun.lun),
                      FormatSize(lun.size_bytes), absl::StrCat(lun.block_size),
                      lun.vendor, lun.product, lun.revision, lun.serial});
    }
  }
  if (rows.size() == 1) return "no targets\n";
  return FormatTable(rows) + notes;
}

bool ListReport::incomplete() const {
  return std::any_of(targets.begin(), targets.end(), [](const Target& target) {
    return !target.problem.empty() ||
           std::any_of(
               target.luns.begin(), target.luns.end(),
               [](const LunReport& lun) { return !lun.problem.empty(); });
  });
}

std::string ToText(const FactsReport& report) {
  std::string text;
  for (const auto& section : report.sections) {
    if (!section.title.empty()) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", section.title, "\n");
    }
    std::vector<Row> rows;
    for (const auto& fact : section.facts) {
      rows.push_back(
          {absl::StrCat(section.title.empty() ? "" : "  ", fact.label, ":"),
           ValueText(fact)});
    }
    absl::StrAppend(&text, FormatTable(rows));
  }
  return text;
}

std::string ToText(const CopyReport& report) {
  const auto bytes = static_cast<double>(report.bytes);
  std::string text = absl::StrCat(FormatSize(report.bytes), " copied in ",
                                  ShortDuration(absl::Seconds(report.seconds)),
                                  ", ", Megabytes(bytes, report.seconds), "\n");
  if (report.verify_seconds.has_value()) {
    absl::StrAppend(&text, FormatSize(report.bytes), " verified in ",
                    ShortDuration(absl::Seconds(*report.verify_seconds)), ", ",
                    Megabytes(bytes, *report.verify_seconds), "\n");
  }
  if (report.cut_short) {
    absl::StrAppend(&text,
                    "interrupted: there was more to do; what was copied "
                    "is the start of the source\n");
  }
  return text;
}

std::string ToText(const PerfReport& report) {
  std::string text =
      absl::StrFormat("%s %s, queue depth %d, %d %s, %s, %s over %s\n",
                      report.rw, FormatSize(report.io_bytes), report.depth,
                      report.jobs, report.jobs == 1 ? "job" : "jobs",
                      ShortDuration(absl::Seconds(report.seconds)),
                      report.data_model, report.transport);
  const LatencyReport& any = report.read.ios != 0 ? report.read : report.write;
  Row head = {"", "IOPS", "MB/s", "mean us"};
  for (const auto& [name, unused] : any.percentiles_us) head.push_back(name);
  head.push_back("max us");
  std::vector<Row> rows = {head};
  if (report.read.ios != 0) rows.push_back(LatencyRow("read", report.read));
  if (report.write.ios != 0) rows.push_back(LatencyRow("write", report.write));
  absl::StrAppend(&text, FormatTable(rows));
  absl::StrAppendFormat(&text,
                        "CPU %.2f us per I/O here (user %.2f, system %.2f)\n",
                        report.cpu_user_us + report.cpu_system_us,
                        report.cpu_user_us, report.cpu_system_us);
  if (report.verify && !(report.cut_short && report.verified_blocks == 0)) {
    absl::StrAppend(&text, "verified ", WithCommas(report.verified_blocks),
                    " blocks, all intact\n");
  }
  if (report.interrupted != 0 || report.unanswered != 0) {
    absl::StrAppend(&text, "sent again: ", WithCommas(report.interrupted),
                    " interrupted (by a reset, for example), ",
                    WithCommas(report.unanswered), " not answered in time\n");
  }
  if (report.recovered != 0) {
    absl::StrAppend(&text, "recovered errors of the disk: ",
                    WithCommas(report.recovered), "; look at its health\n");
  }
  if (report.cut_short) {
    absl::StrAppend(&text, "interrupted: this is of the part before\n");
  }
  return text;
}

std::string ToText(const SessionReport& report) {
  std::string text = absl::StrCat(
      report.target.empty() ? "discovery session" : report.target, " at ",
      report.peer, ": ", report.data_model, " over ", report.transport, "\n");
  if (!report.dialect.empty()) {
    absl::StrAppend(&text, "  iSER: ", report.dialect, "\n");
  }
  if (!report.device.empty()) {
    absl::StrAppend(&text, "  device ", report.device, ", remote invalidation ",
                    report.remote_invalidation ? "yes" : "no", "\n");
  }
  for (const std::string& fallback : report.fallbacks) {
    absl::StrAppend(&text, "  ", fallback, "\n");
  }
  const auto pair = absl::PairFormatter("=");
  absl::StrAppend(&text, "  ", absl::StrJoin(report.keys, " ", pair), "\n");
  absl::StrAppend(&text, "  commands=", report.commands,
                  " retries=", report.retries,
                  " reconnects=", report.reconnects, "\n");
  absl::StrAppend(&text, "  ", absl::StrJoin(report.counters, " ", pair), "\n");
  return text;
}

std::string ToText(const PingReport& report) {
  std::string text = absl::StrCat(report.sent, " pings to ", report.peer, ", ",
                                  report.round_trips_us.size(), " answers");
  if (!report.round_trips_us.empty()) {
    const auto [min, max] = std::minmax_element(report.round_trips_us.begin(),
                                                report.round_trips_us.end());
    double sum = 0;
    for (const double us : report.round_trips_us) sum += us;
    absl::StrAppendFormat(
        &text, "; min/mean/max %.0f/%.0f/%.0f us", *min,
        sum / static_cast<double>(report.round_trips_us.size()), *max);
  }
  return text + "\n";
}

}  // namespace skiff::tools
