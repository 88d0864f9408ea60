#include "transport/auto/auto_transport.h"

#include <cassert>
#include <optional>
#include <utility>

#include "transport/auto/auto_connector.h"
#include "transport/auto/auto_listener.h"
#include "transport/auto/candidates.h"

namespace skiff::transport {
namespace {

class AutoTransport final : public Transport {
 public:
  AutoTransport(const Registry* registry, ChoiceObserver observer,
                const AutoOptions& options)
      : registry_(registry),
        observer_(std::move(observer)),
        options_(options),
        survey_(registry, options.devices_max_age, options.run_survey) {
    assert(observer_ != nullptr);
  }

  absl::string_view scheme() const override { return kAutoScheme; }
  // Of the best transport that is usable now; the endpoint says what it got.
  Capabilities capabilities() const override {
    const std::vector<Candidate> candidates = Rank();
    return candidates.empty() ? Capabilities()
                              : candidates.front().transport->capabilities();
  }
  // Those of the other transports are listed by these.
  std::vector<DeviceReport> Devices() const override { return {}; }
  absl::Status CheckAddress(const Address& address) const override {
    return ParseAutoOptions(address, options_).status();
  }

  std::optional<Address> Only(const Address& address,
                              EndpointKind kind) const override {
    const auto options = ParseAutoOptions(address, options_);
    if (!options.ok() || options->policy != RdmaPolicy::kPrefer) {
      return std::nullopt;
    }
    Address only = address;
    only.options["rdma"] = kind == EndpointKind::kRdma ? "require" : "off";
    return only;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    return AutoListener::Create(*registry_, reactor, address, options_, options,
                                observer_, std::move(on_request));
  }

  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    return AutoConnector::Create(&survey_, reactor, address, options_, options,
                                 observer_, std::move(done));
  }

 private:
  std::vector<Candidate> Rank() const {
    Address any;
    any.scheme = kAutoScheme;
    ChoiceReport unused;
    return RankCandidates(DeviceSurvey::Look(*registry_), any, options_,
                          &unused);
  }

  const Registry* const registry_;
  const ChoiceObserver observer_;
  const AutoOptions options_;
  DeviceSurvey survey_;
};

}  // namespace

std::unique_ptr<Transport> MakeAutoTransport(const Registry* registry,
                                             ChoiceObserver observer,
                                             const AutoOptions& options) {
  return std::make_unique<AutoTransport>(registry, std::move(observer),
                                         options);
}

}  // namespace skiff::transport
