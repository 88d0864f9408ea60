#ifndef SKIFF_TESTING_SIM_SIM_SHARED_RECEIVE_QUEUE_H_
#define SKIFF_TESTING_SIM_SIM_SHARED_RECEIVE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "testing/sim/sim_completion_queue.h"
#include "testing/sim/sim_memory.h"
#include "transport/rdma_endpoint.h"

namespace skiff::testing {

// A posted RECEIVE that waits for a message.
struct SimReceive {
  transport::OperationId id;
  std::vector<transport::Sge> sges;
};

// A queue pair that receives from a shared queue.
class SimReceiver {
 public:
  virtual ~SimReceiver() = default;
  // A RECEIVE was posted for which this side had waited.
  virtual void OnSharedReceive(int side) = 0;
};

class SimSharedReceiveQueue final
    : public transport::SharedReceiveQueue,
      public std::enable_shared_from_this<SimSharedReceiveQueue> {
 public:
  SimSharedReceiveQueue(std::shared_ptr<SimDomain> domain, SimReactor* reactor,
                        uint32_t entries)
      : domain_(std::move(domain)), reactor_(reactor), entries_(entries) {}
  ~SimSharedReceiveQueue() override;

  transport::PostResult PostReceive(
      transport::OperationId id, absl::Span<const transport::Sge> to) override;
  void Flush() override {}

  SimReactor* reactor() const { return reactor_; }
  // Every endpoint has to use the same completion queue; the first one says
  // which, and pays the room in it.
  absl::Status Use(const std::shared_ptr<SimCompletionQueue>& cq);

  std::deque<SimReceive>& receives() { return receives_; }
  void OnPolled() {
    if (used_ > 0) --used_;
  }
  void WaitForReceive(std::weak_ptr<SimReceiver> receiver, int side) {
    waiting_.emplace_back(std::move(receiver), side);
  }

 private:
  const std::shared_ptr<SimDomain> domain_;
  SimReactor* const reactor_;
  const uint32_t entries_;
  uint32_t used_ = 0;  // Until their completions are polled.
  std::shared_ptr<SimCompletionQueue> cq_;
  std::deque<SimReceive> receives_;
  std::vector<std::pair<std::weak_ptr<SimReceiver>, int>> waiting_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_SHARED_RECEIVE_QUEUE_H_
