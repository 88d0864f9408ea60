#include "testing/stack/end_to_end_test_util.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_transport.h"

namespace skiff::protocol {

SimStack::SimStack(uint64_t seed, int reactors,
                   const std::optional<testing::SimRdmaOptions>& fabric)
    : SimStackWorld{testing::SimWorld(
          testing::SimWorld::SeedFromEnvironment(seed))},
      Stack(fabric.has_value() ? "sim://server:3260?kind=rdma"
                               : "sim://server:3260",
            absl::Minutes(10)),
      client_reactor(world.AddReactor("client")) {
  testing::SimTransportOptions sim;
  if (fabric.has_value()) sim.rdma = *fabric;
  EXPECT_TRUE(registry.Add(testing::MakeSimTransport(&world, sim)).ok());
  for (int i = 0; i < reactors; ++i) {
    server_reactors.push_back(world.AddReactor("server"));
  }
  StartServer();
}

void SimStack::MoveToNewHost() {
  const std::string old = client_reactor->host();
  world.network().Blackhole(old, "server");
  client_reactor = world.AddReactor(absl::StrCat("next-", old));
}

}  // namespace skiff::protocol
