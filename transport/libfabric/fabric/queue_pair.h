#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_

#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/completion_host.h"
#include "transport/libfabric/fabric/connected_traffic.h"
#include "transport/libfabric/fabric/datagram_traffic.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_link.h"
#include "transport/libfabric/fabric/fabric_work.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/libfabric/fabric/held_work.h"
#include "transport/libfabric/fabric/operation_counts.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/fabric/queue_pair_life.h"
#include "transport/libfabric/fabric/receive_sinks.h"
#include "transport/libfabric/fabric/shm_reads.h"
#include "transport/rdma_endpoint.h"
#include "transport/transport.h"

namespace skiff::transport {

// An endpoint of libfabric with the table of its operations. It belongs to its
// completion queue, because it outlives its user until the last completion was
// polled.
//
// Providers differ in what they report when a connection ends: all operations,
// some, or none. So the end is the same for all of them: what the provider has
// is read, the endpoint is closed, after which it neither touches a buffer nor
// reports anything, what it reported on closing is read, and every operation
// that still has no outcome is flushed here.
//
// There are two kinds of endpoint. What differs for each operation is in
// ConnectedTraffic and DatagramTraffic, one of which is in use for good; how
// the connection begins and ends, in the link. The rest is the same, and has
// parts: QueuePairLife, OperationCounts, HeldWork, ReceiveSinks, and ShmReads.
class FabricQueuePair {
 public:
  // An error if the device has less than `options` asks for.
  static absl::Status CheckLimits(const FabricDomain& domain,
                                  const ConnectOptions& options);
  // The options have passed CheckLimits().
  static absl::StatusOr<FabricQueuePair*> Create(FabricCompletionHost* queue,
                                                 const ConnectOptions& options);
  ~FabricQueuePair();
  FabricQueuePair(const FabricQueuePair&) = delete;
  FabricQueuePair& operator=(const FabricQueuePair&) = delete;

  // -- For the link.

  // `info` with its queues as long as this queue pair's.
  void Adjust(fi_info* info) const;
  // Takes the endpoint over, bound and enabled.
  void SetEndpoint(Fid<fid_ep> endpoint, std::unique_ptr<FabricLink> link);
  fid_ep* handle() const { return endpoint_.get(); }
  // For a link that closes it itself, and calls Close() when that is done.
  Fid<fid_ep> TakeEndpoint() { return std::move(endpoint_); }
  // As SetEndpoint(), for unconnected endpoints.
  void SetDatagramEndpoint(const DatagramTags& tags, DatagramObjects objects,
                           std::unique_ptr<FabricLink> link);
  // Where an unconnected endpoint's operations go.
  void SetPeer(fi_addr_t peer, const DatagramTags& peer_tags) {
    one_sided_.SetPeer(peer);
    datagram_traffic_.SetPeer(peer, peer_tags);
  }
  // What can read the peer's memory without the provider, or why nothing can.
  void SetReader(absl::StatusOr<std::unique_ptr<ShmReader>> reader) {
    shm_reads_.SetReader(std::move(reader));
  }
  // Null but in shared memory.
  ShmPresence* presence() const { return datagram_traffic_.presence(); }
  // Of unconnected endpoints: see DatagramTraffic.
  ssize_t SendProbe(const Sge& probe) {
    return datagram_traffic_.SendProbe(endpoint_.get(), this, probe);
  }
  ssize_t ReceiveProbe(const Sge& probe) {
    return datagram_traffic_.ReceiveProbe(endpoint_.get(), this, probe);
  }
  // Open, and nothing was received yet.
  bool waits_for_first() const {
    return life_.connected() && !life_.stopped() && counts_.received() == 0;
  }
  // A READ or WRITE of no bytes, which nobody hears of; of connected endpoints.
  // False: not now.
  bool SendNothing(OperationKind kind);
  // Calls FabricLink::OnTurnEnd() at the end of the turn.
  void ServeLink() {
    turn_.link_due = true;
    ScheduleService();
  }
  // The peer sleeps: the link is served when something is posted.
  void RingAtNextPost() { after_post_ |= kServeLink; }
  // Reads what the provider has until all requests are done, if they can be:
  // a provider may need several rounds.
  void Settle();
  // Messages that were sent and received with success; of unconnected
  // endpoints.
  uint64_t sent() const { return counts_.sent(); }
  uint64_t received() const { return counts_.received(); }
  // READs and WRITEs that the provider took, and those of the peer that it
  // served, where that is counted.
  uint64_t one_sided() const { return counts_.one_sided(); }
  uint64_t served() const { return datagram_traffic_.served(); }
  // The link has seen all of them served; it is served at the next.
  void AllServed() { watched_ = false; }
  // Some requests wait for the peer, or may.
  bool waits_for_peer();
  bool without_receives() const {
    return life_.connected() && receives_.outstanding() == 0;
  }
  // The peer's provider refused a one-sided operation without a word.
  void RefusedByPeer();
  // The link waits for the peer's probe.
  void Probing() {
    life_.Probing();
    ServeLink();
  }
  // The peer is gone without a word, and with it what the provider might share
  // with it: it ends, and nothing is read any more.
  void PeerVanished(const absl::Status& why);
  // The second half of Break(), when the link asked for time. Reads what the
  // provider has, closes the endpoint and flushes.
  void Close();

