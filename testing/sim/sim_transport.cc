#include "testing/sim/sim_transport.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/sim/sim_connect.h"

namespace skiff::testing {

using transport::Address;
using transport::ConnectOptions;
using transport::ListenOptions;

// Where SYNs, or connection manager requests, go.
class SimAcceptor {
 public:
  virtual ~SimAcceptor() = default;
  virtual void Incoming(std::shared_ptr<SimHandshake> handshake) = 0;
};

namespace {

// The default kind is a stream.
absl::StatusOr<bool> WantsRdma(const Address& address) {
  bool rdma = false;
  for (const auto& [key, value] : address.options) {
    if (key != "kind" || (value != "stream" && value != "rdma")) {
      return absl::InvalidArgumentError(
          absl::StrCat(address.ToString(), ": option ", key, "=", value,
                       " is unknown; sim has kind=stream and kind=rdma"));
    }
    rdma = value == "rdma";
  }
  return rdma;
}

std::string AcceptorKey(bool rdma, const Address& address) {
  return absl::StrCat(rdma ? "rdma " : "stream ", address.HostPort());
}

class SimListener final : public transport::Listener, private SimAcceptor {
 public:
  SimListener(SimReactor* reactor, Address address, bool rdma, int backlog,
              std::shared_ptr<SimDomain> domain, SimDefect defect,
              transport::AcceptCallback on_request)
      : reactor_(reactor),
        address_(std::move(address)),
        defect_(defect),
        key_(AcceptorKey(rdma, address_)),
        rdma_(rdma),
        backlog_(backlog),
        domain_(std::move(domain)),
        on_request_(std::make_shared<transport::AcceptCallback>(
            std::move(on_request))) {}
  ~SimListener() override {
    if (registered_) reactor_->world()->network().RemoveAcceptor(key_);
  }

  bool Register() {
    return registered_ = reactor_->world()->network().AddAcceptor(key_, this);
  }
  Address address() const override {
    Address address = address_;
    if (defect_ == SimDefect::kWrongListenScheme) address.scheme = "tcp";
    return address;
  }

 private:
  void Incoming(std::shared_ptr<SimHandshake> handshake) override {
    if (*pending_ >= backlog_) {
      // TCP drops the SYN; a connection manager says that it is busy.
      if (rdma_) {
        SendVerdict(handshake,
                    absl::UnavailableError("the listener's backlog is full"));
      }
      return;
    }
    // TCP connects before anyone accepts.
    if (!rdma_) SendVerdict(handshake, absl::OkStatus());
    auto request = std::make_unique<SimRequest>(
        std::make_unique<SimPending>(std::move(handshake), domain_, pending_));
    std::weak_ptr<transport::AcceptCallback> weak = on_request_;
    reactor_->Post([weak, request = std::move(request)]() mutable {
      if (auto on_request = weak.lock()) (*on_request)(std::move(request));
    });
  }

  SimReactor* const reactor_;
  const Address address_;
  const SimDefect defect_;
  const std::string key_;
  const bool rdma_;
  const int backlog_;
  const std::shared_ptr<SimDomain> domain_;
  const std::shared_ptr<transport::AcceptCallback> on_request_;
  const std::shared_ptr<int> pending_ = std::make_shared<int>(0);
  bool registered_ = false;
};

class SimTransport final : public transport::Transport {
 public:
  SimTransport(SimWorld* world, const SimTransportOptions& options)
      : world_(world), options_(options) {}

  absl::string_view scheme() const override { return "sim"; }
  transport::Capabilities capabilities() const override {
    return options_.rdma.transport_capabilities.value_or(
        options_.rdma.capabilities);
  }
  std::vector<transport::DeviceReport> Devices() const override {
    if (options_.defect == SimDefect::kNoDevices) return {};
    transport::DeviceReport report;
    report.name = "sim0";
    report.detail = absl::StrCat("simulated, seed ", world_->seed());
    report.usable = true;
    report.capabilities = options_.rdma.capabilities;
    return {report};
  }
  absl::Status CheckAddress(const Address& address) const override {
    if (options_.defect == SimDefect::kUncheckedAddress) {
      return absl::OkStatus();
    }
    return WantsRdma(address).status();
  }

  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      transport::Reactor* reactor, const Address& address,
      const ListenOptions& options,
      transport::AcceptCallback on_request) override;
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      transport::Reactor* reactor, const Address& address,
      const ConnectOptions& options, transport::ConnectCallback done) override;
  absl::StatusOr<std::unique_ptr<transport::ByteStream>> Adopt(
      transport::Reactor* reactor, int descriptor, std::string unread) override;

 private:
  absl::StatusOr<SimReactor*> Check(transport::Reactor* reactor) const;
  std::shared_ptr<SimDomain> DomainOf(const std::string& host);

