#include "testing/transport_conformance/tcp_factory.h"

#include "testing/transport_conformance/epoll_world.h"
#include "testing/transport_conformance/expected_capabilities.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::testing {
namespace {

class TcpFactory final : public TransportFactory {
 public:
  explicit TcpFactory(std::string address) : address_(std::move(address)) {}

  std::string name() const override { return "tcp"; }
  ExpectedCapabilities expected() const override {
    return ExpectedCapabilitiesOf("tcp");
  }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    return EpollWorld::Create(transport::MakeTcpTransport(), address_);
  }

 private:
  const std::string address_;
};

}  // namespace

std::unique_ptr<TransportFactory> MakeTcpFactory(
    const transport::Address* url) {
  return std::make_unique<TcpFactory>(url == nullptr ? "tcp://127.0.0.1:0"
                                                     : url->ToString());
}

}  // namespace skiff::testing
