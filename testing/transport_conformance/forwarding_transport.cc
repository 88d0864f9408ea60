#include "testing/transport_conformance/forwarding_transport.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "testing/transport_conformance/forwarding_stream.h"

namespace skiff::testing {
namespace {

using transport::Address;
using transport::ConnectCallback;
using transport::ConnectionRequest;
using transport::ConnectOptions;
using transport::Endpoint;
using transport::Listener;
using transport::ListeningDescriptor;
using transport::ListenOptions;
using transport::Reactor;
using Fault = ForwardingFault;

// What objects of one transport share.
struct Shared {
  bool Has(Fault wanted) const { return fault == wanted; }
  absl::StatusOr<Endpoint> Wrap(absl::StatusOr<Endpoint> made) const {
    if (!made.ok()) return made;
    return Endpoint(std::make_unique<ForwardingStream>(
        std::get<std::unique_ptr<transport::ByteStream>>(*std::move(made)),
        fault));
  }

  Fault fault;
  std::string inner_scheme;
};

Address WithScheme(Address address, absl::string_view scheme) {
  address.scheme = std::string(scheme);
  return address;
}

class ForwardingRequest final : public ConnectionRequest {
 public:
  ForwardingRequest(std::unique_ptr<ConnectionRequest> inner,
                    std::shared_ptr<Shared> shared)
      : inner_(std::move(inner)), shared_(std::move(shared)) {}
  ~ForwardingRequest() override {
    if (inner_ != nullptr && shared_->Has(Fault::kDroppedStaysOpen)) Keep();
  }

  std::string local_address() const override {
    return shared_->Has(Fault::kNamelessHost) ? "" : inner_->local_address();
  }
  std::string peer_address() const override {
    return shared_->Has(Fault::kNamelessPeer) ? "" : inner_->peer_address();
  }
  absl::Span<const uint8_t> private_data() const override {
    static constexpr uint8_t kChatter[] = {1, 2, 3};
    if (shared_->Has(Fault::kChattyRequest)) return kChatter;
    return inner_->private_data();
  }
  void Accept(
      Reactor* home, const transport::AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) override {
    inner_->Accept(home, options,
                   [shared = shared_, done = std::move(done)](
                       absl::StatusOr<Endpoint> made) mutable {
                     if (shared->Has(Fault::kLostAccept)) return;
                     done(shared->Wrap(std::move(made)));
                   });
  }
  void Reject(absl::Span<const uint8_t> private_data) override {
    if (shared_->Has(Fault::kRejectedStaysOpen)) {
      Keep();
    } else {
      inner_->Reject(private_data);
    }
  }

 private:
  void Keep() { KeepForever(std::move(inner_)); }

  std::unique_ptr<ConnectionRequest> inner_;
  const std::shared_ptr<Shared> shared_;
};

class ForwardingListener final : public Listener {
 public:
  // `inner` may be null: then nobody listens at `address`.
  ForwardingListener(std::unique_ptr<Listener> inner, Address address,
                     std::shared_ptr<Shared> shared)
      : inner_(std::move(inner)),
        address_(std::move(address)),
        shared_(std::move(shared)) {}
  ~ForwardingListener() override {
    if (shared_->Has(Fault::kStillListening)) {
      KeepForever(std::move(inner_));
    }
  }

  Address address() const override {
    Address address = address_;
    if (shared_->Has(Fault::kUnboundPort)) address.port = 0;
    if (shared_->Has(Fault::kWrongListenScheme)) {
      address.scheme = shared_->inner_scheme;
    }
    return address;
  }
  std::vector<Address> addresses() const override {
    if (!shared_->Has(Fault::kWrongListenSchemes)) return {address()};
    return {WithScheme(address(), shared_->inner_scheme)};
  }
  std::vector<ListeningDescriptor> ReleaseDescriptors() override {
    std::vector<ListeningDescriptor> released = inner_->ReleaseDescriptors();
    for (ListeningDescriptor& one : released) {
      one.address = WithScheme(one.address, "fwd");
    }
    return released;
  }

 private:
  std::unique_ptr<Listener> inner_;
  const Address address_;
  const std::shared_ptr<Shared> shared_;
};

class ForwardingTransport final : public transport::Transport {
 public:
  ForwardingTransport(std::unique_ptr<Transport> inner, Fault fault)
      : inner_(std::move(inner)), shared_(std::make_shared<Shared>()) {
    shared_->fault = fault;
    shared_->inner_scheme = std::string(inner_->scheme());
  }

  absl::string_view scheme() const override { return "fwd"; }
  transport::Capabilities capabilities() const override {
    return inner_->capabilities();
  }
  std::vector<transport::DeviceReport> Devices() const override;
  absl::Status CheckAddress(const Address& address) const override;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      transport::AcceptCallback on_request) override;
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override;
  absl::StatusOr<std::unique_ptr<transport::ByteStream>> Adopt(
      Reactor* reactor, int descriptor, std::string unread) override;

