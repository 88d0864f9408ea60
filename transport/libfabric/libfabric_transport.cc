#include "transport/libfabric/libfabric_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/datagram/datagram_connector.h"
#include "transport/libfabric/datagram/datagram_listener.h"
#include "transport/libfabric/fabric/fabric_devices.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/libfabric_library.h"
#include "transport/libfabric/message/message_connector.h"
#include "transport/libfabric/message/message_listener.h"

namespace skiff::transport {
namespace {

class LibfabricTransport final : public Transport {
 public:
  explicit LibfabricTransport(const LibfabricOptions& settings)
      : settings_(settings) {}

  absl::string_view scheme() const override { return "libfabric"; }
  // Of the best device that there is now.
  Capabilities capabilities() const override {
    for (const DeviceReport& report : Devices()) {
      if (report.usable) return report.capabilities;
    }
    Capabilities none;
    none.rdma = true;
    return none;
  }
  std::vector<DeviceReport> Devices() const override {
    return FabricDevices(settings_);
  }
  absl::Status CheckAddress(const Address& address) const override {
    return ParseFabricOptions(address).status();
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    const auto fabric = Prepare(address);
    if (!fabric.ok()) return fabric.status();
    if (UsesDatagrams(*fabric)) {
      return DatagramListener::Create(reactor, address, *fabric, options,
                                      settings_, std::move(on_request));
    }
    return MessageListener::Create(reactor, address, options, settings_,
                                   std::move(on_request));
  }
  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    const auto fabric = Prepare(address);
    if (!fabric.ok()) return fabric.status();
    if (UsesDatagrams(*fabric)) {
      return DatagramConnector::Create(reactor, address, *fabric, options,
                                       settings_, std::move(done));
    }
    return MessageConnector::Create(reactor, address, options, settings_,
                                    std::move(done));
  }

 private:
  static absl::StatusOr<FabricAddressOptions> Prepare(const Address& address) {
    auto options = ParseFabricOptions(address);
    if (!options.ok()) return options;
    const absl::Status loaded = LoadLibfabric();
    if (loaded.ok()) return options;
    return absl::Status(loaded.code(), absl::StrCat(address.ToString(), ": ",
                                                    loaded.message()));
  }

  const LibfabricOptions settings_;
};

}  // namespace

std::unique_ptr<Transport> MakeLibfabricTransport(
    const LibfabricOptions& settings) {
  return std::make_unique<LibfabricTransport>(settings);
}

}  // namespace skiff::transport
