// Each operation of an iSER session fails once, from the first message of the
// login on: one after the other, in every way in which a device can refuse it.

#include <memory>
#include <ostream>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"
#include "testing/datamover_conformance/fabrics.h"

namespace skiff::protocol {
namespace {

using transport::CompletionStatus;

struct Failure {
  const char* name;
  CompletionStatus status;
};

void PrintTo(const Failure& failure, std::ostream* out) {
  *out << failure.name;
}

constexpr Failure kFailures[] = {
    {"LocalError", CompletionStatus::kLocalError},
    {"RemoteAccess", CompletionStatus::kRemoteAccess},
    {"RemoteNotReady", CompletionStatus::kRemoteNotReady},
    {"TransportError", CompletionStatus::kTransportError},
};

class FailedOperationsTest
    : public ::testing::TestWithParam<std::tuple<Fabric, Failure>> {};

TEST_P(FailedOperationsTest, CostNoDataAndNoCommand) {
  const auto& [fabric, failure] = GetParam();
  constexpr uint64_t kEnough = 1000;
  int refused = 0;
  int lost = 0;
  uint64_t nth = 0;
  for (bool struck = true; struck && !HasFailure();) {
    ASSERT_LT(++nth, kEnough);
    SCOPED_TRACE(::testing::Message() << "operation " << nth << " fails");
    testing::SimRdmaOptions rdma = *fabric.rdma;
    rdma.failure = std::make_shared<testing::SimFailure>();
    rdma.failure->nth = nth;
    rdma.failure->status = failure.status;
    SimStack stack(nth, 1, rdma);
    stack.Connect(stack.Options());
    stack.RunUntil([&] { return stack.ready().has_value(); });
    ASSERT_TRUE(stack.ready().has_value());
    struck = rdma.failure->struck();
    if (!stack.ready()->ok()) {
      ++refused;
      EXPECT_TRUE(struck) << *stack.ready();
      EXPECT_TRUE(absl::StrContains(stack.ready()->message(), stack.portal))
          << *stack.ready();
      continue;
    }
    VerifiedLoad::Options options;
    options.commands = 12;
    options.depth = 4;
    options.max_blocks = 128;
    VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
    load.Start();
    stack.RunUntil([&] { return load.done(); });
    EXPECT_TRUE(load.done()) << load.completed() << " commands completed";
    for (const std::string& error : load.errors()) ADD_FAILURE() << error;
    struck = rdma.failure->struck();
    if (stack.initiator->stats().reconnects > 0) {
      ++lost;
      EXPECT_TRUE(
          absl::StrContains(absl::StrJoin(stack.log, "\n"), "session lost"));
    }
  }
  EXPECT_GE(refused, 2);
  EXPECT_GT(lost, 20);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FailedOperationsTest,
                         ::testing::Combine(::testing::Values(InfiniBand(),
                                                              Iwarp(), Plain()),
                                            ::testing::ValuesIn(kFailures)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               "_",
                                               std::get<1>(info.param).name);
                         });

}  // namespace
}  // namespace skiff::protocol
