#ifndef SKIFF_TESTING_STACK_END_TO_END_TEST_UTIL_H_
#define SKIFF_TESTING_STACK_END_TO_END_TEST_UTIL_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_random.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_world.h"
#include "testing/stack/stack_test_util.h"
#include "transport/reactor/reactor.h"

namespace skiff::protocol {

// What outlives everything else of a SimStack.
struct SimStackWorld {
  testing::SimWorld world;
};

// A target server and initiators on a simulated network, in virtual time.
class SimStack final : public SimStackWorld, public Stack {
 public:
  // `fabric`: RDMA, and so iSER, instead of byte streams and iSCSI.
  explicit SimStack(
      uint64_t seed, int server_reactors = 1,
      const std::optional<testing::SimRdmaOptions>& fabric = std::nullopt);
  ~SimStack() override { End(); }

  void RunFor(absl::Duration duration) override { world.RunFor(duration); }
  std::string StreamAddress() const override { return "sim://server:0"; }
  transport::Reactor* initiator_reactor() override { return client_reactor; }
  testing::SimRandom& random() override { return world.random(); }

  std::vector<transport::Reactor*> server_reactors;
  testing::SimReactor* client_reactor;

 private:
  bool Turn(const std::function<bool()>& done, absl::Duration limit) override {
    return world.RunUntil(done, limit);
  }
  std::vector<transport::Reactor*> ServerReactors() override {
    return server_reactors;
  }
  void MoveToNewHost() override;
  void RunOnServer(absl::FunctionRef<void()> fn) override { fn(); }
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_END_TO_END_TEST_UTIL_H_
