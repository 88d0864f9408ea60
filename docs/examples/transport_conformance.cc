// Tests a transport of one's own with Skiff's conformance suite.
#include <memory>

#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/epoll_world.h"
#include "transport/tcp/tcp_transport.h"

using skiff::testing::EpollWorld;
using skiff::testing::ExpectedCapabilities;
using skiff::testing::TransportFactory;
using skiff::testing::TransportWorld;

class MyFactory : public TransportFactory {
 public:
  std::string name() const override { return "my_transport"; }
  // What your devices have; these are byte streams, which have no more to say.
  ExpectedCapabilities expected() const override { return {}; }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    // Your transport, and where to listen.
    return EpollWorld::Create(skiff::transport::MakeTcpTransport(),
                              "tcp://127.0.0.1:0");
  }
};

int main(int argc, char** argv) {
  skiff::testing::AddTransportFactory(std::make_unique<MyFactory>());
  return skiff::testing::ConformanceMain(argc, argv);
}
