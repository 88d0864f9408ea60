// What takes real reactors, threads and files, or takes the simulated network
// too long.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/driver/stack_test_util.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/file_test_util.h"
#include "scsi/target/target.h"
#include "testing/datamover_conformance/network.h"
#include "transport/epoll_reactor.h"

namespace skiff::protocol {
namespace {

class RealTimeTest : public ::testing::TestWithParam<Network> {
 protected:
  static constexpr int kReactors = 2;  // Of the server.

  std::unique_ptr<Stack> MakeStack(
      const transport::EpollReactorOptions& reactors = {}) {
    return GetParam().make_stack({1, kReactors, reactors});
  }
};

INSTANTIATE_TEST_SUITE_P(Networks, RealTimeTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

void RunLoad(Stack* stack, const VerifiedLoad::Options& options) {
  VerifiedLoad load(stack->initiator.get(), &stack->random(), options);
  load.Start();
  EXPECT_TRUE(stack->RunUntil([&load] { return load.done(); }))
      << load.completed() << " commands completed";
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
}

// A target with one logical unit in a new file.
std::shared_ptr<scsi::Target> MakeFileTarget(const std::string& path) {
  std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
  scsi::FileBackendOptions file;
  file.path = path;
  file.size_bytes = kBlocks * kBlock;
  file.block_size = kBlock;
  const absl::Status added = target->AddLogicalUnit(
      scsi::MakeFileBackend(file).value(), scsi::LogicalUnitOptions());
  EXPECT_TRUE(added.ok()) << added;
  return target;
}

// The target's view of the only session.
SessionInfo SessionAtTarget(Stack* stack) {
  std::vector<SessionInfo> sessions;
  std::atomic<bool> listed{false};
  stack->server->ListSessions([&](std::vector<SessionInfo> found) {
    sessions = std::move(found);
    listed = true;
  });
  EXPECT_TRUE(stack->RunUntil([&listed] { return listed.load(); }));
  EXPECT_EQ(sessions.size(), 1u);
  return sessions.empty() ? SessionInfo() : sessions[0];
}

TEST_P(RealTimeTest, LongCommandsAtDepth) {
  for (const bool digests : {false, true}) {
    if (digests && GetParam().rdma()) break;  // RDMA has its own.
    const auto stack = MakeStack();
    InitiatorOptions options = stack->Options();
    if (digests) {
      options.offer.header_digest = {Digest::kCrc32c};
      options.offer.data_digest = {Digest::kCrc32c};
    }
    stack->LogIn(options);
    RunLoad(stack.get(), {.depth = 64, .max_blocks = 256, .commands = 3000});
  }
}

TEST_P(RealTimeTest, OnReactorsThatSpinForAWhile) {
  for (const uint32_t depth : {1, 64}) {
    const auto stack = MakeStack({.spin = absl::Milliseconds(1)});
    stack->LogIn();
    // It comes to sleep.
    const auto* reactor =
        static_cast<transport::EpollReactor*>(stack->initiator_reactor());
    EXPECT_TRUE(stack->RunUntil([reactor] {
      return reactor->NextDeadline() > transport::EpollReactor::MonotonicNow();
    }));
    RunLoad(stack.get(), {.depth = depth, .commands = 1000});
  }
}

// Of which some sleep, some spin, and some do either in turns.
TEST_P(RealTimeTest, OnAdaptiveReactors) {
  for (const absl::Duration spin :
       {absl::Microseconds(5), absl::Microseconds(100), absl::Seconds(10)}) {
    for (const uint32_t depth : {1, 8}) {
      const auto stack = MakeStack({.spin = spin, .adaptive_spin = true});
      stack->LogIn();
      RunLoad(stack.get(), {.depth = depth, .commands = 1000});
      if (spin == absl::Seconds(10)) {
        EXPECT_EQ(stack->initiator_reactor()->spin(), spin);
      }
    }
  }
}

// A medium in a file has no memory to move data from and to. Commands are
// longer than one of the worker's buffers, and use its halves in turn: the file
// works on the one while the other is on the wire.
TEST_P(RealTimeTest, FileDiskAtDepth) {
  const scsi::TemporaryFile file("datamover");
  const auto stack = MakeStack();
  stack->StopServer();
  stack->target = MakeFileTarget(file.path());
  stack->server_options.worker.buffer_bytes = 256u << 10;
  // Fewer than commands.
  stack->server_options.worker.buffer_pool_bytes = 2u << 20;
  stack->StartServer();
  stack->LogIn();
  // Up to 512 KiB.
  RunLoad(stack.get(),
          {.depth = 16, .max_blocks = 1024, .commands = 500, .pieces = 1});
  const SessionInfo session = SessionAtTarget(stack.get());
  EXPECT_EQ(session.connection.data_model, GetParam().data_model);
  if (!GetParam().rdma()) return;
  // A step of a command is an operation of 128 KiB at most.
  const ConnectionCounters& counters = session.connection.counters;
  EXPECT_GT(counters.rdma_writes, counters.rdma_write_bytes / (128u << 10));
  EXPECT_GT(counters.rdma_reads, counters.rdma_read_bytes / (128u << 10));
  EXPECT_GT(counters.rdma_write_bytes, uint64_t{100} * kBlock * 512);
  EXPECT_GT(counters.rdma_read_bytes, uint64_t{100} * kBlock * 512);
  // But immediate data.
  EXPECT_LT(counters.copied_bytes, uint64_t{500} * 8192);
}

}  // namespace
}  // namespace skiff::protocol