 private:
  bool Has(Fault fault) const { return shared_->Has(fault); }
  Address Inner(const Address& address) const {
    return WithScheme(address, shared_->inner_scheme);
  }
  absl::StatusOr<Endpoint> Outcome(absl::StatusOr<Endpoint> made) const;
  ConnectCallback WithFault(Reactor* reactor, ConnectCallback done);
  std::function<int(const Address&)> Inherited(
      const ListenOptions& options) const;

  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<Shared> shared_;
};

std::vector<transport::DeviceReport> ForwardingTransport::Devices() const {
  if (Has(Fault::kNoDevices)) return {};
  std::vector<transport::DeviceReport> devices = inner_->Devices();
  for (transport::DeviceReport& device : devices) {
    if (Has(Fault::kNamelessDevice)) device.name.clear();
    if (Has(Fault::kUnexplainedDevice)) device.usable = false;
  }
  return devices;
}

absl::Status ForwardingTransport::CheckAddress(const Address& address) const {
  if (Has(Fault::kUncheckedAddress)) return absl::OkStatus();
  if (Has(Fault::kStrictAddress)) {
    return absl::InvalidArgumentError("not this address, either");
  }
  return inner_->CheckAddress(Inner(address));
}

// By the inner transport's scheme.
std::function<int(const Address&)> ForwardingTransport::Inherited(
    const ListenOptions& options) const {
  if (options.inherited == nullptr || Has(Fault::kUninherited)) return nullptr;
  return [inherited = options.inherited](const Address& wanted) {
    return inherited(WithScheme(wanted, "fwd"));
  };
}

absl::StatusOr<std::unique_ptr<Listener>> ForwardingTransport::Listen(
    Reactor* reactor, const Address& address, const ListenOptions& options,
    transport::AcceptCallback on_request) {
  Address wanted = Inner(address);
  if (Has(Fault::kUncheckedListen)) wanted.options.clear();
  ListenOptions used = options;
  if (Has(Fault::kBacklogZero)) used.backlog = 1024;
  used.inherited = Inherited(options);
  auto inner =
      inner_->Listen(reactor, wanted, used,
                     [shared = shared_, on_request = std::move(on_request)](
                         std::unique_ptr<ConnectionRequest> request) mutable {
                       on_request(std::make_unique<ForwardingRequest>(
                           std::move(request), shared));
                     });
  if (!inner.ok()) {
    if (Has(Fault::kTakenPort)) {
      return std::make_unique<ForwardingListener>(nullptr, address, shared_);
    }
    if (!Has(Fault::kTerseListenError)) return inner.status();
    return absl::Status(inner.status().code(), "cannot listen");
  }
  if (Has(Fault::kFalseAlarm) && options.on_failure != nullptr) {
    reactor->Post([on_failure = options.on_failure] {
      on_failure(absl::UnavailableError("listening has ended"));
    });
  }
  const Address bound = WithScheme((*inner)->address(), scheme());
  return std::make_unique<ForwardingListener>(*std::move(inner), bound,
                                              shared_);
}

absl::StatusOr<Endpoint> ForwardingTransport::Outcome(
    absl::StatusOr<Endpoint> made) const {
  if (made.ok()) return shared_->Wrap(std::move(made));
  if (Has(Fault::kTerseConnectError)) {
    return absl::Status(made.status().code(), "cannot connect");
  }
  if (Has(Fault::kUnnamedTimeout)) {
    return absl::UnknownError(made.status().message());
  }
  return made;
}

// The callback to be given on.
ConnectCallback ForwardingTransport::WithFault(Reactor* reactor,
                                               ConnectCallback done) {
  auto told = std::make_shared<ConnectCallback>(std::move(done));
  return [this, reactor, told](absl::StatusOr<Endpoint> made) {
    if (Has(Fault::kLostDone)) return;
    (*told)(Outcome(std::move(made)));
    if (!Has(Fault::kSecondDone)) return;
    reactor->Post([told] { (*told)(absl::UnknownError("once more")); });
  };
}

absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>>
ForwardingTransport::Connect(Reactor* reactor, const Address& address,
                             const ConnectOptions& options,
                             ConnectCallback done) {
  Address wanted = Inner(address);
  ConnectOptions used = options;
  if (Has(Fault::kUncheckedConnect)) wanted.options.clear();
  if (Has(Fault::kPortZero) && wanted.port == 0) wanted.port = 9;
  if (Has(Fault::kTimeoutZero)) {
    used.timeout = std::max(used.timeout, absl::Seconds(1));
  }
  if (Has(Fault::kIgnoredTimeout)) used.timeout = absl::Hours(1);
  if (Has(Fault::kNestedDone)) {
    done(absl::UnavailableError("no answer, and that at once"));
    return std::make_unique<transport::ConnectAttempt>();
  }
  auto attempt = inner_->Connect(reactor, wanted, used,
                                 WithFault(reactor, std::move(done)));
  if (!attempt.ok() || !Has(Fault::kDoneAfterCancel)) return attempt;
  KeepForever(*std::move(attempt));
  return std::make_unique<transport::ConnectAttempt>();
}

absl::StatusOr<std::unique_ptr<transport::ByteStream>>
ForwardingTransport::Adopt(Reactor* reactor, int descriptor,
                           std::string unread) {
  if (Has(Fault::kUnreadDropped)) unread.clear();
  auto inner = inner_->Adopt(reactor, descriptor, std::move(unread));
  if (!inner.ok()) return inner.status();
  return std::make_unique<ForwardingStream>(*std::move(inner), shared_->fault);
}

}  // namespace

std::unique_ptr<transport::Transport> MakeForwardingTransport(
    std::unique_ptr<transport::Transport> inner, ForwardingFault fault) {
  return std::make_unique<ForwardingTransport>(std::move(inner), fault);
}

}  // namespace skiff::testing
