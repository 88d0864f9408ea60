// ping and reset: about the session, not the data.

#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "tools/skiff/client.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/endpoint.h"
#include "tools/skiff/lun.h"

namespace skiff::tools {

absl::StatusOr<PingReport> Ping(const CommonOptions& common,
                                const PingOptions& options) {
  const auto endpoint = ParseTarget(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  auto opened = (*client)->Connect(endpoint->portal, endpoint->target);
  if (!opened.ok()) return opened.status();
  Session* session = opened->get();
  PingReport report;
  session->RunOnReactor(
      [&] { report.peer = session->initiator()->peer_address(); });
  for (uint32_t i = 0; i < options.count; ++i) {
    if (i > 0) absl::SleepFor(options.interval);
    ++report.sent;
    const absl::Time sent = absl::Now();
    const absl::Status status = session->Await([&](Session::Done done) {
      session->initiator()->Ping(std::move(done));
    });
    if (!status.ok()) return status;
    report.round_trips_us.push_back(
        absl::ToDoubleMicroseconds(absl::Now() - sent));
  }
  report.session = session->Report();
  return report;
}

absl::Status Reset(const CommonOptions& common, const ResetOptions& options) {
  const auto endpoint =
      options.target ? ParseTarget(options.url) : ParseLun(options.url);
  if (!endpoint.ok()) return endpoint.status();
  auto client = Client::Create(common);
  if (!client.ok()) return client.status();
  auto opened = (*client)->Connect(endpoint->portal, endpoint->target);
  if (!opened.ok()) return opened.status();
  Session* session = opened->get();
  const uint64_t wire = options.target ? 0 : WireLun(session, endpoint->lun);
  return session->Await([&](Session::Done done) {
    session->initiator()->Manage(
        options.target ? protocol::TaskManagementFunction::kTargetWarmReset
                       : protocol::TaskManagementFunction::kLogicalUnitReset,
        wire, nullptr, std::move(done));
  });
}

}  // namespace skiff::tools
