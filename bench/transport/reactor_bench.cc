// What a turn of a reactor with a busy poller costs.

#include <memory>

#include "benchmark/benchmark.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::transport {
namespace {

// Has nothing to do, for as many turns as the benchmark wants.
class IdlePoller final : public Poller {
 public:
  IdlePoller(EpollReactor* reactor, benchmark::State* state)
      : reactor_(reactor), state_(state) {}

  int Poll() override {
    if (!state_->KeepRunning()) reactor_->Stop();
    return 0;
  }

 private:
  EpollReactor* const reactor_;
  benchmark::State* const state_;
};

void BusyPollerTurn(benchmark::State& state) {
  const auto reactor = EpollReactor::Create().value();
  IdlePoller poller(reactor.get(), &state);
  reactor->AddPoller(&poller, /*busy=*/true);
  reactor->Run();
  reactor->RemovePoller(&poller);
}
BENCHMARK(BusyPollerTurn);

}  // namespace
}  // namespace skiff::transport
