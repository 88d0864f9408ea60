#include "transport/libfabric/datagram/datagram_listener.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/datagram/datagram_connector.h"
#include "transport/libfabric/datagram/datagram_link.h"
#include "transport/libfabric/fabric/endpoint_setup.h"
#include "transport/tcp/socket_options.h"

namespace skiff::transport {
namespace {

void SendRejection(ControlStream* control, const HandshakeMessage& request,
                   const std::string& why,
                   absl::Span<const uint8_t> private_data) {
  HandshakeMessage message;
  message.type = HandshakeType::kReject;
  message.to = request.from;
  message.from = request.from;  // There is no other end.
  message.text = why;
  const size_t size = std::min(private_data.size(), kMaxHandshakePrivateData);
  message.private_data.assign(private_data.begin(),
                              private_data.begin() + size);
  control->Send(message);
}

class PendingDatagrams final : public PendingConnection {
 public:
  PendingDatagrams(FabricAddressOptions fabric,
                   const LibfabricOptions& settings, HandshakeMessage request,
                   std::unique_ptr<ControlStream> control)
      : fabric_(std::move(fabric)),
        settings_(settings),
        request_(std::move(request)),
        control_(std::move(control)) {
    private_data = request_.private_data;
    local_address = control_->local_address();
    peer_address = control_->peer_address();
  }

  void LeaveReactor() override {
    socket_ = control_->Release();
    control_.reset();
  }

  absl::StatusOr<std::unique_ptr<FabricEndpoint>> Accept(
      Reactor* home, const AcceptOptions& options, Outcome outcome) override {
    absl::Status status = SetConnectionOptions(socket_.get(), options);
    if (!status.ok()) return status;
    auto control = ControlStream::Create(home, std::move(socket_));
    if (!control.ok()) return control.status();
    auto made = MakeDatagramEndpoint(fabric_, *std::move(control), home,
                                     options, settings_);
    if (!made.ok()) return made.status();
    status =
        made->link->Accept(request_, made->private_data, std::move(outcome));
    if (!status.ok()) return status;
    return std::move(made->endpoint);
  }
  std::string AcceptedAt() const override { return local_address; }
  void Reject(absl::Span<const uint8_t> data) override {
    SendRejection(control_.get(), request_, "", data);
  }

 private:
  const FabricAddressOptions fabric_;
  const LibfabricOptions settings_;
  const HandshakeMessage request_;
  std::unique_ptr<ControlStream> control_;  // On the listener's reactor.
  ScopedFd socket_;                         // Between reactors.
};

}  // namespace

// Who has connected and not yet said anything.
class DatagramListener::Guest final : private ControlStream::Handler {
 public:
  Guest(DatagramListener* listener, std::unique_ptr<ControlStream> control)
      : listener_(listener),
        control_(std::move(control)),
        timer_(listener->reactor_, [this] { listener_->Remove(this); }) {
    timer_.ScheduleAfter(listener->settings_.greeting_limit);
    control_->SetHandler(this);
  }

  std::unique_ptr<ControlStream> TakeControl() {
    control_->SetHandler(nullptr);
    return std::move(control_);
  }

 private:
  void OnMessage(const HandshakeMessage& message) override {
    listener_->OnGreeting(this, message);
  }
  void OnEnd(const absl::Status& /*why*/) override { listener_->Remove(this); }

  DatagramListener* const listener_;
  std::unique_ptr<ControlStream> control_;
  Timer timer_;
};

absl::StatusOr<std::unique_ptr<DatagramListener>> DatagramListener::Create(
    Reactor* reactor, const Address& address,
    const FabricAddressOptions& fabric, const ListenOptions& options,
    const LibfabricOptions& settings, AcceptCallback on_request) {
  std::unique_ptr<DatagramListener> out(new DatagramListener(
      reactor, address, fabric, options, settings, std::move(on_request)));
  Address tcp = address;
  tcp.scheme = "tcp";
  tcp.options.clear();
  auto listener = TcpListener::Create(reactor, tcp, options, settings.tcp,
                                      [self = out.get()](auto request) {
                                        self->OnConnection(std::move(request));
                                      });
  if (!listener.ok()) return listener.status();
  out->tcp_ = *std::move(listener);
  out->address_.port = out->tcp_->address().port;
  return out;
}

DatagramListener::DatagramListener(Reactor* reactor, Address address,
                                   FabricAddressOptions fabric,
                                   const ListenOptions& options,
                                   const LibfabricOptions& settings,
                                   AcceptCallback on_request)
    : reactor_(reactor),
      address_(std::move(address)),
      fabric_(std::move(fabric)),
      options_(options),
      settings_(settings),
      on_request_(std::move(on_request)) {}

DatagramListener::~DatagramListener() {
  *alive_ = false;
  const OpenRequests open = std::exchange(*open_, {});
  for (OpenRequest* request : open) request->OnListenerGone();
}

void DatagramListener::OnConnection(
    std::unique_ptr<ConnectionRequest> request) {
  if (unanswered() >= static_cast<size_t>(options_.backlog)) {
    // The oldest that has not said anything gives way.
    if (guests_.empty()) return request->Reject({});
    Remove(guests_.front().get());
  }
  ++coming_;
  request->Accept(reactor_, {}, [this, alive = alive_](auto stream) {
    if (*alive) OnStream(std::move(stream));
  });
}

void DatagramListener::OnStream(absl::StatusOr<Endpoint> stream) {
  --coming_;
  // The peer is gone, or the process out of descriptors; the peer sees it.
  if (!stream.ok()) return;
  std::unique_ptr<ByteStream> bytes =
      std::get<std::unique_ptr<ByteStream>>(*std::move(stream));
  // What TcpListener makes.
  guests_.push_back(std::make_unique<Guest>(
      this, std::make_unique<ControlStream>(std::unique_ptr<TcpStream>(
                static_cast<TcpStream*>(bytes.release())))));
}

std::unique_ptr<DatagramListener::Guest> DatagramListener::Remove(
    Guest* guest) {
  const auto found =
      std::find_if(guests_.begin(), guests_.end(),
                   [&](const auto& known) { return known.get() == guest; });
  std::unique_ptr<Guest> out = std::move(*found);
  guests_.erase(found);
  return out;
}

void DatagramListener::OnGreeting(Guest* guest,
                                  const HandshakeMessage& message) {
  const std::unique_ptr<Guest> owned = Remove(guest);
  std::unique_ptr<ControlStream> control = owned->TakeControl();
  if (message.type != HandshakeType::kConnect) return;
  if (message.text != fabric_.provider) {
    SendRejection(control.get(), message,
                  absl::StrCat("the provider here is ", fabric_.provider,
                               ", not ", message.text),
                  {});
    return;
  }
  on_request_(
      MakeFabricRequest(std::make_unique<PendingDatagrams>(
                            fabric_, settings_, message, std::move(control)),
                        open_));
}

}  // namespace skiff::transport
