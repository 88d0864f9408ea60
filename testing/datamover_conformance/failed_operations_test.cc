// Each operation of an iSER session fails once, from the first message of the
// login on: one after the other, in every way in which a device can refuse it.
// Receives fail only after a message has come.

#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using ::testing::UnorderedElementsAre;
using transport::CompletionStatus;

struct Failure {
  const char* name;
  CompletionStatus status;
  const char* told;  // In the log of the end whose operation it was.
  bool of_receives = false;
};

void PrintTo(const Failure& failure, std::ostream* out) {
  *out << failure.name;
}

constexpr char kLocalError[] = "the device refused our own buffer or key";
constexpr char kTooLong[] = "the message was longer than the receive";

constexpr Failure kFailures[] = {
    {"LocalError", CompletionStatus::kLocalError, kLocalError},
    {"RemoteAccess", CompletionStatus::kRemoteAccess,
     "the peer's device refused the STag, its bounds or permission"},
    {"RemoteNotReady", CompletionStatus::kRemoteNotReady,
     "the peer had no receive posted"},
    {"TooLong", CompletionStatus::kTooLong, kTooLong},
    {"TransportError", CompletionStatus::kTransportError,
     "the connection was lost"},
    {"ReceiveLocalError", CompletionStatus::kLocalError, kLocalError,
     /*of_receives=*/true},
    {"ReceiveTooLong", CompletionStatus::kTooLong, kTooLong,
     /*of_receives=*/true},
};

class FailedOperationsTest
    : public ::testing::TestWithParam<std::tuple<Fabric, Failure>> {
 protected:
  // Who posted it says what failed and how, or the other end, whose device
  // refused it, says so first.
  void CountTold(const std::string& log) {
    const Failure& failure = std::get<1>(GetParam());
    const std::string how = absl::StrCat(" failed: ", failure.told);
    bool told = absl::StrContains(log, "a failure that a test asked for");
    for (absl::string_view line : absl::StrSplit(log, '\n')) {
      if (!absl::StrContains(line, how)) continue;
      told = true;
      for (const char* operation :
           {"Send", "RDMA Write", "RDMA Read", "receive"}) {
        if (absl::StrContains(line, absl::StrCat(": ", operation))) {
          told_.insert(absl::StrCat(
              absl::StartsWith(line, "target: ") ? "target" : "initiator", " ",
              operation));
        }
      }
    }
    EXPECT_TRUE(told) << how << " is not in\n" << log;
  }

  std::set<std::string> told_;
};

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
    rdma.failure->of_receives = failure.of_receives;
    std::string log;  // Of both ends.
    SimStack stack(nth, 1, rdma);
    stack.StopServer();
    stack.server_options.log = [&log](LogLevel, absl::string_view line) {
      absl::StrAppend(&log, "target: ", line, "\n");
    };
    stack.StartServer();
    stack.Connect(stack.Options());
    stack.RunUntil([&] { return stack.ready().has_value(); });
    ASSERT_TRUE(stack.ready().has_value());
    struck = rdma.failure->struck();
    if (!stack.ready()->ok()) {
      ++refused;
      EXPECT_TRUE(struck) << *stack.ready();
      EXPECT_TRUE(absl::StrContains(stack.ready()->message(), stack.portal))
          << *stack.ready();
      CountTold(absl::StrCat(log, stack.ready()->message(), "\n"));
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
      CountTold(absl::StrCat(log, absl::StrJoin(stack.log, "\n"), "\n"));
    }
  }
  EXPECT_GE(refused, 2);
  EXPECT_GT(lost, 20);
  if (failure.of_receives) {
    EXPECT_THAT(told_,
                UnorderedElementsAre("target receive", "initiator receive"));
  } else {
    EXPECT_THAT(told_,
                UnorderedElementsAre("target Send", "target RDMA Write",
                                     "target RDMA Read", "initiator Send"));
  }
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