  SimWorld* const world_;
  const SimTransportOptions options_;
  std::map<std::string, std::shared_ptr<SimDomain>> domains_;
};

absl::StatusOr<std::unique_ptr<transport::ByteStream>> SimTransport::Adopt(
    transport::Reactor* reactor, int descriptor, std::string unread) {
  const absl::StatusOr<SimReactor*> home = Check(reactor);
  if (!home.ok()) return home.status();
  SimWorld::KeptStream kept = world_->TakeKept(descriptor);
  if (kept.wire == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(descriptor, " is no descriptor of a sim stream"));
  }
  return std::make_unique<SimStream>(*home, std::move(kept.wire), kept.side,
                                     transport::AcceptOptions(),
                                     std::move(unread));
}

absl::StatusOr<SimReactor*> SimTransport::Check(
    transport::Reactor* reactor) const {
  auto* sim_reactor = dynamic_cast<SimReactor*>(reactor);
  if (sim_reactor == nullptr || sim_reactor->world() != world_) {
    return absl::InvalidArgumentError(
        "the sim transport needs a SimReactor of its own world");
  }
  return sim_reactor;
}

std::shared_ptr<SimDomain> SimTransport::DomainOf(const std::string& host) {
  std::shared_ptr<SimDomain>& domain = domains_[host];
  if (domain == nullptr || domain->removed()) {
    domain = std::make_shared<SimDomain>(
        world_, host, options_.rdma.capabilities,
        options_.rdma.zero_based_addresses, options_.rdma.lockable_bytes);
  }
  return domain;
}

absl::StatusOr<std::unique_ptr<transport::Listener>> SimTransport::Listen(
    transport::Reactor* reactor, const Address& address,
    const ListenOptions& options, transport::AcceptCallback on_request) {
  auto sim_reactor = Check(reactor);
  if (!sim_reactor.ok()) return sim_reactor.status();
  auto rdma = WantsRdma(address);
  if (!rdma.ok()) return rdma.status();
  absl::Status status = transport::CheckListen(address, options);
  if (!status.ok()) return status;
  Address bound = address;
  if (bound.port == 0) bound.port = world_->network().AllocatePort(bound.host);
  auto listener = std::make_unique<SimListener>(
      *sim_reactor, bound, *rdma, options.backlog, DomainOf(bound.host),
      options_.defect, std::move(on_request));
  if (!listener->Register()) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     ": Address already in use - is another target running "
                     "on this port?"));
  }
  return listener;
}

absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>>
SimTransport::Connect(transport::Reactor* reactor, const Address& address,
                      const ConnectOptions& options,
                      transport::ConnectCallback done) {
  auto sim_reactor = Check(reactor);
  if (!sim_reactor.ok()) return sim_reactor.status();
  auto rdma = WantsRdma(address);
  if (!rdma.ok()) return rdma.status();
  absl::Status status = transport::CheckConnect(address, options);
  if (!status.ok()) return status;

  const std::string host = (*sim_reactor)->host();
  auto handshake = std::make_shared<SimHandshake>();
  handshake->local_address =
      absl::StrCat(host, ":", world_->network().AllocatePort(host));
  handshake->peer_address = address.HostPort();
  if (*rdma) {
    handshake->rdma = SimRdmaWire::Create(
        world_,
        {host,
         handshake->local_address,
         DomainOf(host),
         {},
         options.read_depth},
        {address.host, handshake->peer_address, nullptr, {}, 0}, options_.rdma,
        options_.defect);
  } else {
    handshake->stream = SimStreamWire::Create(
        world_, {host, handshake->local_address},
        {address.host, handshake->peer_address}, options_.defect);
  }
  // Without the handshake's own reference to itself.
  std::weak_ptr<SimHandshake> weak = handshake;
  auto send_request = [world = world_, weak,
                       key = AcceptorKey(*rdma, address)] {
    auto handshake = weak.lock();
    handshake->pipe(0).Send(0, [world, handshake, key] {
      if (handshake->attempt == nullptr) return;
      if (SimAcceptor* acceptor = world->network().FindAcceptor(key)) {
        acceptor->Incoming(handshake);
      } else {
        SendVerdict(handshake,
                    absl::UnavailableError("Connection refused - is a target "
                                           "listening there?"));
      }
    });
  };
  return std::make_unique<SimConnectAttempt>(
      *sim_reactor, address, options, std::move(handshake),
      std::move(send_request), std::move(done));
}

}  // namespace

std::unique_ptr<transport::Transport> MakeSimTransport(
    SimWorld* world, const SimTransportOptions& options) {
  return std::make_unique<SimTransport>(world, options);
}

}  // namespace skiff::testing
