#include "bench/protocol/whole_path.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "testing/sim/sim_transport.h"
#include "transport/libfabric/libfabric_transport.h"

namespace skiff::protocol {

WholePath::WholePath(const Options& options)
    : batch_(options.queue_depth, options.bytes) {
  MakeNetwork(options.network);
  const absl::Status started = StartServer(batch_.memory()->size());
  if (started.ok()) {
    LogIn(options);
  } else {
    failure_ = std::string(started.message());
  }
}

WholePath::~WholePath() {
  initiator_.reset();
  if (server_ == nullptr) return;
  bool down = false;
  server_->Shutdown(absl::ZeroDuration(), [&down] { down = true; });
  TurnUntil([&down] { return down; });
}

void WholePath::MakeNetwork(Network network) {
  if (network == Network::kSimulated) {
    world_ = std::make_unique<testing::SimWorld>(1);
    client_reactor_ = world_->AddReactor("client");
    server_reactor_ = world_->AddReactor("server");
    portal_ = transport::Address::Parse("sim://server:3260?kind=rdma").value();
    registry_.Add(testing::MakeSimTransport(world_.get())).IgnoreError();
    return;
  }
  transport::EpollReactorOptions polling;
  polling.spin = absl::InfiniteDuration();
  own_reactor_ = transport::EpollReactor::Create(polling).value();
  client_reactor_ = server_reactor_ = own_reactor_.get();
  portal_ =
      transport::Address::Parse("libfabric://127.0.0.1:0?provider=tcp").value();
  registry_.Add(transport::MakeLibfabricTransport()).IgnoreError();
}

absl::Status WholePath::StartServer(uint64_t disk_bytes) {
  auto server = TargetServer::Create(&registry_, {server_reactor_},
                                     TargetServerOptions());
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  absl::Status added = server_->AddTarget(MakeDisk(disk_bytes));
  if (!added.ok()) return added;
  const auto bound = server_->Listen(portal_);
  if (!bound.ok()) return bound.status();
  portal_ = *bound;
  return absl::OkStatus();
}

void WholePath::LogIn(const Options& options) {
  InitiatorOptions initiator;
  initiator.portal = portal_;
  initiator.target_name = kDiskName;
  initiator.initiator_name = kHostName;
  initiator.offer.immediate_data = options.immediate_data;
  initiator.rdma.lasting_keys = options.lasting_keys;
  std::optional<absl::Status> ready;
  initiator_ = Initiator::Create(
                   &registry_, client_reactor_, initiator,
                   [&ready](absl::Status status) { ready = std::move(status); })
                   .value();
  absl::Status used = initiator_->UseMemory(
      batch_.memory()->data(), batch_.memory()->size(), batch_.memory());
  if (!TurnUntil([&ready] { return ready.has_value(); })) {
    failure_ = "the login takes too long";
    // `ready` is about to go.
    initiator_.reset();
    return;
  }
  used.Update(*ready);
  failure_ = std::string(used.message());
  batch_.PrepareGreeting();
  initiator_->Submit(batch_.command(0));
  TurnUntil([this] { return batch_.finished() == 1; });
}

bool WholePath::TurnUntil(absl::FunctionRef<bool()> done) {
  if (world_ != nullptr) return world_->RunUntil(done);
  const absl::Time limit =
      transport::EpollReactor::MonotonicNow() + absl::Seconds(10);
  while (!done()) {
    own_reactor_->Poll();
    if (own_reactor_->Now() > limit) return false;
  }
  return true;
}

bool WholePath::RunBatch(bool write) {
  if (!failure_.empty()) return false;
  batch_.Prepare(write);
  for (uint32_t i = 0; i < batch_.depth(); ++i) {
    initiator_->Submit(batch_.command(i));
  }
  failure_ = TurnUntil([this] { return batch_.done(); })
                 ? batch_.failure()
                 : "not every command ended";
  return failure_.empty();
}

ConnectionCounters WholePath::TargetCounters() {
  std::optional<std::vector<SessionInfo>> sessions;
  server_->ListSessions([&sessions](std::vector<SessionInfo> found) {
    sessions = std::move(found);
  });
  TurnUntil([&sessions] { return sessions.has_value(); });
  return sessions.value().at(0).connection.counters;
}

}  // namespace skiff::protocol
