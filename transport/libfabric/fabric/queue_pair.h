#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/backend.h"
#include "transport/libfabric/fabric/completion_host.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/fabric_link.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/shm/shm_presence.h"
#include "transport/libfabric/shm/shm_regions.h"
#include "transport/rdma_endpoint.h"

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
class FabricQueuePair {
 public:
  // What an unconnected endpoint (FI_EP_RDM) needs to have one peer: messages
  // are tagged, so that only those with the receiver's number are received.
  struct Datagrams {
    uint64_t receive_tag = 0;
    uint64_t probe_tag = 0;
  };
  // Closed in reverse order.
  struct DatagramObjects {
    std::unique_ptr<ShmPresence> presence;  // In shared memory only.
    Fid<fid_av> addresses;
    Fid<fid_cntr> served;  // Counts the peer's one-sided operations.
    Fid<fid_ep> endpoint;
  };

  // An error if the device has less than `options` asks for.
  static absl::Status CheckLimits(const FabricDomain& domain,
                                  const ConnectOptions& options);
  // The options have passed CheckLimits().
  static absl::StatusOr<FabricQueuePair*> Create(FabricCompletionHost* queue,
                                                 const ConnectOptions& options);
  ~FabricQueuePair();
  FabricQueuePair(const FabricQueuePair&) = delete;
  FabricQueuePair& operator=(const FabricQueuePair&) = delete;

