// Reactors that sleep, spin, or do either: for networks in real time.

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/stack_test_util.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::protocol {
namespace {

class ReactorsTest : public ::testing::TestWithParam<Network> {
 protected:
  static constexpr int kReactors = 2;  // Of the server.

  std::unique_ptr<Stack> MakeStack(
      const transport::EpollReactorOptions& reactors) {
    return GetParam().make_stack({1, kReactors, reactors});
  }
};

INSTANTIATE_TEST_SUITE_P(Networks, ReactorsTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

TEST_P(ReactorsTest, SpinForAWhile) {
  for (const uint32_t depth : {1, 64}) {
    const auto stack = MakeStack({.spin = absl::Milliseconds(1)});
    stack->LogIn();
    // It comes to sleep.
    const auto* reactor =
        static_cast<transport::EpollReactor*>(stack->initiator_reactor());
    EXPECT_TRUE(stack->RunUntil([reactor] {
      return reactor->NextDeadline() > transport::EpollReactor::MonotonicNow();
    }));
    stack->RunLoad({.depth = depth, .commands = 1000});
  }
}

// Some sleep then, some spin, and some do either in turns.
TEST_P(ReactorsTest, Adapt) {
  for (const absl::Duration spin :
       {absl::Microseconds(5), absl::Microseconds(100), absl::Seconds(10)}) {
    for (const uint32_t depth : {1, 8}) {
      const auto stack = MakeStack({.spin = spin, .adaptive_spin = true});
      stack->LogIn();
      stack->RunLoad({.depth = depth, .commands = 1000});
      if (spin == absl::Seconds(10)) {
        EXPECT_EQ(stack->initiator_reactor()->spin(), spin);
      }
    }
  }
}

}  // namespace
}  // namespace skiff::protocol
