#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DATAGRAM_TRAFFIC_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DATAGRAM_TRAFFIC_H_

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_work.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/shm/shm_presence.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// What an unconnected endpoint (FI_EP_RDM) needs to have one peer: messages are
// tagged, so that only those with the receiver's number are received.
struct DatagramTags {
  uint64_t receive = 0;
  uint64_t probe = 0;
};

// Closed in reverse order.
struct DatagramObjects {
  std::unique_ptr<ShmPresence> presence;  // In shared memory only.
  Fid<fid_av> addresses;
  Fid<fid_cntr> served;  // Counts the peer's one-sided operations; may be null.
  Fid<fid_ep> endpoint;
};

// The messages of an unconnected endpoint, and the probes of our own that show
// that it reaches its peer. connected_traffic.h has the other kind of endpoint;
// a queue pair asks the one for its kind.
class DatagramTraffic {
 public:
  // What else the endpoint of `info` needs, which is for a user's operations.
  static void Adjust(const FabricDomain& domain, fi_info* info);

  // But for the endpoint, which is the queue pair's.
  void Open(const DatagramTags& tags, DatagramObjects objects) {
    tags_ = tags;
    objects_ = std::move(objects);
  }
  DatagramObjects TakeObjects() { return std::move(objects_); }
  void SetPeer(fi_addr_t peer, const DatagramTags& tags) {
    peer_ = peer;
    peer_tags_ = tags;
  }

  // A SEND or RECEIVE. What libfabric returns.
  ssize_t Issue(fid_ep* endpoint, OperationSlot* slot,
                const FabricPieces& pieces, uint64_t flags) const;

  // One probe each way at a time. The memory must last until it is reported, or
  // the endpoint closed. What libfabric returns.
  ssize_t SendProbe(fid_ep* endpoint, FabricQueuePair* owner,
                    const Sge& memory) {
    return IssueProbe(endpoint, owner, &out_, memory);
  }
  ssize_t ReceiveProbe(fid_ep* endpoint, FabricQueuePair* owner,
                       const Sge& memory) {
    return IssueProbe(endpoint, owner, &in_, memory);
  }
  enum class ProbeReport : uint8_t {
    kNoProbe,  // The slot is none's.
    kOld,      // It was over before.
    kSent,
    kReceived,
  };
  // An operation is over.
  ProbeReport ProbeDone(const OperationSlot* slot);

  // Null but in shared memory.
  ShmPresence* presence() const { return objects_.presence.get(); }
  // Operations of the peer that the provider served, where that is counted.
  uint64_t served() const {
    return objects_.served == nullptr ? 0 : fi_cntr_read(objects_.served.get());
  }

 private:
  // An operation of ours, which no user hears of.
  struct Probe {
    OperationSlot slot;
    bool under_way = false;
  };

  ssize_t IssueProbe(fid_ep* endpoint, FabricQueuePair* owner, Probe* probe,
                     const Sge& memory);

  DatagramObjects objects_;
  DatagramTags tags_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  DatagramTags peer_tags_;
  Probe out_;
  Probe in_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DATAGRAM_TRAFFIC_H_
