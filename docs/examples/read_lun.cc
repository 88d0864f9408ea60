// Prints the first block of a LUN: read_lun iscsi://HOST[:PORT]/TARGET/LUN
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "protocol/initiator/initiator.h"
#include "protocol/negotiation/url.h"
#include "scsi/initiator/blocking_disk.h"
#include "scsi/lun.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

namespace {

absl::Status ReadFirstBlock(const char* text) {
  auto url = skiff::protocol::ParseUrl(text);
  if (!url.ok()) return url.status();
  if (!url->user.empty()) return absl::UnimplementedError("no CHAP here");
  skiff::transport::Registry registry;
  absl::Status status = registry.Add(skiff::transport::MakeTcpTransport());
  if (!status.ok()) return status;
  auto reactor = skiff::transport::EpollReactor::Create();
  if (!reactor.ok()) return reactor.status();

  skiff::protocol::InitiatorOptions options;
  options.portal = {"tcp", url->portal.host, url->portal.port, {}};
  options.target_name = url->target;
  absl::Status login = absl::UnknownError("the login has no answer yet");
  auto session = skiff::protocol::Initiator::Create(
      &registry, reactor->get(), options,
      [&](const absl::Status& s) { login = s; });
  if (!session.ok()) return session.status();

  skiff::scsi::DiskOptions disk_options;
  disk_options.lun = skiff::scsi::EncodeLun(url->lun);
  auto disk = skiff::scsi::BlockingDisk::Open(reactor->get(), session->get(),
                                              disk_options);
  if (!disk.ok()) return login.ok() ? disk.status() : login;
  std::vector<char> block((*disk)->info().block_size);
  status = (*disk)->Read(0, block.data(), block.size());
  if (!status.ok()) return status;
  std::cout << absl::BytesToHexString({block.data(), block.size()})
            << std::endl;
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = ReadFirstBlock(argv[1]);
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
