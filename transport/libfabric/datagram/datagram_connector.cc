#include "transport/libfabric/datagram/datagram_connector.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/endpoint_setup.h"
#include "transport/libfabric/fabric/open_domains.h"

namespace skiff::transport {
namespace {

// Of "host:port", without brackets.
std::string HostOf(const std::string& address) {
  const auto parsed = Address::Parse(absl::StrCat("tcp://", address));
  return parsed.ok() ? parsed->host : address;
}

}  // namespace

absl::StatusOr<DatagramEndpoint> MakeDatagramEndpoint(
    const FabricAddressOptions& fabric, std::unique_ptr<ControlStream> control,
    Reactor* reactor, const ConnectOptions& options,
    const LibfabricOptions& settings) {
  auto info = DatagramQuery(fabric, HostOf(control->local_address()));
  if (!info.ok()) return info.status();
  auto domain = DomainFor(**info, settings);
  if (!domain.ok()) return domain.status();
  auto endpoint = MakeEndpoint(*domain, reactor, options);
  if (!endpoint.ok()) return endpoint.status();
  DatagramEndpoint out;
  out.endpoint = *std::move(endpoint);
  auto link = DatagramLink::Open(out.endpoint->queue_pair(), **info, reactor,
                                 std::move(control));
  if (!link.ok()) return link.status();
  out.link = *link;
  auto private_data = PrepareEndpoint(*out.endpoint, options);
  if (!private_data.ok()) return private_data.status();
  out.private_data = *std::move(private_data);
  return out;
}

absl::StatusOr<std::unique_ptr<DatagramConnector>> DatagramConnector::Create(
    Reactor* reactor, const Address& address,
    const FabricAddressOptions& fabric, const ConnectOptions& options,
    const LibfabricOptions& settings, ConnectCallback done) {
  std::unique_ptr<DatagramConnector> out(new DatagramConnector(
      reactor, address, fabric, options, settings, std::move(done)));
  Address tcp = address;
  tcp.scheme = "tcp";
  tcp.options.clear();
  auto started = TcpConnector::Create(
      reactor, tcp, options,
      [self = out.get()](auto stream) { self->OnStream(std::move(stream)); });
  if (!started.ok()) return started.status();
  out->tcp_ = *std::move(started);
  out->StartTimer();
  return out;
}

DatagramConnector::DatagramConnector(Reactor* reactor, Address address,
                                     FabricAddressOptions fabric,
                                     const ConnectOptions& options,
                                     const LibfabricOptions& settings,
                                     ConnectCallback done)
    : Connector(reactor, std::move(address), options, std::move(done)),
      fabric_(std::move(fabric)),
      settings_(settings) {}

void DatagramConnector::OnTimer() {
  GiveUp(absl::DeadlineExceededError(absl::StrCat(
      "no connection within ", absl::FormatDuration(options_.timeout),
      link_ == nullptr ? " - is the address right, does a firewall drop "
                         "packets?"
                       : ": the peer did not accept, or the fabric carries "
                         "nothing between the two ends")));
}

void DatagramConnector::OnStream(absl::StatusOr<Endpoint> stream) {
  if (!stream.ok()) {
    GiveUp(stream.status());
    return;
  }
  std::unique_ptr<ByteStream> bytes =
      std::get<std::unique_ptr<ByteStream>>(*std::move(stream));
  // What TcpConnector makes.
  auto control = std::make_unique<ControlStream>(
      std::unique_ptr<TcpStream>(static_cast<TcpStream*>(bytes.release())));
  const absl::Status status = Start(std::move(control));
  if (!status.ok()) GiveUp(status);
}

absl::Status DatagramConnector::Start(std::unique_ptr<ControlStream> control) {
  auto made = MakeDatagramEndpoint(fabric_, std::move(control), reactor_,
                                   options_, settings_);
  if (!made.ok()) return made.status();
  endpoint_ = std::move(made->endpoint);
  link_ = made->link;
  return link_->Connect(made->private_data, [this](auto outcome) {
    OnOutcome(std::move(outcome));
  });
}

void DatagramConnector::OnOutcome(
    absl::StatusOr<std::vector<uint8_t>> outcome) {
  if (!outcome.ok()) {
    GiveUp(outcome.status());
    return;
  }
  endpoint_->SetPeer(link_->LocalAddress(), link_->PeerAddress(),
                     *std::move(outcome));
  endpoint_->queue_pair()->Connected();
  Finish(Endpoint(std::unique_ptr<RdmaEndpoint>(std::move(endpoint_))));
}

void DatagramConnector::GiveUp(const absl::Status& why) {
  endpoint_.reset();
  tcp_.reset();
  Fail(why);
}

}  // namespace skiff::transport
