// doctor: what keeps this machine, or the way to a target, from working well.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/url.h"
#include "tools/skiff/base/client.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/doctor/checks.h"
#include "tools/skiff/doctor/machine_facts.h"
#include "tools/skiff/doctor/way_facts.h"
#include "tools/skiff/machine.h"

namespace skiff::tools {
namespace {

// Connects, and logs out again.
absl::Status TrySession(const CommonOptions& common, const Endpoint& endpoint,
                        WayFact* way) {
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  const auto session = (*client)->Connect(endpoint, endpoint.target);
  way->session = session.status();
  if (session.ok()) {
    way->report = (*session)->Report();
  } else if (ExitCodeOf(way->session) == ExitCode::kUsage) {
    return way->session;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DoctorReport> Doctor(const CommonOptions& common,
                                    const DoctorOptions& options) {
  DoctorFacts facts;
  if (!options.url.empty()) {
    // What it could be at best is the question.
    const std::string url =
        IsUrl(options.url) ? options.url : absl::StrCat("auto://", options.url);
    const auto endpoint = ParsePortalOrTarget(url);
    if (!endpoint.ok()) return endpoint.status();
    WayFact way;
    way.url = protocol::WithoutPasswords(url);
    way.scheme = endpoint->portal.scheme;
    way.needs_rdma = absl::StartsWith(url, "iser://");
    way.host = endpoint->portal.host;
    way.port = endpoint->portal.port;
    LookAtWay(&way, &facts);
    if (!way.local_address.empty()) {
      const absl::Status status = TrySession(common, *endpoint, &way);
      if (!status.ok()) return status;
      if (!way.session.ok()) way.no_tcp = TryTcp(way);
    }
    facts.way = std::move(way);
  }
  facts.machine = ReadMachine();
  ReadMachineFacts(&facts);
  return Examine(facts);
}

}  // namespace skiff::tools
