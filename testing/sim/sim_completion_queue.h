#ifndef SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_
#define SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
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
  // `entries` bounds what the endpoints together may have outstanding.
  SimCompletionQueue(SimReactor* reactor, uint32_t entries)
      : reactor_(reactor), source_(reactor->world()), entries_left_(entries) {}

  SimReactor* reactor() const { return reactor_; }

  int Poll(absl::Span<transport::Completion> out) override;
  bool Arm() override;
  void Disarm() override { source_.SetReadable(false); }
  int fd() const override { return source_.fd(); }

  struct Entry {
    transport::Completion completion;
    std::shared_ptr<SimCompletionOwner> owner;  // Null: of no endpoint.
    int side = 0;
    bool shared = false;  // A shared receive queue has paid for the room.
    bool keep_endpoint = false;  // Report it even if it is gone.
  };
  void Push(Entry entry);
  // Exchanges the two newest entries if they are of the same queue pair and
  // kind.
  void SwapNewest();
  void set_deaf(bool deaf) { deaf_ = deaf; }

  // Takes room for an endpoint, or says why there is none.
  absl::Status Reserve(uint32_t entries);
  // Gives back the room of an endpoint that is gone, apart from what its
  // completions that nobody polled yet take.
  void Release(const SimCompletionOwner* owner, int side, uint32_t entries);

 private:
  SimReactor* const reactor_;
  SimEventSource source_;
  std::deque<Entry> entries_;
  uint32_t entries_left_;
  bool armed_ = false;
  bool deaf_ = false;  // SimDefect::kMissedArm.
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_COMPLETION_QUEUE_H_
