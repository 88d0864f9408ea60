#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_COMPLETION_HOST_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_COMPLETION_HOST_H_

#include <rdma/fi_eq.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/fabric/ready_ring.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

class FabricQueuePair;

// What queue pairs see of their completion queue. It calls them, so that its
// header is behind theirs. What they do for each operation is here, and no
// virtual call; the rest is the completion queue's.
class FabricCompletionHost {
 public:
  FabricCompletionHost(const FabricCompletionHost&) = delete;
  FabricCompletionHost& operator=(const FabricCompletionHost&) = delete;

  Reactor* reactor() const { return reactor_; }
  const std::shared_ptr<FabricDomain>& domain() const { return domain_; }

  // The operation is over. True: it is reported; else its slot stays as it is
  // until then.
  bool Push(OperationSlot* slot) { return ready_.Push(slot); }
  // A receive was posted: a message that waited for one can move on.
  void ReceivePosted() {
    if (work_.unsettled) ScheduleTurnEnd();
  }
  // For each, if the queue has to know.
  void RequestPosted() {
    work_.active = reactor_->Now();
    if (!work_.polling) ScheduleTurnEnd();
  }
  // Calls queue_pair->Service() at the end of the turn; `listed`: it is to be
  // called already.
  void ScheduleService(FabricQueuePair* queue_pair, bool listed) {
    if (!listed) work_.service.push_back(queue_pair);
    ScheduleTurnEnd();
  }
  // The queue pair has READs to do that wait for a look at the queue; or has
  // none any more.
  void ReadsDue(FabricQueuePair* queue_pair) {
    work_.with_reads_due.push_back(queue_pair);
    if (!work_.polling) ScheduleTurnEnd();
  }
  void NoReadsDue(FabricQueuePair* queue_pair) {
    std::erase(work_.with_reads_due, queue_pair);
  }

  virtual fid_cq* handle() const = 0;
  virtual bool wants_posts() const = 0;
  // Takes entries for a queue pair; an error when there are too few.
  virtual absl::Status Reserve(uint32_t entries) = 0;
  virtual FabricQueuePair* Adopt(
      std::unique_ptr<FabricQueuePair> queue_pair) = 0;
  // Reads all that the provider has, for the queue pairs. Does not act on what
  // it finds.
  virtual void Drain() = 0;
  // Its user is gone; it goes when its completions were polled.
  virtual void Detached(FabricQueuePair* queue_pair) = 0;
  // The provider did not take an operation yet: try again soon.
  virtual void HeldBack() = 0;
  // A queue pair closes step by step: the queue stays until it is done, even if
  // its users let go.
  virtual void Linger() = 0;
  // A peer says that there is something to look at.
  virtual void Wake() = 0;

 protected:
  // What queue pairs have left for the queue to do.
  struct Work {
    std::vector<FabricQueuePair*> service;
    std::vector<FabricQueuePair*> with_reads_due;
    // When there was something to look at last.
    absl::Time active;
    bool unsettled = false;  // The provider's descriptor does not tell of all.
    bool polling = false;    // The queue is looked at every turn.
  };

  // `turn_end` is what ScheduleTurnEnd() schedules.
  FabricCompletionHost(std::shared_ptr<FabricDomain> domain, Reactor* reactor,
                       TurnHook* turn_end, uint32_t entries)
      : domain_(std::move(domain)),
        reactor_(reactor),
        turn_end_(turn_end),
        ready_(entries) {}
  ~FabricCompletionHost() = default;

  ReadyRing& ready() { return ready_; }
  const ReadyRing& ready() const { return ready_; }
  Work& work() { return work_; }
  const Work& work() const { return work_; }
  void ScheduleTurnEnd() { reactor_->ScheduleTurnEnd(turn_end_); }

 private:
  const std::shared_ptr<FabricDomain> domain_;
  Reactor* const reactor_;
  TurnHook* const turn_end_;
  ReadyRing ready_;
  Work work_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_COMPLETION_HOST_H_
