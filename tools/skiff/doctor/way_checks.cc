// What is wrong with the way to a target, and with the session.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/common/units.h"
#include "tools/skiff/doctor/check_list.h"

namespace skiff::tools {
namespace {

// Name servers that are well answer in milliseconds.
constexpr absl::Duration kSlowName = absl::Seconds(1);

}  // namespace

void CheckName(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  if (way.address.empty()) {
    out->push_back({Severity::kError, "name",
                    absl::StrCat(way.host, ": ", way.no_address),
                    "the target's address is not known",
                    absl::StrCat("getent ahosts ", way.host,
                                 "; mend /etc/hosts or the name server, or "
                                 "write the address into the URL")});
  } else if (way.resolved_in >= kSlowName) {
    out->push_back({Severity::kWarning, "name",
                    absl::StrCat(way.host, " is ", way.address, ", which took ",
                                 ShortDuration(way.resolved_in), " to find"),
                    "each new connection waits for that",
                    "look at the name servers of /etc/resolv.conf, or write "
                    "the address into the URL"});
  } else if (way.host != way.address) {
    out->push_back({Severity::kFine, "name",
                    absl::StrCat(way.host, " is ", way.address), "", ""});
  }
}

void CheckRoute(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  if (way.address.empty()) return;
  if (way.local_address.empty()) {
    out->push_back({Severity::kError, "route",
                    absl::StrCat("no way to ", way.address, ": ", way.no_route),
                    "nothing can be sent there",
                    absl::StrCat("ip route get ", way.address)});
    return;
  }
  const auto found = facts.interfaces.find(way.interface);
  const bool down = found != facts.interfaces.end() && !found->second.up;
  Finding finding;
  finding.check = "route";
  finding.seen = absl::StrCat(way.address, " is reached by ", way.interface,
                              ", from ", way.local_address);
  if (down) {
    finding.severity = Severity::kWarning;
    absl::StrAppend(&finding.seen, ", which has no link");
    finding.why = "nothing can be sent there";
    finding.fix = absl::StrCat("ip link set ", way.interface,
                               " up; then look at the cable and the switch");
  }
  out->push_back(std::move(finding));
}

void CheckPathMtu(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  const auto found = facts.interfaces.find(way.interface);
  if (found == facts.interfaces.end() || found->second.loopback) return;
  const std::string mtu = absl::StrCat(found->second.mtu, " bytes");
  const std::string why =
      "where long packets are dropped, a login succeeds and data hang";
  switch (way.short_echo) {
    case Echo::kNotTried:
      return;
    case Echo::kNotAllowed:
      out->push_back({Severity::kNote, "path-mtu",
                      absl::StrCat("whether packets of ", mtu,
                                   " arrive could not be tried: this user may "
                                   "not send echo requests"),
                      why,
                      "sysctl net.ipv4.ping_group_range='0 2147483647', then "
                      "skiff doctor again"});
      return;
    case Echo::kSilent:
      out->push_back({Severity::kNote, "path-mtu",
                      absl::StrCat("whether packets of ", mtu,
                                   " arrive could not be tried: ", way.address,
                                   " answers no echo request"),
                      why, absl::StrCat("tracepath ", way.address)});
      return;
    case Echo::kAnswered:
      break;
  }
  if (way.long_echo == Echo::kAnswered) {
    out->push_back({Severity::kFine, "path-mtu",
                    absl::StrCat("packets of ", mtu, " reach ", way.address),
                    "", ""});
    return;
  }
  out->push_back({Severity::kWarning, "path-mtu",
                  absl::StrCat("packets of ", mtu, ", the MTU of ",
                               way.interface, ", do not reach ", way.address),
                  why,
                  absl::StrCat("tracepath ", way.address,
                               " finds the place; give all interfaces and "
                               "switches on the way the same MTU")});
}

void CheckPort(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  if (way.no_tcp.empty()) return;
  out->push_back(
      {way.needs_rdma ? Severity::kNote : Severity::kError, "port",
       absl::StrCat("port ", way.port, " of ", way.address,
                    " for TCP: ", way.no_tcp),
       way.needs_rdma
           ? "a target may listen for RDMA alone"
           : "no target listens there, or a firewall keeps packets away",
       absl::StrCat("at the target: ss -ltn 'sport = :", way.port,
                    "', and look at its firewall")});
}

void CheckSession(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  if (way.address.empty() || way.local_address.empty()) return;
  if (!way.session.ok()) {
    out->push_back({Severity::kError, "session",
                    std::string(way.session.message()), "there is no session",
                    "mend what is said above; then: skiff doctor " + way.url});
    return;
  }
  const SessionReport& report = *way.report;
  out->push_back(
      {Severity::kFine, "session",
       absl::StrCat(
           report.data_model, " over ", report.transport,
           report.device.empty() ? "" : absl::StrCat(" on ", report.device),
           ", with ", report.peer),
       "", ""});
}

void CheckRdmaIsUsed(const DoctorFacts& facts, Findings* out) {
  const WayFact& way = *facts.way;
  if (!way.report.has_value()) return;
  const bool rdma = !way.report->device.empty();
  for (const std::string& fallback : way.report->fallbacks) {
    out->push_back(
        {rdma ? Severity::kNote : Severity::kWarning, "rdma", fallback,
         "it is slower than it could be",
         rdma ? "docs/iser.md says what it costs"
              : "mend what is said of RDMA above, and listen for RDMA at the "
                "target; `skiff transports` tells of each device"});
  }
  if (rdma || way.scheme == "auto") return;
  out->push_back({Severity::kNote, "rdma",
                  "TCP, as the URL asks for: RDMA was not tried",
                  "RDMA costs less processor time",
                  absl::StrCat("skiff doctor auto://",
                               way.url.substr(way.url.find("://") + 3))});
}

}  // namespace skiff::tools
