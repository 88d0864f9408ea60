#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_LOCAL_STACK_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_LOCAL_STACK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "testing/datamover_conformance/network.h"
#include "testing/sim/sim_random.h"
#include "testing/stack/stack_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/transport.h"

namespace skiff::protocol {

// Initiator and target on this machine, in real time: the server's reactors
// have threads of their own.
class LocalStack final : public Stack {
 public:
  // `address`: what `transport` is to listen on. There is TCP, too.
  LocalStack(const std::string& address,
             std::unique_ptr<transport::Transport> transport,
             const StackOptions& options);
  ~LocalStack() override { End(); }

  // With patience for machines that are busy.
  InitiatorOptions Options() const override;
  void RunFor(absl::Duration duration) override;
  std::string StreamAddress() const override;
  transport::EpollReactor* initiator_reactor() override {
    return reactors_.back().get();
  }
  testing::SimRandom& random() override { return random_; }

 private:
  bool Turn(const std::function<bool()>& done, absl::Duration limit) override;
  std::vector<transport::Reactor*> ServerReactors() override {
    return threads_->reactors();
  }
  void MoveToNewHost() override;
  void RunOnServer(absl::FunctionRef<void()> fn) override {
    threads_->RunOn(0, fn);
  }

  const transport::EpollReactorOptions reactor_options_;
  testing::SimRandom random_;
  std::unique_ptr<transport::ReactorThreads> threads_;
  // All but the last one, the initiator's, are not turned any more.
  std::vector<std::unique_ptr<transport::EpollReactor>> reactors_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_LOCAL_STACK_H_
