#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_PARTS_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/transport_conformance/local_host.h"

namespace skiff::testing {

struct LocalHost::Buffer {
  Buffer(size_t size, size_t misalignment) : memory(size, misalignment) {}

  GuardedBuffer memory;
  std::unique_ptr<transport::MemoryRegion> region;
};

struct LocalHost::Queue {
  uint32_t entries = 0;
  uint32_t receives = 0;
  std::shared_ptr<transport::CompletionQueue> completions;
  std::shared_ptr<transport::SharedReceiveQueue> shared;
  bool had_shared = false;
  Ledger ledger;  // Of the shared receives.
};

// Waits for a completion queue's descriptor.
class LocalHost::Waker final : public transport::FdHandler {
 public:
  Waker(transport::Reactor* reactor, transport::CompletionQueue* queue)
      : reactor_(reactor), queue_(queue) {}
  ~Waker() override {
    if (fd_ >= 0) reactor_->UnwatchFd(fd_);
  }

  absl::Status Watch();
  void OnFdReady(uint32_t /*events*/) override {
    queue_->Disarm();
    woken_ = true;
  }
  bool TakeWoken() { return std::exchange(woken_, false); }

 private:
  transport::Reactor* const reactor_;
  transport::CompletionQueue* const queue_;
  int fd_ = -1;
  bool woken_ = false;
};

struct LocalHost::End {
  int number = 0;
  EndPlan plan;
  transport::Reactor* reactor = nullptr;
  EndState state;
  std::unique_ptr<transport::ConnectAttempt> attempt;
  std::unique_ptr<transport::ByteStream> stream;
  std::unique_ptr<transport::RdmaEndpoint> endpoint;
  transport::RdmaEndpoint* raw = nullptr;  // From prepare() on.
  // Completions may name it: from prepare() until it was destroyed.
  bool exists = false;
  Ledger ledger;
  std::unique_ptr<Waker> waker;  // Of the queue; goes before it.
};

struct LocalHost::Listener {
  ListenPlan plan;
  ListenerState state;
  std::vector<std::unique_ptr<transport::ConnectionRequest>> kept;
  std::unique_ptr<transport::Listener> listener;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_LOCAL_HOST_PARTS_H_
