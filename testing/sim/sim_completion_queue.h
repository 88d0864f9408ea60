#ifndef SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_
#define SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_

#include <deque>
#include <memory>

#include "testing/sim/sim_reactor.h"
#include "transport/rdma_endpoint.h"

namespace skiff::testing {

// Who is told that a completion was taken, and knows the endpoint if it still
// exists.
class SimCompletionOwner {
 public:
  virtual ~SimCompletionOwner() = default;
  virtual transport::RdmaEndpoint* endpoint_of(int side) const = 0;
  virtual void OnPolled(int side, transport::OperationKind kind) = 0;
};

// A completion queue. fd() is one of the simulator's descriptors, which a
// SimReactor watches like a real one: Arm(), WatchFd() and Disarm() work as
// with hardware.
class SimCompletionQueue final
    : public transport::CompletionQueue,
      public std::enable_shared_from_this<SimCompletionQueue> {
 public:
  explicit SimCompletionQueue(SimReactor* reactor)
      : reactor_(reactor), source_(reactor->world()) {}

  SimReactor* reactor() const { return reactor_; }

  int Poll(absl::Span<transport::Completion> out) override;
  bool Arm() override;
  void Disarm() override { source_.SetReadable(false); }
  int fd() const override { return source_.fd(); }

  struct Entry {
    transport::Completion completion;
    std::shared_ptr<SimCompletionOwner> owner;
    int side = 0;
    bool keep_endpoint = false;  // Report it even if it is gone.
  };
  void Push(Entry entry);
  // Exchanges the two newest entries if they are of the same queue pair and
  // kind.
  void SwapNewest();
  void set_deaf(bool deaf) { deaf_ = deaf; }

 private:
  SimReactor* const reactor_;
  SimEventSource source_;
  std::deque<Entry> entries_;
  bool armed_ = false;
  bool deaf_ = false;  // SimDefect::kMissedArm.
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_
