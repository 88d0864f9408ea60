#include "testing/transport_conformance/sim_factory.h"

#include "testing/sim/sim_network.h"
#include "testing/sim/sim_transport.h"
#include "testing/sim/sim_world.h"
#include "testing/transport_conformance/expected_capabilities.h"

namespace skiff::testing {
namespace {

constexpr char kClient[] = "client";
constexpr char kServer[] = "server";

class SimTransportWorld final : public TransportWorld {
 public:
  SimTransportWorld(const SimTransportOptions& options, bool stream)
      : world_(SimWorld::SeedFromEnvironment(1)),
        stream_(stream),
        transport_(MakeSimTransport(&world_, options)),
        reactors_{world_.AddReactor(kClient), world_.AddReactor(kServer)} {}

  transport::Transport* transport(Side /*side*/) override {
    return transport_.get();
  }
  transport::Reactor* reactor(Side side) override {
    return reactors_[static_cast<size_t>(side)];
  }
  transport::Reactor* AddReactor(Side side) override {
    return world_.AddReactor(side == Side::kConnecting ? kClient : kServer);
  }
  transport::Address listen_address() override {
    return transport::Address::Parse(stream_ ? "sim://server:0?kind=stream"
                                             : "sim://server:0?kind=rdma")
        .value();
  }
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return world_.RunUntil([done] { return done(); }, limit);
  }
  absl::Status CutCable() override {
    world_.network().Blackhole(kClient, kServer);
    return absl::OkStatus();
  }

  absl::StatusOr<transport::Address> SilentAddress() override {
    absl::Status cut = CutCable();
    if (!cut.ok()) return cut;
    transport::Address silent = listen_address();
    silent.port = 3260;
    return silent;
  }

  // Its device answers no more; that its memory is gone, nobody can see.
  absl::Status KillPeer() override { return CutCable(); }

 private:
  SimWorld world_;
  const bool stream_;
  const std::unique_ptr<transport::Transport> transport_;
  SimReactor* const reactors_[2];
};

class SimFactory final : public TransportFactory {
 public:
  SimFactory(SimFabric fabric, SimDefect defect) : fabric_(fabric) {
    options_.defect = defect;
    if (fabric == SimFabric::kIwarp) options_.rdma = SimRdmaOptions::Iwarp();
  }

  std::string name() const override {
    switch (fabric_) {
      case SimFabric::kInfiniBand:
        return "sim_infiniband";
      case SimFabric::kIwarp:
        return "sim_iwarp";
      case SimFabric::kStream:
        return "sim_stream";
    }
    return "sim";
  }
  ExpectedCapabilities expected() const override {
    return ExpectedCapabilitiesOf(name());
  }
  ConformanceScale scale() const override {
    ConformanceScale scale;
    scale.messages = 20000;
    scale.operations = 1000;
    scale.patience = absl::Minutes(10);  // Virtual, and so free.
    scale.quiet = absl::Seconds(10);
    return scale;
  }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    return std::make_unique<SimTransportWorld>(options_,
                                               fabric_ == SimFabric::kStream);
  }

 private:
  const SimFabric fabric_;
  SimTransportOptions options_;
};

}  // namespace

std::unique_ptr<TransportFactory> MakeSimFactory(SimFabric fabric,
                                                 SimDefect defect) {
  return std::make_unique<SimFactory>(fabric, defect);
}

}  // namespace skiff::testing
