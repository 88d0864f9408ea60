#ifndef SKIFF_TRANSPORT_VERBS_VERBS_SHARED_RECEIVE_QUEUE_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_SHARED_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/rdma_endpoint.h"
#include "transport/verbs/completion_host.h"
#include "transport/verbs/verbs_domain.h"
#include "transport/verbs/work_ring.h"

namespace skiff::transport {

class VerbsSharedReceiveQueue;

// Messages take receives of a shared queue in order, but queue pairs complete
// them in any.
struct SharedReceiveSlot : WorkSlot {
  VerbsSharedReceiveQueue* queue = nullptr;
  bool used = false;

  static SharedReceiveSlot* From(WorkSlot* slot) {
    return static_cast<SharedReceiveSlot*>(slot);
  }
};

class VerbsSharedReceiveQueue final
    : public SharedReceiveQueue,
      public std::enable_shared_from_this<VerbsSharedReceiveQueue> {
 public:
  static absl::StatusOr<std::shared_ptr<SharedReceiveQueue>> Create(
      std::shared_ptr<VerbsDomain> domain, Reactor* reactor, uint32_t entries,
      uint32_t max_sges);
  ~VerbsSharedReceiveQueue() override;

  PostResult PostReceive(OperationId id, absl::Span<const Sge> to) override;
  void Flush() override {}

  ibv_srq* srq() const { return srq_; }
  const VerbsDomain* domain() const { return domain_.get(); }
  Reactor* reactor() const { return reactor_; }

  uint32_t entries() const { return static_cast<uint32_t>(slots_.size()); }

  // The first endpoint's completion queue is that of all.
  absl::Status Attach(const std::shared_ptr<CompletionHost>& queue);
  // The completion of `slot` was reported.
  void Retire(WorkSlot* slot);

 private:
  VerbsSharedReceiveQueue(std::shared_ptr<VerbsDomain> domain, Reactor* reactor,
                          uint32_t entries, uint32_t max_sges);

  const std::shared_ptr<VerbsDomain> domain_;
  Reactor* const reactor_;
  ibv_srq* srq_ = nullptr;
  std::vector<SharedReceiveSlot> slots_;
  std::vector<SharedReceiveSlot*> free_;
  std::vector<ibv_sge> sges_;  // Of the request that is being posted.
  std::weak_ptr<CompletionHost> completion_queue_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_SHARED_RECEIVE_QUEUE_H_
