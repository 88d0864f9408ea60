#include "transport/libfabric/message/message_listener.h"

#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/annotate.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/open_domains.h"
#include "transport/libfabric/message/message_endpoint.h"

namespace skiff::transport {

void RejectGate::Reject(const fi_info& info,
                        absl::Span<const uint8_t> private_data) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (endpoint_ == nullptr) {
    // An endpoint takes the connection over, and closes it.
    fid_ep* raw = nullptr;
    const InfoPtr copy(fi_dupinfo(&info));
    if (copy != nullptr &&
        fi_endpoint(domain_->domain(), copy.get(), &raw, nullptr) == 0) {
      fi_close(&raw->fid);
    }
    return;
  }
  // Providers check the size too late, or not at all. The call fails if the
  // peer is gone, which is as good.
  const size_t size = std::min(private_data.size(),
                               domain_->capabilities().max_private_data_bytes);
  fi_reject(endpoint_, info.handle, size == 0 ? nullptr : private_data.data(),
            size);
}

void RejectGate::Release(const fi_info& info) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Providers leave the request to fi_reject() until fi_accept(), but this one
  // frees it with the endpoint (sock_ep_close() in libfabric 1.17).
  const bool freed = domain_->provider() == "sockets";
  if (endpoint_ != nullptr && !freed) {
    fi_reject(endpoint_, info.handle, nullptr, 0);
  }
}

void RejectGate::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  endpoint_ = nullptr;
}

namespace {

std::string AddressOf(const fi_info& info, bool local) {
  const void* address = local ? info.src_addr : info.dest_addr;
  if (address == nullptr) return "unknown";
  return FabricAddressText(info.addr_format, address,
                           local ? info.src_addrlen : info.dest_addrlen);
}

class PendingMessages final : public PendingConnection {
 public:
  PendingMessages(std::shared_ptr<RejectGate> gate,
                  std::shared_ptr<FabricDomain> domain, InfoPtr info)
      : gate_(std::move(gate)),
        domain_(std::move(domain)),
        info_(std::move(info)) {}

  absl::StatusOr<std::unique_ptr<FabricEndpoint>> Accept(
      Reactor* home, const AcceptOptions& options, Outcome outcome) override {
    bool opened = false;
    auto made = MakeConnectable(domain_, *info_, home, options, &opened);
    if (!made.ok()) {
      if (opened) {
        gate_->Release(*info_);
      } else {
        gate_->Reject(*info_, {});
      }
      return made.status();
    }
    link_ = made->link;
    absl::Status status = link_->Accept(made->private_data, std::move(outcome));
    if (!status.ok()) return status;
    return std::move(made->endpoint);
  }
  std::string AcceptedAt() const override { return link_->LocalAddress(); }
  void Reject(absl::Span<const uint8_t> data) override {
    gate_->Reject(*info_, data);
  }

 private:
  const std::shared_ptr<RejectGate> gate_;
  const std::shared_ptr<FabricDomain> domain_;
  const InfoPtr info_;
  MessageLink* link_ = nullptr;
};

uint16_t PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MessageListener>> MessageListener::Create(
    Reactor* reactor, const Address& address, const ListenOptions& options,
    const LibfabricOptions& settings, AcceptCallback on_request) {
  auto parsed = ParseFabricOptions(address);
  if (!parsed.ok()) return parsed.status();
  absl::Status status = CheckListen(address, options);
  if (!status.ok()) return status;
  auto info = FabricQuery(address, *parsed, /*listen=*/true);
  if (!info.ok()) return info.status();
  std::unique_ptr<MessageListener> out(
      new MessageListener(address, options, settings, std::move(on_request)));
  status = out->Listen(reactor, *std::move(info));
  if (!status.ok()) {
    return Annotate(status,
                    absl::StrCat("cannot listen on ", address.ToString()));
  }
  return out;
}

absl::Status MessageListener::Listen(Reactor* reactor, InfoPtr info) {
  info_ = std::move(info);
  auto domain = DomainFor(*info_, settings_);
  if (!domain.ok()) return domain.status();
  domain_ = *std::move(domain);
  auto events = FabricEventQueue::Create(reactor, domain_);
  if (!events.ok()) return events.status();
  events_ = *std::move(events);
  fid_pep* raw = nullptr;
  int result = fi_passive_ep(domain_->fabric(), info_.get(), &raw, nullptr);
  if (result != 0) return FabricStatus(result, "fi_passive_ep");
  endpoint_.reset(raw);
  gate_ = std::make_shared<RejectGate>(domain_, raw);
  events_->Add(&raw->fid, this);
  result = fi_pep_bind(raw, &events_->handle()->fid, 0);
  if (result == 0) result = fi_listen(raw);
  if (result != 0) return FabricStatus(result, "fi_listen");
  sockaddr_storage bound = {};
  size_t length = sizeof(bound);
  result = fi_getname(&raw->fid, &bound, &length);
  if (result != 0) return FabricStatus(result, "fi_getname");
  address_.port = PortOf(bound);
  return absl::OkStatus();
}

MessageListener::~MessageListener() {
  if (endpoint_ == nullptr) return;
  // Requests that have come, and that nobody has seen.
  on_request_ = nullptr;
  events_->Drain();
  events_->Remove(&endpoint_->fid);
  const OpenRequests open = std::exchange(*open_, {});
  for (OpenRequest* request : open) request->OnListenerGone();
  gate_->Close();
}

// A listener on all addresses gets requests on any device. The sockets provider
// leaves names out.
absl::StatusOr<std::shared_ptr<FabricDomain>> MessageListener::DomainOf(
    const fi_info& info) const {
  const char* name = info.domain_attr->name;
  if (name == nullptr || info.fabric_attr->prov_name == nullptr ||
      info.fabric_attr->name == nullptr) {
    return domain_;
  }
  // A device that came back under its name has another domain.
  if (domain_->device() == name && !domain_->removed()) return domain_;
  return DomainFor(info, settings_);
}

void MessageListener::OnEvent(uint32_t event, InfoPtr info,
                              absl::Span<const uint8_t> data) {
  if (event != FI_CONNREQ || info == nullptr) return;
  // The provider's own backlog cannot be set everywhere, so requests that
  // nobody answers are counted here.
  if (!on_request_ || open_->size() >= static_cast<size_t>(options_.backlog)) {
    gate_->Reject(*info, {});
    return;
  }
  auto domain = DomainOf(*info);
  if (!domain.ok()) {
    gate_->Reject(*info, {});
    return;
  }
  const std::string local = AddressOf(*info, /*local=*/true);
  const std::string peer = AddressOf(*info, /*local=*/false);
  auto pending = std::make_unique<PendingMessages>(gate_, *std::move(domain),
                                                   std::move(info));
  pending->private_data.assign(data.begin(), data.end());
  pending->local_address = local;
  pending->peer_address = peer;
  on_request_(MakeFabricRequest(std::move(pending), open_));
}

void MessageListener::OnError(int error, const std::string& text,
                              absl::Span<const uint8_t> /*data*/) {
  if (error != FI_ENODEV) return;
  domain_->SetRemoved();
  if (!options_.on_failure) return;
  options_.on_failure(
      FabricStatus(error, absl::StrCat(address_.ToString(), " (", text, ")")));
}

}  // namespace skiff::transport
