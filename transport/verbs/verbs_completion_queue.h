#ifndef SKIFF_TRANSPORT_VERBS_VERBS_COMPLETION_QUEUE_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "transport/net/scoped_fd.h"
#include "transport/rdma_endpoint.h"
#include "transport/verbs/completion_host.h"
#include "transport/verbs/verbs_domain.h"
#include "transport/verbs/work_ring.h"

namespace skiff::transport {

// A completion queue with its channel. Queue pairs whose endpoint is gone stay
// here until their last completion was polled.
class VerbsCompletionQueue final
    : public CompletionQueue,
      public CompletionHost,
      public std::enable_shared_from_this<VerbsCompletionQueue> {
 public:
  static absl::StatusOr<std::shared_ptr<VerbsCompletionQueue>> Create(
      std::shared_ptr<VerbsDomain> domain, Reactor* reactor, uint32_t entries);
  ~VerbsCompletionQueue() override;

  int Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  void Disarm() override;
  int fd() const override { return epoll_.get(); }

  const VerbsDomain* domain() const { return domain_.get(); }
  ibv_cq* cq() const override { return cq_; }
  Reactor* reactor() const override { return reactor_; }
  absl::Status Reserve(uint32_t entries) override;
  void Release(uint32_t entries) override { reserved_ -= entries; }
  void Add(VerbsQueuePair* queue_pair) override;
  void Remove(VerbsQueuePair* queue_pair) override;
  void Collect(VerbsQueuePair* queue_pair) override;
  void Sweep() override;
  void Bury(std::shared_ptr<BuriedWork> work) override;
  void Push(const Completion& completion) override;

  // Keeps the queue pair of an endpoint that is gone until it is drained.
  void Adopt(std::shared_ptr<VerbsQueuePair> queue_pair);
  // Completions that were not polled yet name this endpoint no more.
  void Forget(const RdmaEndpoint* endpoint);
  size_t buried() const { return buried_.size(); }

 private:
  static constexpr int kBatch = 32;

  VerbsCompletionQueue(std::shared_ptr<VerbsDomain> domain, Reactor* reactor,
                       uint32_t entries)
      : domain_(std::move(domain)), reactor_(reactor), entries_(entries) {}
  absl::Status Initialize();
  inline bool Refill();
  inline void SetReceived(const ibv_wc& wc, Completion* out) const;
  inline bool ReportUsual(const ibv_wc& wc, Completion* out);
  inline Completion* ExpandBatch(Completion* next, const Completion* end);
  size_t ExpandUnusual(const ibv_wc& wc, Completion* out);
  size_t ExpandReceive(const ibv_wc& wc, Completion* out);
  size_t TakeEarlier(absl::Span<Completion> out);
  size_t Drain(absl::Span<Completion> out);
  Completion* DrainBehind(Completion* next, absl::Span<Completion> out,
                          bool was_all);
  int PollBatch(absl::Span<Completion> out);
  int PollUnusual(absl::Span<Completion> out);
  void ReleaseDrained(bool idle);
  void ReleaseBuried();
  void SetWake(bool wake);

  const std::shared_ptr<VerbsDomain> domain_;
  Reactor* const reactor_;
  const uint32_t entries_;
  uint32_t reserved_ = 0;
  unsigned int invalidated_flags_ = IBV_WC_WITH_INV;

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  // Holds the channel, and, while there is something to wake up for that the
  // device does not know of, a descriptor that is always readable.
  ScopedFd epoll_;
  bool channel_watched_ = false;
  bool wake_ = false;
  bool armed_ = false;
  unsigned int unacknowledged_ = 0;

  // In the order in which they are reported: `backlog_`, which only connections
  // that end use; what `draining_` has ready; the rest of `batch_`; the
  // device's queue.
  std::deque<Completion> backlog_;
  VerbsQueuePair* draining_ = nullptr;
  std::array<ibv_wc, kBatch> batch_;
  const ibv_wc* batch_next_ = nullptr;
  const ibv_wc* batch_end_ = nullptr;

  absl::flat_hash_map<uint32_t, VerbsQueuePair*> queue_pairs_;  // By QP number.
  std::vector<std::shared_ptr<VerbsQueuePair>> orphans_;
  std::vector<std::shared_ptr<BuriedWork>> buried_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_COMPLETION_QUEUE_H_
