#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_CONNECTED_TRAFFIC_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_CONNECTED_TRAFFIC_H_

#include <rdma/fi_endpoint.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "transport/libfabric/fabric/fabric_work.h"
#include "transport/libfabric/fabric/operation_ring.h"

namespace skiff::transport {

// The messages of a connected endpoint (FI_EP_MSG), and the operation of our
// own that it may need. datagram_traffic.h has the other kind of endpoint; a
// queue pair asks the one for its kind.
class ConnectedTraffic {
 public:
  // A SEND or RECEIVE. What libfabric returns.
  template <OperationKind kKind>
  static ssize_t Issue(fid_ep* endpoint, OperationSlot* slot,
                       const FabricPieces& pieces, uint64_t flags) {
    const fi_msg message = {pieces.iovecs,  pieces.descriptors, pieces.count,
                            FI_ADDR_UNSPEC, &slot->context,     0};
    return kKind == OperationKind::kSend
               ? fi_sendmsg(endpoint, &message, FI_COMPLETION | flags)
               : fi_recvmsg(endpoint, &message, FI_COMPLETION);
  }

  // A READ or WRITE of no bytes, which nobody hears of: one at a time. What
  // libfabric returns.
  ssize_t IssueNothing(fid_ep* endpoint, FabricQueuePair* owner,
                       OperationKind kind);
  bool nothing_under_way() const { return under_way_; }
  bool IsNothing(const OperationSlot* slot) const { return slot == &nothing_; }
  // It is over. Which it was; none if it was over before.
  std::optional<OperationKind> NothingDone();

 private:
  OperationSlot nothing_;
  bool under_way_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_CONNECTED_TRAFFIC_H_
