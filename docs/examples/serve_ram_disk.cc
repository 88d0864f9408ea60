// Serves a RAM disk over iSCSI: serve_ram_disk [tcp://HOST:PORT]
#include <csignal>
#include <iostream>
#include <memory>

#include "protocol/target/target_server.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/target/target.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

namespace {

skiff::transport::EpollReactor* running = nullptr;

absl::Status Serve(const char* uri) {
  skiff::transport::Registry registry;
  absl::Status status = registry.Add(skiff::transport::MakeTcpTransport());
  if (!status.ok()) return status;
  auto reactor = skiff::transport::EpollReactor::Create();
  if (!reactor.ok()) return reactor.status();

  auto disk = skiff::scsi::MakeRamBackend({.size_bytes = 64 << 20});
  if (!disk.ok()) return disk.status();
  std::shared_ptr<skiff::scsi::Target> target =
      skiff::scsi::Target::Create("iqn.2026-11.org.example:ram");
  status = target->AddLogicalUnit(*std::move(disk), {});
  if (!status.ok()) return status;

  auto server =
      skiff::protocol::TargetServer::Create(&registry, {reactor->get()}, {});
  if (!server.ok()) return server.status();
  status = (*server)->AddTarget(target);
  if (!status.ok()) return status;
  auto address = skiff::transport::Address::Parse(uri);
  if (!address.ok()) return address.status();
  auto portal = (*server)->Listen(*address);
  if (!portal.ok()) return portal.status();

  std::cout << "serving " << target->name() << " at " << portal->ToString()
            << std::endl;
  running = reactor->get();
  std::signal(SIGTERM, [](int) { running->Stop(); });
  running->Run();  // Until the signal.
  (*server)->Shutdown(absl::Seconds(1), [] { running->Stop(); });
  running->Run();  // Until the last session has ended.
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status =
      Serve(argc > 1 ? argv[1] : "tcp://127.0.0.1:3260");
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
