#include "transport/verbs/verbs_transport.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/rdma_core.h"
#include "transport/verbs/verbs_connector.h"
#include "transport/verbs/verbs_devices.h"
#include "transport/verbs/verbs_listener.h"

namespace skiff::transport {
namespace {

class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const VerbsOptions& settings) : settings_(settings) {}

  absl::string_view scheme() const override { return "verbs"; }
  // Of the first device that can be used.
  Capabilities capabilities() const override {
    for (const DeviceReport& report : Devices()) {
      if (report.usable) return report.capabilities;
    }
    Capabilities none;
    none.rdma = true;
    return none;
  }
  std::vector<DeviceReport> Devices() const override { return VerbsDevices(); }
  absl::Status CheckAddress(const Address& address) const override {
    if (address.options.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        address.ToString(), ": option ", address.options.begin()->first,
        " is unknown; verbs has none, the address chooses the device"));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    absl::Status status = Prepare(address);
    if (!status.ok()) return status;
    return VerbsListener::Create(reactor, address, options, settings_,
                                 std::move(on_request));
  }

  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    absl::Status status = Prepare(address);
    if (!status.ok()) return status;
    return VerbsConnector::Create(reactor, address, options, settings_,
                                  std::move(done));
  }

 private:
  absl::Status Prepare(const Address& address) const {
    absl::Status status = CheckAddress(address);
    if (!status.ok()) return status;
    status = LoadRdmaCore();
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(address.ToString(), ": ",
                                                    status.message()));
  }

  const VerbsOptions settings_;
};

}  // namespace

std::unique_ptr<Transport> MakeVerbsTransport(const VerbsOptions& settings) {
  return std::make_unique<VerbsTransport>(settings);
}

}  // namespace skiff::transport
