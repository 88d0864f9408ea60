#include "testing/stack/ways.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_transport.h"
#include "transport/auto/auto_transport.h"

namespace skiff::protocol {
namespace {

using transport::Address;

testing::SimTransportOptions Over(const testing::SimRdmaOptions& fabric) {
  testing::SimTransportOptions options;
  options.rdma = fabric;
  return options;
}

// One kind of the simulated network's endpoints, which may be out of order.
class WayTransport final : public transport::Transport {
 public:
  WayTransport(testing::SimWorld* world, const testing::SimRdmaOptions& fabric,
               std::string scheme, std::string kind, Way* way)
      : sim_(testing::MakeSimTransport(world, Over(fabric))),
        scheme_(std::move(scheme)),
        kind_(std::move(kind)),
        way_(way) {}

  absl::string_view scheme() const override { return scheme_; }
  transport::Capabilities capabilities() const override {
    transport::Capabilities capabilities = sim_->capabilities();
    capabilities.rdma = kind_ == "rdma";
    return capabilities;
  }
  std::vector<transport::DeviceReport> Devices() const override {
    std::vector<transport::DeviceReport> devices = sim_->Devices();
    for (auto& device : devices) device.capabilities = capabilities();
    return devices;
  }
  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      transport::Reactor* /*reactor*/, const Address& /*address*/,
      const transport::ListenOptions& /*options*/,
      transport::AcceptCallback /*on_request*/) override {
    return absl::UnimplementedError("a way to connect");
  }
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      transport::Reactor* reactor, const Address& address,
      const transport::ConnectOptions& options,
      transport::ConnectCallback done) override {
    ++way_->attempts;
    if (!way_->works) return absl::UnavailableError("the cable is pulled");
    Address there = address;
    if (!way_->leads_to.empty()) there.host = way_->leads_to;
    there.scheme = "sim";
    there.options = {{"kind", kind_}};
    transport::ConnectOptions breaking = options;
    breaking.prepare = [way = way_, prepare = options.prepare](
                           transport::RdmaEndpoint& endpoint) {
      absl::Status status = prepare(endpoint);
      way->domain = endpoint.domain();
      if (way->breaks) {
        auto* domain = static_cast<testing::SimDomain*>(endpoint.domain());
        domain->SetRemoved();
        way->removed = domain->shared_from_this();
      }
      return status;
    };
    return sim_->Connect(reactor, there, breaking, std::move(done));
  }

 private:
  const std::unique_ptr<transport::Transport> sim_;
  const std::string scheme_;
  const std::string kind_;
  Way* const way_;
};

}  // namespace

Ways::Ways(SimStack* stack, const testing::SimRdmaOptions& fabric)
    : stack_(stack), fabric_(fabric) {
  const auto listening = stack->server->Listen(
      Address::Parse("sim://server:3260?kind=stream").value());
  EXPECT_TRUE(listening.ok()) << listening.status();
  Add("fast", "rdma", &rdma);
  Add("slow", "stream", &streams);
  transport::AutoOptions options;
  options.run_survey = [](const std::function<void()>& survey) {
    survey();
    return absl::OkStatus();
  };
  EXPECT_TRUE(
      stack->registry
          .Add(transport::MakeAutoTransport(
              &registry_, [](const transport::ChoiceReport&) {}, options))
          .ok());
}

void Ways::Add(const char* scheme, const char* kind, Way* way) {
  EXPECT_TRUE(registry_
                  .Add(std::make_unique<WayTransport>(&stack_->world, fabric_,
                                                      scheme, kind, way))
                  .ok());
}

}  // namespace skiff::protocol
