#include "transport/libfabric/datagram/datagram_objects.h"

#include <rdma/fi_cm.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/shm/shm_peer.h"

namespace skiff::transport {
namespace {

absl::StatusOr<Fid<fid_av>> OpenAddresses(const FabricDomain& domain,
                                          void* context) {
  fi_av_attr attributes = {};
  attributes.type = FI_AV_UNSPEC;
  attributes.count = 1;
  fid_av* raw = nullptr;
  const int result = fi_av_open(domain.domain(), &attributes, &raw, context);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(domain.name(), ": fi_av_open"));
  }
  return Fid<fid_av>(raw);
}

absl::StatusOr<Fid<fid_cntr>> OpenCounter(const FabricDomain& domain,
                                          void* context) {
  fi_cntr_attr attributes = {};
  attributes.events = FI_CNTR_EVENTS_COMP;
  attributes.wait_obj = FI_WAIT_NONE;
  fid_cntr* raw = nullptr;
  const int result = fi_cntr_open(domain.domain(), &attributes, &raw, context);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(domain.name(), ": fi_cntr_open"));
  }
  return Fid<fid_cntr>(raw);
}

// Binds the endpoint to all that it needs, and enables it. Returns what
// libfabric returns.
int Enable(const DatagramObjects& objects, fid_cq* queue) {
  fid_ep* const endpoint = objects.endpoint.get();
  int result = fi_ep_bind(endpoint, &objects.addresses->fid, 0);
  if (result == 0) {
    result = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV);
  }
  if (result == 0 && objects.served != nullptr) {
    result = fi_ep_bind(endpoint, &objects.served->fid,
                        FI_REMOTE_READ | FI_REMOTE_WRITE);
  }
  if (result == 0) result = fi_enable(endpoint);
  return result;
}

}  // namespace

absl::StatusOr<OpenedDatagrams> OpenDatagrams(FabricQueuePair* queue_pair,
                                              const fi_info& info) {
  const FabricDomain& domain = *queue_pair->queue()->domain();
  const InfoPtr adjusted(fi_dupinfo(&info));
  if (adjusted == nullptr) {
    return absl::ResourceExhaustedError("out of memory");
  }
  queue_pair->Adjust(adjusted.get());
  OpenedDatagrams out;
  auto addresses = OpenAddresses(domain, queue_pair);
  if (!addresses.ok()) return addresses.status();
  out.objects.addresses = *std::move(addresses);
  if (domain.forgets_refusals()) {
    auto counter = OpenCounter(domain, queue_pair);
    if (!counter.ok()) return counter.status();
    out.objects.served = *std::move(counter);
  }
  fid_ep* raw = nullptr;
  int result = fi_endpoint(domain.domain(), adjusted.get(), &raw, queue_pair);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(domain.name(), ": fi_endpoint"));
  }
  out.objects.endpoint.reset(raw);
  result = Enable(out.objects, queue_pair->queue()->handle());
  out.address.resize(kMaxHandshakeAddress);
  size_t length = out.address.size();
  if (result == 0) result = fi_getname(&raw->fid, out.address.data(), &length);
  if (result != 0 || length == 0 || length > out.address.size()) {
    return FabricStatus(
        result, absl::StrCat(domain.name(), ": cannot set an endpoint up"));
  }
  out.address.resize(length);
  if (domain.local_only()) {
    out.objects.presence = std::make_unique<ShmPresence>(ShmName(out.address));
  }
  return out;
}

}  // namespace skiff::transport
