#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_

#include <rdma/fi_eq.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

class FabricQueuePair;
struct OperationSlot;

// A completion queue, and what drives its queue pairs: software providers make
// progress only while their queue is read (fi_domain(3), FI_PROGRESS_MANUAL),
// also for what a peer asks of us. So the queue watches the provider's
// descriptor at all times and moves completions to a ring of its own, from
// which Poll() takes them. The user's descriptor is another one.
//
// Without wait objects the provider is looked at every turn for as long as
// something is under way, and a while longer. Then the peers are told, and say
// when there is something again; see FabricQueuePair::Link::OnSleep(). A
// reactor that never sleeps looks at it every turn.
class FabricCompletionQueue final
    : public CompletionQueue,
      public std::enable_shared_from_this<FabricCompletionQueue>,
      private FdHandler,
      private TurnHook,
      private Poller {
 public:
  static absl::StatusOr<std::shared_ptr<FabricCompletionQueue>> Create(
      std::shared_ptr<FabricDomain> domain, Reactor* reactor, uint32_t entries);
  ~FabricCompletionQueue() override;

  int Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  void Disarm() override;
  int fd() const override { return event_fd_; }
  bool keeps_awake() const override { return polling_ && WorthPolling(); }

  // For queue pairs.
  Reactor* reactor() const { return reactor_; }
  const std::shared_ptr<FabricDomain>& domain() const { return domain_; }
  fid_cq* handle() const { return queue_.get(); }
  // The provider's descriptor tells of what there is.
  bool waits() const { return provider_fd_ >= 0; }
  // Takes entries for a queue pair; an error when there are too few.
  absl::Status Reserve(uint32_t entries);
  void Unreserve(uint32_t entries) { reserved_ -= entries; }
  FabricQueuePair* Adopt(std::unique_ptr<FabricQueuePair> queue_pair);
  // The operation is over and reported; its slot stays as it is until then.
  void Push(OperationSlot* slot);
  // Reads all that the provider has, for the queue pairs. Does not act on what
  // it finds.
  void Drain();
  // Calls queue_pair->Service() at the end of the turn.
  void ScheduleService(FabricQueuePair* queue_pair);
  // Its user is gone; it goes when its completions were polled.
  void Detached(FabricQueuePair* queue_pair);
  // A receive was posted: a message that waited for one can move on.
  void ReceivePosted() {
    if (unsettled_) ScheduleTurnEnd();
  }
  // The queue pair has READs to do that wait for a look at the queue; or has
  // none any more.
  void ReadsDue(FabricQueuePair* queue_pair);
  void NoReadsDue(FabricQueuePair* queue_pair) {
    std::erase(with_reads_due_, queue_pair);
  }
  // The provider did not take an operation yet: try again soon.
  void HeldBack();
  // For each, if the queue has to know.
  bool wants_posts() const { return !waits() && !spins_; }
  void RequestPosted();
  // A queue pair closes step by step: the queue stays until it is done, even if
  // its users let go.
  void Linger();
  // A peer says that there is something to look at.
  void Wake();

 private:
  class Lingering;
  static constexpr int kBatch = 32;

  FabricCompletionQueue(std::shared_ptr<FabricDomain> domain, Reactor* reactor,
                        uint32_t entries);
  absl::Status Open();

  void OnFdReady(uint32_t events) override;
  void OnTurnEnd() override;
  int Poll() override;
  void OnTimer();
  void ScheduleTurnEnd() { reactor_->ScheduleTurnEnd(this); }

  // Reads a batch of what the provider has; false if there is nothing.
  inline bool ReadSome();
  void TakeRead(size_t count);
  // Whether there was something none the less.
  bool ReadFailed(ssize_t result);
  void Look(absl::Time now);
  void DrainAndServe();
  void DoDueReads();
  void Serve();
  void DrainError();
  // Drains until the provider's descriptor will tell of the next event; where
  // that fails, or there is none, the timer looks again.
  void Settle();
  void Backoff();
  void EndLingering();
  void BuryEndpoints();
  void UpdatePoller();
  bool Restless() const;
  bool WorthPolling() const;
  void Unmute();
  bool StarvedOfReceives() const;
  void PutReady(OperationSlot* slot);
  size_t TakeReady(absl::Span<Completion> out);
  // The slot is free after this.
  static void Report(const OperationSlot& slot, Completion* out);
  void WakeUser();

  const std::shared_ptr<FabricDomain> domain_;
  const LibfabricOptions& settings_;  // The domain's.
  Reactor* const reactor_;
  const bool spins_;  // The reactor never sleeps.
  Fid<fid_cq> queue_;
  int provider_fd_ = -1;  // None where the provider has no wait objects.
  int event_fd_ = -1;
  bool watched_ = false;
  bool muted_ = false;
  bool unsettled_ = false;
  bool held_back_ = false;
  bool armed_ = false;
  bool draining_ = false;
  bool looks_ = false;  // Without wait objects, for a reactor that sleeps.
  bool polling_ = false;
  bool polled_ = false;  // By the user, since the descriptor was last ready.
  Lingering* lingering_ = nullptr;  // The reactor's.
  absl::Time looked_in_vain_ = absl::InfinitePast();
  absl::Time active_;  // When there was something to look at last.
  uint32_t reserved_ = 0;
  uint32_t fruitless_ = 0;  // Wake-ups in a row that brought no completion.
  uint64_t seen_ = 0;       // Completions of the provider, ever.
  std::array<fi_cq_msg_entry, kBatch> read_ = {};  // While draining_.

  const uint32_t entries_;
  // Those to report, a ring with room for every entry.
  const uint32_t ready_mask_;
  const std::unique_ptr<OperationSlot*[]> ready_;
  uint64_t ready_taken_ = 0;
  uint64_t ready_put_ = 0;
  // Where they go at once while the user polls; no room once one is in ready_.
  Completion* direct_ = nullptr;
  Completion* direct_end_ = nullptr;

  std::vector<std::unique_ptr<FabricQueuePair>> queue_pairs_;
  std::vector<FabricQueuePair*> service_;
  std::vector<FabricQueuePair*> with_reads_due_;
  // Gone, but a provider with threads of its own might still be writing about
  // them.
  std::vector<std::unique_ptr<FabricQueuePair>> quarantine_;
  Timer timer_;
  Timer burial_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_
