#include "transport/tcp/tcp_transport.h"

#include <memory>
#include <string>
#include <utility>

#include "transport/net/scoped_fd.h"
#include "transport/tcp/socket_options.h"
#include "transport/tcp/tcp_connector.h"
#include "transport/tcp/tcp_devices.h"
#include "transport/tcp/tcp_listener.h"
#include "transport/tcp/tcp_stream.h"

namespace skiff::transport {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpOptions& settings) : settings_(settings) {}

  absl::string_view scheme() const override { return "tcp"; }
  Capabilities capabilities() const override { return TcpCapabilities(); }
  std::vector<DeviceReport> Devices() const override { return TcpDevices(); }
  absl::Status CheckAddress(const Address& address) const override {
    return ParseTcpOptions(address).status();
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    return TcpListener::Create(reactor, address, options, settings_,
                               std::move(on_request));
  }

  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    return TcpConnector::Create(reactor, address, options, std::move(done));
  }

  absl::StatusOr<std::unique_ptr<ByteStream>> Adopt(
      Reactor* reactor, int descriptor, std::string unread) override {
    return TcpStream::Create(reactor, ScopedFd(descriptor), std::move(unread));
  }

 private:
  const TcpOptions settings_;
};

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& settings) {
  return std::make_unique<TcpTransport>(settings);
}

}  // namespace skiff::transport
