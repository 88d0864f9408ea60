// TCP, and the providers of libfabric that need no device.

#include "testing/datamover_conformance/local_stack.h"
#include "testing/datamover_conformance/network.h"
#include "testing/roomy_loopback.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::protocol {
namespace {

Network Libfabric(const std::string& name, const std::string& provider) {
  return {.name = name,
          .data_model = "iSER",
          .transport = "libfabric",
          .device = "libfabric " + provider + " on",
          // Of these, only it is short of eager messages.
          .initial_r2t = provider != "shm",
          .make_stack = [provider](const StackOptions& options) {
            return std::make_unique<LocalStack>(
                "libfabric://127.0.0.1:0?provider=" + provider,
                transport::MakeLibfabricTransport(), options);
          }};
}

}  // namespace

std::vector<Network> Networks() {
  [[maybe_unused]] static const bool kRoomy = testing::EnterRoomyLoopback();
  return {{.name = "Tcp",
           .data_model = "iSCSI",
           .transport = "tcp",
           .device = "",
           .make_stack =
               [](const StackOptions& options) {
                 return std::make_unique<LocalStack>(
                     "tcp://127.0.0.1:0", transport::MakeTcpTransport(),
                     options);
               }},
          Libfabric("Libfabric", "tcp"),
          Libfabric("Sockets", "sockets"),
          // Connections over reliable datagrams.
          Libfabric("SharedMemory", "shm"),
          Libfabric("Rxm", "tcp;ofi_rxm")};
}

uint64_t NumberOfSeeds() { return 1; }

}  // namespace skiff::protocol
