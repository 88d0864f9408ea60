#include "testing/datamover_conformance/local_stack.h"

#include <chrono>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace skiff::protocol {

LocalStack::LocalStack(const std::string& address,
                       std::unique_ptr<transport::Backend> backend,
                       const StackOptions& options)
    : Stack(address, absl::Minutes(2)), random_(options.seed) {
  EXPECT_TRUE(registry.Add(std::move(backend)).ok());
  transport::ReactorThreadsOptions threads;
  threads.count = options.server_reactors;
  threads.reactor = options.reactors;
  threads_ = transport::ReactorThreads::Start(threads).value();
  reactor_ = transport::EpollReactor::Create(options.reactors).value();
  StartServer();
}

LocalStack::~LocalStack() {
  initiator.reset();
  StopServer();
}

InitiatorOptions LocalStack::Options() const {
  InitiatorOptions options = Stack::Options();
  options.login_timeout = absl::Seconds(60);
  options.nop_timeout = absl::Seconds(60);
  options.reconnect_delay = absl::Milliseconds(5);
  options.max_reconnect_delay = absl::Milliseconds(100);
  return options;
}

bool LocalStack::Turn(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time end = transport::EpollReactor::MonotonicNow() + limit;
  while (!done()) {
    if (transport::EpollReactor::MonotonicNow() > end) return false;
    if (reactor_->Poll() == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

void LocalStack::RunFor(absl::Duration duration) {
  Turn([] { return false; }, duration);
}

}  // namespace skiff::protocol
