#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_

#include <rdma/fi_eq.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/completion_host.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// A completion queue, and what drives its queue pairs: software providers make
// progress only while their queue is read (fi_domain(3), FI_PROGRESS_MANUAL),
// also for what a peer asks of us. So the queue watches the provider's
// descriptor at all times and moves completions to a ring of its own, from
// which Poll() takes them. The user's descriptor is another one.
//
// What a provider does while it is read may take long: it copies what has come
// from a socket. So for a user who has armed the queue it is read until there
// is something for him. He reads on when his turn comes, as much as he likes.
// The queue does so for one who does not look.
//
// Without wait objects the provider is looked at every turn for as long as
// something is under way, and a while longer. Then the peers are told, and say
// when there is something again; see FabricLink::OnSleep(). A
// reactor that never sleeps looks at it every turn.
class FabricCompletionQueue final
    : public CompletionQueue,
      public FabricCompletionHost,
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
  int fd() const override { return ready().fd(); }
  bool keeps_awake() const override { return work().polling && WorthPolling(); }

  // FabricCompletionHost:
  fid_cq* handle() const override { return queue_.get(); }
  bool wants_posts() const override { return !waits() && !spins_; }
  absl::Status Reserve(uint32_t entries) override;
  FabricQueuePair* Adopt(std::unique_ptr<FabricQueuePair> queue_pair) override;
  void Drain() override;
  void Detached(FabricQueuePair* queue_pair) override;
  void HeldBack() override;
  void Linger() override;
  void Wake() override;

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

  // The provider's descriptor tells of what there is.
  bool waits() const { return provider_fd_ >= 0; }
  void Unreserve(uint32_t entries) { reserved_ -= entries; }

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
  // that fails, or there is none, the timer looks again. `for_user`: only until
  // there is something for him, who reads on himself.
  void Settle(bool for_user = false);
  void Backoff();
  void EndLingering();
  void BuryEndpoints();
  void UpdatePoller();
  bool Restless() const;
  bool WorthPolling() const;
  void Unmute();
  bool StarvedOfReceives() const;
  size_t TakeReady(absl::Span<Completion> out);
  // The slot is free after this.
  static void Report(const OperationSlot& slot, Completion* out);

  const LibfabricOptions& settings_;  // The domain's.
  const bool spins_;                  // The reactor never sleeps.
  Fid<fid_cq> queue_;
  int provider_fd_ = -1;  // None where the provider has no wait objects.
  bool watched_ = false;
  bool muted_ = false;
  bool held_back_ = false;
  bool draining_ = false;
  bool looks_ = false;   // Without wait objects, for a reactor that sleeps.
  bool polled_ = false;  // By the user, since that was last asked.
  absl::Time attended_ = absl::InfinitePast();  // Told the user, or he looked.
  Lingering* lingering_ = nullptr;              // The reactor's.
  absl::Time looked_in_vain_ = absl::InfinitePast();
  uint32_t reserved_ = 0;
  uint32_t fruitless_ = 0;  // Wake-ups in a row that brought no completion.
  uint64_t seen_ = 0;       // Completions of the provider, ever.
  std::array<fi_cq_msg_entry, kBatch> read_ = {};  // While draining_.

  const uint32_t entries_;

  std::vector<std::unique_ptr<FabricQueuePair>> queue_pairs_;
  // Gone, but a provider with threads of its own might still be writing about
  // them.
  std::vector<std::unique_ptr<FabricQueuePair>> quarantine_;
  Timer timer_;
  Timer burial_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_COMPLETION_QUEUE_H_