  // -- For the user's endpoint, and who makes it.

  void set_user(RdmaEndpoint* user);
  void set_on_disconnect(std::function<void(RdmaEndpoint&)> on_disconnect) {
    on_disconnect_ = std::move(on_disconnect);
  }
  void Connected() {
    life_.Connected();
    FindUsual();
  }
  bool connected() const { return life_.connected(); }
  const absl::Status& error() const { return life_.error(); }
  const Capabilities& capabilities() const { return capabilities_; }
  FabricCompletionHost* queue() const { return queue_; }
  bool reads_here() const { return shm_reads_.available(); }
  // OK also where only the provider could.
  const absl::Status& why_no_reader() const {
    return shm_reads_.why_no_reader();
  }
  PostResult PostReceive(OperationId id, absl::Span<const Sge> to);
  PostResult PostSend(OperationId id, absl::Span<const Sge> from) {
    return PostRequest<OperationKind::kSend>(id, from, {});
  }
  PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                      RemoteBuffer from) {
    return PostRequest<OperationKind::kRead>(id, to, from);
  }
  PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                       RemoteBuffer to) {
    return PostRequest<OperationKind::kWrite>(id, from, to);
  }
  // Ends it: see the class. Not from inside a post or FabricCompletionQueue::
  // Drain().
  void Break(const absl::Status& why, bool tell_peer);
  // Ends it once nothing is on the stack.
  void BreakSoon(const absl::Status& why);
  // The user lets go.
  void Detach();

  // -- For the completion queue.

  RdmaEndpoint* user() const { return user_; }
  uint32_t entries() const {
    return requests_.capacity() + receives_.capacity();
  }
  // A completion as nearly all are: its request is the oldest, and was good.
  // True if it is that, and is retired; then the caller reports it, and calls
  // RetireDone().
  inline bool RetireUsual(const OperationSlot* slot);
  void RetireDone() {
    if (requests_.OldestIsDone()) Retire(&requests_);
  }
  // Any completion.
  void Completed(OperationSlot* slot, size_t bytes);
  void Failed(OperationSlot* slot, int error, int provider_error,
              const std::string& text);
  void Polled(OperationKind kind) {
    if (kind == OperationKind::kReceive) {
      receives_.Polled();
    } else {
      RequestPolled(kind);
    }
  }
  void RequestPolled(OperationKind kind) {
    requests_.Polled();
    if (kind == OperationKind::kRead) --reads_;
  }
  bool unpolled() const { return requests_.used() + receives_.used() != 0; }
  bool has_requests() const { return requests_.outstanding() != 0; }
  // Something is under way, for which the completion queue has to be looked at.
  bool restless() const {
    return endpoint_ != nullptr &&
           (life_.probing() || life_.closing() || has_requests());
  }
  void Sleep() {
    if (life_.connected()) link_->OnSleep();
  }
  // Leaves no endpoint to close.
  DatagramObjects TakeObjects();
  // The link has asked for time.
  bool closing() const { return life_.closing(); }
  bool holding() const { return requests_.holding(); }
  // READs that are to be done here and were not yet.
  bool has_due() const { return shm_reads_.has_due(); }
  // The provider, which has to do the next, was busy.
  bool due_refused() const { return shm_reads_.refused(); }
  // Does as many as a look at the queue has time for. False if none was.
  bool DoDueReads();
  // Service() runs at the end of the turn.
  void ScheduleService() {
    queue_->ScheduleService(this, std::exchange(turn_.in_service, true));
  }
  bool in_service() const { return turn_.in_service; }
  void Service();
  void FinishService();

 private:
  // What a post is followed by.
  static constexpr uint8_t kServeLink = 1;
  static constexpr uint8_t kTellQueue = 2;
  // What the end of the turn has to do.
  struct TurnWork {
    bool in_service = false;      // Service() and FinishService().
    bool link_due = false;        // FabricLink::OnTurnEnd().
    bool disconnect_due = false;  // on_disconnect_.
  };

  FabricQueuePair(FabricCompletionHost* queue,
                  const Capabilities& capabilities);

  // Posts: queue_pair_post.cc.
  template <OperationKind kKind>
  PostResult PostRequest(OperationId id, absl::Span<const Sge> sges,
                         RemoteBuffer remote);
  template <OperationKind kKind>
  PostResult PostUnusual(OperationId id, absl::Span<const Sge> sges,
                         RemoteBuffer remote);
  PostResult PostUnusualReceive(OperationSlot* slot, absl::Span<const Sge> to);
  // With what libfabric returned.
  inline PostResult ReceiveIssued(OperationSlot* slot, ssize_t result);
  template <OperationKind kKind>
  void NewestNotTaken(const Sge& piece, ssize_t result);
  void AfterPost();
  // If it sleeps: it has something to do.
  void RingPeer() {
    if ((after_post_ & kServeLink) == 0) return;
    after_post_ &= ~kServeLink;
    ServeLink();
  }
  bool IsOurs(const MemoryRegion& region) const {
    return region.domain() == domain_.get();
  }
  template <OperationKind kKind>
  inline const FabricRegion* UsualRegion(const Sge& sge) const;
  template <OperationKind kKind>
  void PostWork(OperationSlot* slot, absl::Span<const Sge> sges,
                const RemoteBuffer& remote, bool hold);
  // False if the operation is wrong.
  template <OperationKind kKind>
  bool Prepare(absl::Span<const Sge> sges, FabricWork* work);
  bool AddPieces(absl::Span<const Sge> sges, bool local_write,
                 FabricWork* work);
  // What libfabric returns.
  template <OperationKind kKind>
  inline ssize_t IssueUsual(OperationSlot* slot, const Sge& piece,
                            void* descriptor, RemoteBuffer remote);
  template <OperationKind kKind>
  ssize_t IssueLong(OperationSlot* slot, const Sge& piece);
  template <OperationKind kKind>
  inline ssize_t Issue(OperationSlot* slot, const FabricPieces& pieces,
                       const RemoteBuffer& remote, bool is_inline);
  template <OperationKind kKind>
  inline ssize_t IssueOneSided(OperationSlot* slot, const FabricPieces& pieces,
                               const RemoteBuffer& remote, uint64_t flags);
  // A READ by the provider.
  ssize_t IssueRead(OperationSlot* slot, const FabricPieces& pieces,
                    const RemoteBuffer& from);
  template <OperationKind kKind>
  ssize_t IssueWork(OperationSlot* slot, const FabricWork& work);
  ssize_t IssueAgain(OperationSlot* slot);
  void Hold(OperationSlot* slot, const FabricWork& work);
  void IssueHeld();
  void NotIssued(OperationSlot* slot, ssize_t result);
  // The provider took a READ or WRITE of so many bytes.
  void CountIssued(const OperationSlot& slot, size_t length);

  // READs in shared memory: queue_pair_reads.cc.
  // False if the READ is the provider's to do.
  bool ReadHere(OperationSlot* slot, const FabricPieces& pieces,
                const RemoteBuffer& from);
  // The same for one that may take processor time now.
  bool ReadNow(OperationSlot* slot, const FabricPieces& pieces,
               const RemoteBuffer& from);
  // False if it has to wait for the provider.
  bool DoDueRead(OperationSlot* slot);
  // They will be flushed.
  void DropDueReads();

  // Completions: queue_pair.cc.
  // A RECEIVE has its message, of which `bytes` have come.
  void Received(OperationSlot* slot, size_t bytes);
  void ReceivedTooMuch(OperationSlot* slot, size_t bytes);
  // Whether the slot was one of our own.
  bool OwnDone(const OperationSlot* slot, size_t bytes);
  void NothingDone();
  void Outcome(OperationSlot* slot, CompletionStatus status, int32_t code);
  void Retire(OperationRing* ring);
  // What usual_ is made of has changed.
  void FindUsual() {
    usual_ = life_.connected() && !life_.stopped() && user_ != nullptr &&
             !requests_.holding();
  }

  // The end: queue_pair_end.cc.
  // Nothing goes out any more.
  void Stop();
  void StopBecause(const absl::Status& why);
  void End(const absl::Status& why, bool tell_peer);
  // The endpoint alone, unless it is closed: the link may not be done.
  void CloseEndpoint();
  // Of a queue pair whose user is gone, while it closes.
  void TakeReceivesBack();
  void FlushRing(OperationRing* ring);

  FabricCompletionHost* const queue_;
  const std::shared_ptr<FabricDomain> domain_;
  Capabilities capabilities_;
  // The kind of endpoint.
  const bool uses_datagrams_;
  // Of SENDs, those of up to so many bytes are inline, or all have tags.
  const size_t long_sends_;
  const uint64_t write_flags_;
  // Connected, without an error, with a user, and nothing is held: requests go
  // to the provider at once.
  bool usual_ = false;
  uint8_t after_post_;
  bool watched_ = false;  // The link knows of one-sided operations.
  TurnWork turn_;
  QueuePairLife life_;
  DatagramTraffic datagram_traffic_;
  ConnectedTraffic connected_traffic_;
  Fid<fid_ep> endpoint_;
  std::unique_ptr<FabricLink> link_;
  RdmaEndpoint* user_ = nullptr;
  std::function<void(RdmaEndpoint&)> on_disconnect_;
  OperationRing requests_;
  OperationRing receives_;
  uint32_t reads_ = 0;  // READs taken and not yet polled.
  OneSidedMessage one_sided_;
  OperationCounts counts_;
  HeldWork held_;
  ReceiveSinks sinks_;
  ShmReads shm_reads_;
};

inline bool FabricQueuePair::RetireUsual(const OperationSlot* slot) {
  if (!requests_.IsOldestIssued(slot) || !usual_) return false;
  requests_.RetireOldest();
  if (counts_.wanted()) counts_.Done(*slot);
  return true;
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_
