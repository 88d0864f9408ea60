#include "tools/skiffd/daemon.h"

#include <future>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "protocol/negotiation/negotiated_keys.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/ram_backend.h"
#include "tools/common/stderr_log.h"
#include "tools/common/units.h"
#include "transport/adaptive_spin.h"

namespace skiff::tools::skiffd {
namespace {

absl::Status At(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

absl::StatusOr<std::unique_ptr<scsi::Backend>> OpenMedium(
    const LunConfig& config) {
  if (const auto* ram = std::get_if<scsi::RamBackendOptions>(&config.medium)) {
    return scsi::MakeRamBackend(*ram);
  }
  return scsi::MakeFileBackend(
      std::get<scsi::FileBackendOptions>(config.medium));
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

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(
    const DaemonConfig& config, const transport::Registry& registry) {
  std::unique_ptr<Daemon> self(new Daemon);
  self->log_ = config.server.log;
  auto threads = transport::ReactorThreads::Start(config.reactors);
  if (!threads.ok()) return threads.status();
  self->threads_ = *std::move(threads);
  self->LogSpin(config.reactors.reactor);
  auto server = protocol::TargetServer::Create(
      &registry, self->threads_->reactors(), config.server);
  if (!server.ok()) return server.status();
  self->server_ = *std::move(server);

  for (const TargetConfig& target : config.targets) {
    if (absl::Status status = self->AddTarget(target); !status.ok()) {
      return status;
    }
  }
  for (const PortalConfig& portal : config.portals) {
    // Portals belong to the first reactor, which turns already.
    absl::StatusOr<transport::Address> bound =
        absl::InternalError("not listening");
    self->threads_->RunOn(
        0, [&] { bound = self->server_->Listen(portal.address); });
    if (!bound.ok()) return At(portal.where, bound.status());
    self->portals_.push_back(*std::move(bound));
  }
  return self;
}

void Daemon::LogSpin(const transport::EpollReactorOptions& reactor) {
  if (log_ == nullptr || !reactor.adaptive_spin) return;
  std::string time = absl::FormatDuration(reactor.spin);
  if (reactor.spin == absl::ZeroDuration()) {
    time = absl::StrCat(absl::FormatDuration(absl::Floor(
                            transport::SpinThatPays(), absl::Microseconds(1))),
                        ", which suits this machine,");
  }
  log_(protocol::LogLevel::kInfo,
       absl::StrCat("reactors poll for up to ", time,
                    " before they sleep, while there is something to do that "
                    "soon"));
}

absl::Status Daemon::AddTarget(const TargetConfig& config) {
  std::shared_ptr<scsi::Target> target = scsi::Target::Create(config.name);
  for (const LunConfig& lun : config.luns) {
    absl::StatusOr<std::unique_ptr<scsi::Backend>> medium = OpenMedium(lun);
    if (!medium.ok()) return At(lun.where, medium.status());
    if (log_ != nullptr) {
      log_(protocol::LogLevel::kInfo,
           absl::StrCat(config.name, " LUN ", lun.options.lun, ": ",
                        (*medium)->info().description, ", ",
                        FormatSize((*medium)->info().size_bytes)));
    }
    const absl::Status status =
        target->AddLogicalUnit(*std::move(medium), lun.options);
    if (!status.ok()) return At(lun.where, status);
  }
  const absl::Status status =
      server_->AddTarget(std::move(target), config.alias);
  if (!status.ok()) return At(config.where, status);
  target_names_.push_back(config.name);
  return absl::OkStatus();
}

Daemon::~Daemon() {
  if (server_ != nullptr && !shut_down_) {
    std::promise<void> done;
    server_->Shutdown(absl::ZeroDuration(), [&done] { done.set_value(); });
    done.get_future().wait();
  }
  // Nothing runs on the reactors while what lives on them goes.
  if (threads_ != nullptr) threads_->Stop();
}

std::string Daemon::ReadyLine() const {
  std::string line = "ready";
  for (const transport::Address& portal : portals_) {
    absl::StrAppend(&line, " portal=", portal.ToString());
  }
  for (const std::string& name : target_names_) {
    absl::StrAppend(&line, " target=", name);
  }
  return line;
}

void Daemon::Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done) {
  shut_down_ = true;
  server_->Shutdown(grace, std::move(done));
}

void Daemon::PrintSessions() {
  server_->ListSessions([](const std::vector<protocol::SessionInfo>& sessions) {
    for (const std::string& line : SessionTable(sessions)) {
      LogToStderr(protocol::LogLevel::kInfo, line);
    }
  });
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
    AddConnection(s.connection, &lines);
  }
  return lines;
}

}  // namespace skiff::tools::skiffd
