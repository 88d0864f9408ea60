#ifndef SKIFF_TRANSPORT_VERBS_QUEUE_PAIR_H_
#define SKIFF_TRANSPORT_VERBS_QUEUE_PAIR_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "transport/verbs/completion_host.h"
#include "transport/verbs/verbs_domain.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_options.h"
#include "transport/verbs/verbs_shared_receive_queue.h"
#include "transport/verbs/work_ring.h"

namespace skiff::transport {

// Who is told what happens to a queue pair, from inside polling, posting and
// the reactor's turn.
class QueuePairOwner {
 public:
  virtual ~QueuePairOwner() = default;
  virtual void OnQueuePairError(absl::Status why) = 0;
  // The peer's first message came before the connection manager's last.
  virtual void OnCommunicationEstablished() = 0;
};

// An RC queue pair and its work in progress. Outlives its endpoint until its
// completions were polled; then its completion queue owns it.
class VerbsQueuePair final
    : public AsyncEventSink,
      public std::enable_shared_from_this<VerbsQueuePair> {
 public:
  struct Queues {
    // Not shared: who owns the queue pair keeps it alive.
    CompletionHost* completion = nullptr;
    std::shared_ptr<VerbsSharedReceiveQueue> shared_receive;
  };
  // What the device allows for the connection's options, or why it does not.
  static absl::Status Check(const VerbsDomain& domain,
                            const ConnectOptions& options, bool shared_receive);
  static absl::StatusOr<std::shared_ptr<VerbsQueuePair>> Create(
      std::shared_ptr<VerbsDomain> domain, Queues queues,
      const ConnectOptions& options, const VerbsOptions& settings);
  ~VerbsQueuePair() override;

  uint32_t number() const { return number_; }
  uint32_t max_inline() const { return max_inline_; }
  bool has_shared_receives() const { return shared_receive_ != nullptr; }
  RdmaEndpoint* endpoint() const { return endpoint_; }

  // Both null once the endpoint is gone.
  void SetEndpoint(RdmaEndpoint* endpoint, QueuePairOwner* owner);

  // The states of ibv_modify_qp(3) as the connection comes up. Receives can be
  // posted from the first on, everything from the second.
  absl::Status ToInit(rdma_cm_id* id);
  absl::Status ToReadyToSend(rdma_cm_id* id, uint32_t read_depth_here,
                             uint32_t read_depth_there);
  // Open, and nothing was received yet.
  bool waits_for_first() const {
    return state_ == State::kReady && receives_.untouched() && !received_;
  }
  // A READ or WRITE of no bytes, which nobody hears of. False: not now.
  bool SendNothing(ibv_wr_opcode opcode);
  // ibv_query_qp(3); false if it fails.
  bool Query(ibv_qp_attr* attr, ibv_qp_init_attr* init, int mask) const {
    return ibv_query_qp(qp_, attr, mask, init) == 0;
  }
  // The connection has ended: everything posted completes.
  void Close();
  // Close(), and the device will not complete anything either.
  void Abandon();

  PostResult PostReceive(OperationId id, absl::Span<const Sge> to);
  PostResult PostSend(OperationId id, absl::Span<const Sge> from);
  PostResult PostSendWithInvalidate(OperationId id, absl::Span<const Sge> from,
                                    RemoteKey key);
  PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                      RemoteBuffer from);
  PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                       RemoteBuffer to);
  PostResult PostBind(OperationId id, VerbsWindow* window,
                      const VerbsRegion* region, size_t offset, size_t length,
                      Access access);
  PostResult PostInvalidate(OperationId id, RemoteKey key);
  void Flush();

  void OnAsyncEvent(ibv_event_type type, int port) override;

  // For the completion queue.
  void OnSendDone(WorkSlot* slot, const ibv_wc& wc) {
    if (wc.status == IBV_WC_SUCCESS) {
      sends_.Complete(slot);
    } else {
      OnSendFailed(slot, wc);
    }
  }
  // The same for one that went well, if it can be reported at once.
  bool ReportSent(const WorkSlot* slot, Completion* out, bool* more) {
    if (!sends_.TakeIfOldest(slot, out, more)) return false;
    if (out->kind == OperationKind::kRead) --reads_;
    // What was dropped waits behind it.
    if (state_ == State::kClosed) *more = true;
    return true;
  }
  void OnReceiveDone(WorkSlot* slot, const ibv_wc& wc);
  // The same for one of its own that went well, if nothing else has to be done
  // but to say what came.
  bool ReportReceived(const WorkSlot* slot, Completion* out) {
    return state_ != State::kClosed && receives_.RetireIfOldest(slot, out);
  }
  // Those that are over, in order, as many as there are and fit.
  size_t TakeReady(absl::Span<Completion> out);
  // Closed, and nothing of its own is left. What it took of a shared receive
  // queue may complete until the completion queue has run empty.
  bool Drained() const;
  bool shares_receives() const { return shared_receive_ != nullptr; }

 private:
  enum class State : uint8_t { kConnecting, kReady, kClosed };

  VerbsQueuePair(std::shared_ptr<VerbsDomain> domain, Queues queues,
                 const ConnectOptions& options, const VerbsOptions& settings);
  absl::Status Initialize();
  absl::Status Modify(rdma_cm_id* id, ibv_qp_state state,
                      uint32_t read_depth_here, uint32_t read_depth_there);
  // What all posts have in common: nearly all are of one piece of registered
  // memory, and go the short way.
  template <OperationKind kKind, ibv_wr_opcode kOpcode>
  inline PostResult Post(OperationId id, absl::Span<const Sge> pieces,
                         RemoteBuffer remote);
  template <OperationKind kKind>
  inline bool IsUsual(absl::Span<const Sge> pieces, RemoteKey key) const;
  template <OperationKind kKind, ibv_wr_opcode kOpcode>
  inline PostResult StageUsual(OperationId id, const Sge& piece,
                               const RemoteBuffer& remote);
  template <OperationKind kKind, ibv_wr_opcode kOpcode>
  PostResult PostUnusual(OperationId id, absl::Span<const Sge> pieces,
                         RemoteBuffer remote);
  inline ibv_send_wr* Stage(OperationId id, OperationKind kind,
                            ibv_wr_opcode opcode);
  // kAccepted if another operation can be staged.
  PostResult MakeRoom();
  void FindRoom() {
    if (state_ != State::kReady) return;
    staged_end_ = std::min(staged_count_ + sends_.room(), staged_limit_);
  }
  // How many it were. No others follow before FindRoom().
  uint32_t DropStaged() {
    staged_end_ = 0;
    staged_bytes_ = 0;
    return std::exchange(staged_count_, 0);
  }
  // What a READ may fill.
  bool CanSink(const Sge& piece) const {
    const auto* region = static_cast<const VerbsRegion*>(piece.region);
    return region != nullptr && (!sink_needs_remote_write_ ||
                                 Has(region->access(), Access::kRemoteWrite));
  }
  // For a READ, `max_sges` is the device's limit. `may_be_inline` otherwise.
  void SetPieces(ibv_send_wr* request, absl::Span<const Sge> pieces,
                 uint64_t max_bytes, uint32_t max_sges, bool may_be_inline);
  void SetInvalid(ibv_send_wr* request);
  uint32_t EndOfCall(uint32_t first) const {
    return staged_bytes_ < call_bytes_ ? staged_count_
                                       : EndOfLimitedCall(first);
  }
  uint32_t EndOfLimitedCall(uint32_t first) const;
  inline int PostStaged(uint32_t first, uint32_t end, uint32_t* posted);
  void FailPost(int error, uint32_t count);
  void CommitBinds();
  void OnSendFailed(WorkSlot* slot, const ibv_wc& wc);
  void Fail(absl::Status why);
  void SetClosed() {
    state_ = State::kClosed;
    staged_end_ = staged_count_;
  }
  // READs are counted, failures explained.
  void Note(absl::Span<Completion> taken);
  // Completes what is said of one that did not go well.
  static void Explain(Completion* failed);
  // Of Initialize().
  absl::Status CreateQp();
  void PrepareStaging();
  // What can be destroyed later is told when that is done; null otherwise.
  std::shared_ptr<BuriedWork> DestroyQp();
  bool Fence();

  const std::shared_ptr<VerbsDomain> domain_;
  CompletionHost* const completion_queue_;
  std::shared_ptr<VerbsSharedReceiveQueue> shared_receive_;
  std::shared_ptr<AsyncWatch> watch_;
  const VerbsOptions settings_;
  const uint32_t max_sges_;
  const uint32_t send_queue_;
  const uint32_t receive_queue_;  // 0 with a shared one.
  const uint32_t wished_inline_;
  const uint64_t max_message_bytes_;
  const uint64_t max_transfer_bytes_;
  const bool sink_needs_remote_write_;
  // See EndOfLimitedCall().
  const uint64_t call_bytes_;

  ibv_qp* qp_ = nullptr;
  uint32_t number_ = 0;
  int port_ = 0;
  State state_ = State::kConnecting;
  RdmaEndpoint* endpoint_ = nullptr;
  QueuePairOwner* owner_ = nullptr;
  bool reserved_ = false;

  WorkRing sends_;
  WorkRing receives_;
  bool received_ = false;  // In an unusual way.
  uint32_t reads_ = 0;
  uint32_t max_reads_ = 0;
  uint32_t max_inline_ = 0;

  // Requests that wait for Flush(), each with its pieces and the next.
  std::vector<ibv_send_wr> staged_;
  std::vector<ibv_sge> staged_sges_;       // `max_sges_` for each.
  std::unique_ptr<char[]> staged_inline_;  // `max_inline_` for each.
  uint32_t staged_count_ = 0;
  uint32_t staged_limit_ = 0;
  uint64_t staged_bytes_ = 0;  // But for READs', which the peer sends.
  // So far it can go before MakeRoom() has to look; not below `staged_count_`.
  uint32_t staged_end_ = 0;
  // The length of a usual piece, and how much longer it can be.
  uint64_t usual_least_ = 0;  // 1 of a READ.
  uint64_t usual_send_ = 0;
  uint64_t usual_write_ = 0;
  uint64_t usual_read_ = 0;
  bool staged_binds_ = false;
  uint32_t signal_every_ = 1;
  uint32_t until_signal_ = 1;  // The last of so many is signalled.
  std::vector<ibv_sge> receive_sges_;

  Timer port_down_;
  Timer drain_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_QUEUE_PAIR_H_
