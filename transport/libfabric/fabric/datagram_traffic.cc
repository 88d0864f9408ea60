#include "transport/libfabric/fabric/datagram_traffic.h"

#include <rdma/fi_tagged.h>

#include <algorithm>

namespace skiff::transport {
namespace {

constexpr size_t kLeastQueue = 128;

}  // namespace

void DatagramTraffic::Adjust(const FabricDomain& domain, fi_info* info) {
  // Room for the probes; and where the receive queue is also that of the peer's
  // one-sided operations, a short one would stop them.
  info->tx_attr->size = std::max(info->tx_attr->size + 1, kLeastQueue);
  info->rx_attr->size = std::max(info->rx_attr->size + 1, kLeastQueue);
  if (domain.needs_sink()) {
    info->rx_attr->iov_limit =
        std::min<size_t>(info->rx_attr->iov_limit + 1, domain.max_iovecs());
  }
}

ssize_t DatagramTraffic::Issue(fid_ep* endpoint, OperationSlot* slot,
                               const FabricPieces& pieces,
                               uint64_t flags) const {
  const bool send = slot->outcome.kind == OperationKind::kSend;
  fi_msg_tagged message = {};
  message.msg_iov = pieces.iovecs;
  message.desc = pieces.descriptors;
  message.iov_count = pieces.count;
  message.addr = send ? peer_ : FI_ADDR_UNSPEC;
  message.tag = send ? peer_tags_.receive : tags_.receive;
  message.context = &slot->context;
  return send ? fi_tsendmsg(endpoint, &message, FI_COMPLETION | flags)
              : fi_trecvmsg(endpoint, &message, FI_COMPLETION);
}

ssize_t DatagramTraffic::IssueProbe(fid_ep* endpoint, FabricQueuePair* owner,
                                    Probe* probe, const Sge& memory) {
  const bool send = probe == &out_;
  probe->slot.queue_pair = owner;
  const iovec piece = {memory.data, memory.length};
  const auto* region = static_cast<const FabricRegion*>(memory.region);
  void* descriptor = region != nullptr ? region->descriptor() : nullptr;
  fi_msg_tagged message = {};
  message.msg_iov = &piece;
  message.desc = descriptor != nullptr ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = send ? peer_ : FI_ADDR_UNSPEC;
  message.tag = send ? peer_tags_.probe : tags_.probe;
  message.context = &probe->slot.context;
  const ssize_t result = send ? fi_tsendmsg(endpoint, &message, FI_COMPLETION)
                              : fi_trecvmsg(endpoint, &message, FI_COMPLETION);
  probe->under_way = result == 0;
  return result;
}

DatagramTraffic::ProbeReport DatagramTraffic::ProbeDone(
    const OperationSlot* slot) {
  if (slot == &out_.slot) {
    return std::exchange(out_.under_way, false) ? ProbeReport::kSent
                                                : ProbeReport::kOld;
  }
  if (slot == &in_.slot) {
    return std::exchange(in_.under_way, false) ? ProbeReport::kReceived
                                               : ProbeReport::kOld;
  }
  return ProbeReport::kNoProbe;
}

}  // namespace skiff::transport