  // `info` with its queues as long as this queue pair's.
  void Adjust(fi_info* info) const;
  // Takes the endpoint over, bound and enabled.
  void SetEndpoint(Fid<fid_ep> endpoint, std::unique_ptr<FabricLink> link);
  fid_ep* handle() const { return endpoint_.get(); }
  // For a link that closes it itself, and calls Close() when that is done.
  Fid<fid_ep> TakeEndpoint() { return std::move(endpoint_); }
  // As SetEndpoint(), for unconnected endpoints. `served` may be null.
  void SetDatagramEndpoint(const Datagrams& tags, DatagramObjects objects,
                           std::unique_ptr<FabricLink> link) {
    datagrams_ = true;
    tags_ = tags;
    objects_ = std::move(objects);
    SetEndpoint(std::move(objects_.endpoint), std::move(link));
  }
  // Where an unconnected endpoint's operations go.
  void SetPeer(fi_addr_t peer, const Datagrams& peer_tags) {
    peer_ = peer;
    one_sided_.message.addr = peer;
    peer_tags_ = peer_tags;
  }
  // What can read the peer's memory without the provider, or why nothing can.
  void SetReader(absl::StatusOr<std::unique_ptr<ShmReader>> reader) {
    why_no_reader_ = reader.status();
    if (reader.ok()) reader_ = *std::move(reader);
  }
  bool reads_here() const { return reader_ != nullptr; }
  // OK also where only the provider could.
  const absl::Status& why_no_reader() const { return why_no_reader_; }
  // Null but in shared memory.
  ShmPresence* presence() const { return objects_.presence.get(); }
  // One probe each way at a time. The memory must last until it is reported, or
  // the endpoint closed. Returns what libfabric returns.
  ssize_t SendProbe(const Sge& probe) {
    return PostProbe(&probe_out_, probe, /*send=*/true);
  }
  ssize_t ReceiveProbe(const Sge& probe) {
    return PostProbe(&probe_in_, probe, /*send=*/false);
  }
  // Open, and nothing was received yet.
  bool waits_for_first() const {
    return connected_ && !stopped_ && received_ == 0;
  }
  // A READ or WRITE of no bytes, which nobody hears of; of connected endpoints.
  // False: not now.
  bool SendNothing(OperationKind kind);
  // Calls FabricLink::OnTurnEnd() at the end of the turn.
  void ServeLink() {
    link_due_ = true;
    ScheduleService();
  }
  // Reads what the provider has until all requests are done, if they can be:
  // a provider may need several rounds.
  void Settle();
  // Messages that were sent and received with success; of unconnected
  // endpoints.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  // READs and WRITEs that the provider took, and those of the peer that it
  // served, where that is counted.
  uint64_t one_sided() const { return issued_one_sided_; }
  uint64_t served() const {
    return objects_.served == nullptr ? 0 : fi_cntr_read(objects_.served.get());
  }
  // The link has seen all of them served; it is served at the next.
  void AllServed() { watched_ = false; }
  // The peer's provider refused a one-sided operation without a word.
  void RefusedByPeer();
  void set_user(RdmaEndpoint* user) {
    user_ = user;
    requests_.SetEndpoint(user);
    receives_.SetEndpoint(user);
    FindUsual();
  }
  void set_on_disconnect(std::function<void(RdmaEndpoint&)> on_disconnect) {
    on_disconnect_ = std::move(on_disconnect);
  }
  // The link waits for the peer's probe.
  void Probing() {
    probing_ = true;
    ServeLink();
  }
  void Connected() {
    connected_ = true;
    probing_ = false;
    FindUsual();
  }
  bool connected() const { return connected_; }
  const absl::Status& error() const { return error_; }
  const Capabilities& capabilities() const { return capabilities_; }
  FabricCompletionHost* queue() const { return queue_; }
  uint32_t entries() const {
    return requests_.capacity() + receives_.capacity();
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
  // The same where the peer is gone without a word, and with it what the
  // provider might share with it: nothing is read any more.
  void PeerVanished(const absl::Status& why);
  // The second half of Break(), when the link asked for time. Reads what the
  // provider has, closes the endpoint and flushes.
  void Close();
  // Ends it once nothing is on the stack.
  void BreakSoon(const absl::Status& why);
  // The user lets go.
  void Detach();

  // For the completion queue.
  RdmaEndpoint* user() const { return user_; }
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
  // Some of them wait for the peer, or may.
  bool waits_for_peer();
  // Something is under way, for which the completion queue has to be looked at.
  bool restless() const {
    return endpoint_ != nullptr && (probing_ || closing_ || has_requests());
  }
  void Sleep() {
    if (connected_) link_->OnSleep();
  }
  // The peer sleeps: the link is served when something is posted.
  void RingAtNextPost() { after_post_ |= kServeLink; }
  // Leaves no endpoint to close.
  DatagramObjects TakeObjects() {
    objects_.endpoint = std::move(endpoint_);
    return std::move(objects_);
  }
  // The link has asked for time.
  bool closing() const { return closing_; }
  bool without_receives() const {
    return connected_ && receives_.outstanding() == 0;
  }
  bool holding() const { return requests_.holding(); }
  // READs that are to be done here and were not yet.
  bool has_due() const { return due_taken_ != due_put_; }
  // The provider, which has to do the next, was busy.
  bool due_refused() const { return due_refused_; }
  // Does as many as a look at the queue has time for. False if none was.
  bool DoDueReads();
  // Service() runs at the end of the turn.
  void ScheduleService() {
    queue_->ScheduleService(this, std::exchange(in_service_, true));
  }
  bool in_service() const { return in_service_; }
  void Service();
  void FinishService();

 private:
  static constexpr size_t kMaxSges = kMaxFabricSges;
  // What a post is followed by.
  static constexpr uint8_t kServeLink = 1;
  static constexpr uint8_t kTellQueue = 2;
  // An operation in the form that the provider wants.
  struct Work {
    iovec pieces[kMaxSges];
    void* descriptors[kMaxSges];
    size_t count = 0;
    size_t length = 0;
    RemoteBuffer remote;
    bool is_inline = false;
    bool undescribed = false;  // Some pieces have no descriptor.
  };
  // A READ or WRITE of one piece, with what is the same for each filled in.
  struct OneSided {
    fi_msg_rma message = {};
    iovec piece = {};
    void* descriptor = nullptr;
    fi_rma_iov target = {};
    // Of the last one; nobody looks at a SEND's.
    RemoteBuffer remote() const { return {target.addr, {target.key}}; }
  };
  // See AddSink().
  struct LastPiece {
    std::vector<uint8_t> memory;
    iovec real = {};    // Where the first bytes belong; null when unused.
    size_t before = 0;  // Bytes of the pieces before it.
  };
  // An operation of ours, which no user hears of.
  struct Probe {
    OperationSlot slot;
    bool under_way = false;
  };

  FabricQueuePair(FabricCompletionHost* queue,
                  const Capabilities& capabilities);
  void End(const absl::Status& why, bool tell_peer);

  struct Pieces {
    const iovec* iovecs;
    void** descriptors;
    size_t count;
    size_t length;  // Of all of them.
  };
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
  bool Prepare(absl::Span<const Sge> sges, Work* work);
  bool AddPieces(absl::Span<const Sge> sges, bool local_write, Work* work);
  // What libfabric returns.
  template <OperationKind kKind>
  inline ssize_t IssueUsual(OperationSlot* slot, const Sge& piece,
                            void* descriptor, RemoteBuffer remote);
  template <OperationKind kKind>
  ssize_t IssueLong(OperationSlot* slot, const Sge& piece);
  template <OperationKind kKind>
  inline ssize_t Issue(OperationSlot* slot, const Pieces& pieces,
                       const RemoteBuffer& remote, bool is_inline);
  ssize_t IssueDatagram(OperationSlot* slot, const Pieces& pieces,
                        uint64_t flags);
  template <OperationKind kKind>
  inline ssize_t IssueOneSided(OperationSlot* slot, const Pieces& pieces,
                               const RemoteBuffer& remote, uint64_t flags);
  // A READ by the provider.
  ssize_t IssueRead(OperationSlot* slot, const Pieces& pieces,
                    const RemoteBuffer& from);
  template <OperationKind kKind>
  ssize_t IssueWork(OperationSlot* slot, const Work& work);
  ssize_t IssueAgain(OperationSlot* slot);
  // Makes room behind a RECEIVE for what does not fit into it.
  void AddSink(OperationSlot* slot, Work* work);
  // A RECEIVE has its message, of which `bytes` have come.
  void Received(OperationSlot* slot, size_t bytes);
  ssize_t PostProbe(Probe* probe, const Sge& memory, bool send);
  void TakeFromLastPiece(uint32_t index, size_t bytes);
  void ReceivedTooMuch(OperationSlot* slot, size_t bytes);
  // The provider took a READ or WRITE of so many bytes.
  void CountIssued(const OperationSlot& slot, size_t length);
  // A request succeeded.
  void CountDone(const OperationSlot& slot);
  void WatchOneSided();
  // False if the READ is the provider's to do.
  bool ReadHere(OperationSlot* slot, const Pieces& pieces,
                const RemoteBuffer& from);
  // The same for one that may take processor time now.
  bool ReadNow(OperationSlot* slot, const Pieces& pieces,
               const RemoteBuffer& from);
  void PutDue(OperationSlot* slot, const Pieces& pieces,
              const RemoteBuffer& from);
  // They will be flushed.
  void DropDueReads();
  uint64_t ReadAllowance() const {
    return std::max<uint64_t>(1, domain_->settings().shm_read_bytes);
  }
  // Of a queue pair whose user is gone, while it closes.
  void TakeReceivesBack();
  // The endpoint alone, unless it is closed: the link may not be done.
  void CloseEndpoint();
  // Nothing goes out any more.
  void Stop();
  // What usual_ is made of has changed.
  void FindUsual() {
    usual_ =
        connected_ && !stopped_ && user_ != nullptr && !requests_.holding();
  }
  // Whether the slot was one of ours.
  bool ProbeDone(const OperationSlot* slot, size_t bytes);
  void NothingDone();
  void Hold(OperationSlot* slot, const Work& work);
  void IssueHeld();
  // For an operation that has failed.
  void NotProvidersAnyMore(OperationKind kind) {
    if (!counts_) return;
    if (kind == OperationKind::kWrite) --writes_;
    if (kind == OperationKind::kRead) --provider_reads_;
  }
  // It has to wait for others before it, which the provider has.
  bool Fenced(OperationKind kind) const;
  void Outcome(OperationSlot* slot, CompletionStatus status, int32_t code);
  void NotIssued(OperationSlot* slot, ssize_t result);
  void SetBreakReason(const absl::Status& why);
  void Retire(OperationRing* ring);
  void FlushRing(OperationRing* ring);

  FabricCompletionHost* const queue_;
  const std::shared_ptr<FabricDomain> domain_;
  Capabilities capabilities_;
  // Of SENDs, those of up to so many bytes are inline, or all have tags.
  const size_t long_sends_;
  const uint64_t write_flags_;
  // Somebody asks how many operations of a kind there are, or were.
  const bool counts_;
  // Connected, without an error, with a user, and nothing is held: requests go
  // to the provider at once.
  bool usual_ = false;
  DatagramObjects objects_;  // But for the endpoint.
  Fid<fid_ep> endpoint_;
  std::unique_ptr<FabricLink> link_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  bool datagrams_ = false;
  Datagrams tags_;
  Datagrams peer_tags_;
  Probe probe_out_;
  Probe probe_in_;
  Probe nothing_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t issued_one_sided_ = 0;
  RdmaEndpoint* user_ = nullptr;
  std::function<void(RdmaEndpoint&)> on_disconnect_;
  OperationRing requests_;
  OperationRing receives_;
  OneSided one_sided_;
  std::unique_ptr<ShmReader> reader_;
  // What it may still read before the next look at the queue, and the READs
  // that are due: a ring with room for all requests, empty until one is.
  uint64_t read_allowance_;
  std::vector<OperationSlot*> due_;
  uint64_t due_taken_ = 0;
  uint64_t due_put_ = 0;
  bool due_refused_ = false;
  // WRITEs that the peer may not have served yet: a READ must not come before
  // them. When this operation completes, it has served them all.
  bool unserved_writes_ = false;
  const OperationSlot* serves_writes_ = nullptr;
  uint32_t reads_ = 0;  // READs taken and not yet polled.
  // Only if `counts_`:
  uint32_t writes_ = 0;          // WRITEs that the provider has.
  uint32_t provider_reads_ = 0;  // The same of READs.
  // Room for held and due operations, by the index of their slots; empty until
  // one is.
  std::vector<Work> held_;
  std::vector<uint8_t> held_inline_;
  // By the index of a RECEIVE's slot, where the provider needs room behind it
  // and all pieces are taken: the last piece with that room.
  std::vector<std::unique_ptr<LastPiece>> last_pieces_;
  bool connected_ = false;
  bool probing_ = false;
  // A request was wrong, or there is a reason to break: nothing goes out.
  bool stopped_ = false;
  bool closed_ = false;
  bool closing_ = false;
  bool link_due_ = false;
  uint8_t after_post_ = 0;
  bool watched_ = false;  // The link knows of one-sided operations.
  bool in_service_ = false;
  bool disconnect_due_ = false;  // on_disconnect_ has to run.
  absl::Status why_no_reader_;
  absl::Status error_;
  absl::Status break_reason_;  // Not OK: Break() is due.
};

inline bool FabricQueuePair::RetireUsual(const OperationSlot* slot) {
  if (!requests_.IsOldestIssued(slot) || !usual_) return false;
  requests_.RetireOldest();
  if (counts_) CountDone(*slot);
  return true;
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_H_
