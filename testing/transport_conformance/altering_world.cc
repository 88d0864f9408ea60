#include "testing/transport_conformance/altering_world.h"

#include <algorithm>
#include <utility>

namespace skiff::testing {
namespace {

using transport::Address;
using transport::ConnectCallback;
using transport::ConnectionRequest;
using transport::ConnectOptions;
using transport::Endpoint;
using transport::RdmaEndpoint;
using transport::Reactor;
using Fault = OptionFault;

// What becomes of the options of either side.
void Alter(Fault fault, const transport::Capabilities& limits,
           ConnectOptions* options) {
  std::vector<uint8_t>& data = options->private_data;
  switch (fault) {
    case Fault::kNoPrepare:
      options->prepare = nullptr;
      break;
    case Fault::kNoPrivateDataOf:
      options->private_data_of = nullptr;
      break;
    case Fault::kCutPrivateData:
      if (!data.empty()) data.pop_back();
      break;
    case Fault::kShortenedData:
      data.resize(std::min(data.size(), limits.max_private_data_bytes));
      break;
    case Fault::kNoResources:
      options->resources = nullptr;
      break;
    case Fault::kShortenedQueue:
      options->send_queue =
          std::min(options->send_queue, limits.max_send_queue);
      break;
    case Fault::kNoOnDisconnect:
      options->on_disconnect = nullptr;
      break;
    case Fault::kSecondOnDisconnect:
      options->on_disconnect =
          [told = std::move(options->on_disconnect)](RdmaEndpoint& endpoint) {
            told(endpoint);
            told(endpoint);
          };
      break;
    case Fault::kNone:
    case Fault::kNoAcceptPrepare:
    case Fault::kRenamedError:
    case Fault::kNoRejectData:
      break;
  }
}

class AlteringRequest final : public ConnectionRequest {
 public:
  AlteringRequest(std::unique_ptr<ConnectionRequest> inner, Fault fault,
                  const transport::Capabilities& limits)
      : inner_(std::move(inner)), fault_(fault), limits_(limits) {}

  std::string local_address() const override { return inner_->local_address(); }
  std::string peer_address() const override { return inner_->peer_address(); }
  absl::Span<const uint8_t> private_data() const override {
    return inner_->private_data();
  }
  void Accept(
      Reactor* home, const transport::AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) override {
    transport::AcceptOptions altered = options;
    Alter(fault_, limits_, &altered);
    if (fault_ == Fault::kNoAcceptPrepare) altered.prepare = nullptr;
    inner_->Accept(home, altered, std::move(done));
  }
  void Reject(absl::Span<const uint8_t> private_data) override {
    if (fault_ == Fault::kNoRejectData) private_data = {};
    inner_->Reject(private_data);
  }

 private:
  const std::unique_ptr<ConnectionRequest> inner_;
  const Fault fault_;
  const transport::Capabilities limits_;
};

class AlteringTransport final : public transport::Transport {
 public:
  AlteringTransport(Transport* inner, Fault fault)
      : inner_(inner), fault_(fault) {}

  absl::string_view scheme() const override { return inner_->scheme(); }
  transport::Capabilities capabilities() const override {
    return inner_->capabilities();
  }
  std::vector<transport::DeviceReport> Devices() const override {
    return inner_->Devices();
  }
  absl::Status CheckAddress(const Address& address) const override {
    return inner_->CheckAddress(address);
  }
  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      Reactor* reactor, const Address& address,
      const transport::ListenOptions& options,
      transport::AcceptCallback on_request) override {
    return inner_->Listen(
        reactor, address, options,
        [this, on_request = std::move(on_request)](
            std::unique_ptr<ConnectionRequest> request) mutable {
          on_request(std::make_unique<AlteringRequest>(std::move(request),
                                                       fault_, capabilities()));
        });
  }
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    ConnectOptions altered = options;
    Alter(fault_, capabilities(), &altered);
    if (fault_ != Fault::kRenamedError) {
      return inner_->Connect(reactor, address, altered, std::move(done));
    }
    return inner_->Connect(
        reactor, address, altered,
        [done = std::move(done)](absl::StatusOr<Endpoint> made) mutable {
          if (!made.ok())
            made = absl::FailedPreconditionError("cannot connect");
          done(std::move(made));
        });
  }

 private:
  Transport* const inner_;
  const Fault fault_;
};

class AlteringWorld final : public TransportWorld {
 public:
  AlteringWorld(std::unique_ptr<TransportWorld> inner, Fault fault)
      : inner_(std::move(inner)),
        transports_{{inner_->transport(Side::kConnecting), fault},
                    {inner_->transport(Side::kListening), fault}} {}

  transport::Transport* transport(Side side) override {
    return &transports_[static_cast<size_t>(side)];
  }
  Reactor* reactor(Side side) override { return inner_->reactor(side); }
  Reactor* AddReactor(Side side) override { return inner_->AddReactor(side); }
  Address listen_address() override { return inner_->listen_address(); }
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return inner_->RunUntil(done, limit);
  }
  bool real_time() const override { return inner_->real_time(); }
  absl::Status CutCable() override { return inner_->CutCable(); }
  absl::Status KillPeer() override { return inner_->KillPeer(); }

 private:
  const std::unique_ptr<TransportWorld> inner_;
  AlteringTransport transports_[2];
};

}  // namespace

std::unique_ptr<TransportWorld> MakeAlteringWorld(
    std::unique_ptr<TransportWorld> world, OptionFault fault) {
  return std::make_unique<AlteringWorld>(std::move(world), fault);
}

}  // namespace skiff::testing
