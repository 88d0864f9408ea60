#ifndef SKIFF_TRANSPORT_VERBS_COMPLETION_HOST_H_
#define SKIFF_TRANSPORT_VERBS_COMPLETION_HOST_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor/reactor.h"
#include "transport/verbs/work_ring.h"

namespace skiff::transport {

class VerbsQueuePair;

// What queue pairs and shared receive queues ask of the completion queue that
// they complete to, while they are made and while they end. On the data path it
// is the completion queue that calls them, directly.
class CompletionHost {
 public:
  virtual ibv_cq* cq() const = 0;
  virtual Reactor* reactor() const = 0;

  // Room for a queue pair's, or a shared receive queue's, completions.
  virtual absl::Status Reserve(uint32_t entries) = 0;
  virtual void Release(uint32_t entries) = 0;

  virtual void Add(VerbsQueuePair* queue_pair) = 0;
  virtual void Remove(VerbsQueuePair* queue_pair) = 0;
  // Takes over what is over in the queue pair's rings.
  virtual void Collect(VerbsQueuePair* queue_pair) = 0;
  // Takes over everything that the device has completed, so that no work
  // request is referred to any more.
  virtual void Sweep() = 0;
  // Keeps `work` until completions cannot refer to it any more. Those that do
  // are dropped.
  virtual void Bury(std::shared_ptr<BuriedWork> work) = 0;
  // A completion that the device does not make.
  virtual void Push(const Completion& completion) = 0;

 protected:
  ~CompletionHost() = default;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_COMPLETION_HOST_H_
