// Many long commands, on disks in memory and in files: for networks in real
// time. The simulated streams take far too many steps for them.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/file_test_util.h"
#include "scsi/target/target.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

class LongCommandsTest : public ::testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(Networks, LongCommandsTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

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
  const std::vector<SessionInfo> sessions = stack->Sessions();
  EXPECT_EQ(sessions.size(), 1u);
  return sessions.empty() ? SessionInfo() : sessions[0];
}

TEST_P(LongCommandsTest, RamDiskAtDepth) {
  for (const bool digests : {false, true}) {
    if (digests && GetParam().rdma()) break;  // RDMA has its own.
    const auto stack = GetParam().MakeStack(1, /*server_reactors=*/2);
    InitiatorOptions options = stack->Options();
    if (digests) {
      options.offer.header_digest = {Digest::kCrc32c};
      options.offer.data_digest = {Digest::kCrc32c};
    }
    stack->LogIn(options);
    stack->RunLoad({.depth = 64, .max_blocks = 256, .commands = 1000});
  }
}

// Far longer than what goes unasked, and in many pieces.
TEST_P(LongCommandsTest, OfMegabytesInPieces) {
  const auto stack = GetParam().MakeStack(16);
  InitiatorOptions options = stack->Options();
  options.offer.initial_r2t = true;
  options.offer.immediate_data = false;
  options.offer.max_recv_data_segment_length = 65536;
  stack->LogIn(options);
  // Up to 2 MiB.
  stack->RunLoad(
      {.depth = 4, .max_blocks = 4096, .commands = 60, .pieces = 100});
}

// A medium in a file has no memory to move data from and to. Commands are
// longer than one of the worker's buffers, and use its halves in turn: the file
// works on the one while the other is on the wire.
TEST_P(LongCommandsTest, FileDiskAtDepth) {
  const scsi::TemporaryFile file("datamover");
  const auto stack = GetParam().MakeStack(1, /*server_reactors=*/2);
  stack->StopServer();
  stack->target = MakeFileTarget(file.path());
  stack->server_options.worker.buffer_bytes = 256u << 10;
  // Fewer than commands.
  stack->server_options.worker.buffer_pool_bytes = 2u << 20;
  stack->StartServer();
  stack->LogIn();
  // Up to 512 KiB.
  stack->RunLoad(
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
