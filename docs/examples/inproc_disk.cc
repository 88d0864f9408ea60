// Serves a disk over the transport of this folder and uses it, both by Skiff's
// library.
#include <cstdio>
#include <skiff/skiff.hpp>
#include <string>

#include "inproc_transport.h"
#include "tools/library/own_transport.h"

namespace {

constexpr char kName[] = "iqn.2026-11.org.example:inproc";

skiff::Status Run() {
  const skiff_own_transport own =
      skiff::library::OwnTransport<example::MakeInprocTransport>();
  skiff::ContextOptions options;
  options.threads = 2;
  options.transports = &own;
  options.transport_count = 1;
  auto context = skiff::Context::Create(options);
  if (!context.ok()) return context.status();

  auto medium =
      skiff::RamBackend::Create(*context, skiff::RamOptions(1 << 20)).value();
  auto target = skiff::Target::Create(*context, kName).value();
  auto server = skiff::Server::Create(*context).value();
  skiff::Status status = target.AddLun(0, medium);
  if (status.ok()) status = server.AddTarget(target);
  const auto portal = server.Listen("inproc://disk:3260");
  if (status.ok()) status = portal.status();
  if (!status.ok()) return status;

  const std::string url =
      std::string("iscsi://disk:3260/") + kName + "/0?transport=inproc";
  auto disk = skiff::Disk::Open(*context, url.c_str());
  if (!disk.ok()) return disk.status();
  const std::string written(4096, 'i');
  std::string read(written.size(), ' ');
  status = disk->Write(0, written);
  if (status.ok()) status = disk->Read(0, read);
  if (status.ok()) puts(read == written ? "inproc_disk: done" : "other bytes");
  return status;
}

}  // namespace

int main() {
  const skiff::Status status = Run();
  if (!status.ok()) fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
