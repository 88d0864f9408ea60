#include "tools/skiffd/tables.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

TEST(SessionTableTest, TellsWhatCommandsDid) {
  protocol::SessionInfo session;
  session.tsih = 7;
  session.initiator_name = "iqn.i";
  scsi::CommandCounts& counts = session.counts;
  counts.reads = 4;
  counts.read_bytes = 4096;
  counts.read_latencies[0].sum_ns = 4000;
  counts.read_latencies[2].sum_ns = 4000;
  counts.read_latencies[2].max_ns = 3000;
  counts.others = 2;
  counts.busy = 5;
  const std::vector<std::string> lines = SessionTable({session});
  EXPECT_THAT(lines, Contains(StartsWith("TSIH 7: iqn.i from")));
  EXPECT_THAT(lines, Contains("  4 reads (4 KiB, 2us each, 3us at most), 0 "
                              "writes (0 B), 2 others"));
  EXPECT_THAT(lines,
              Contains("  0 in flight; 0 ended in CHECK CONDITION, 5 in BUSY "
                       "or TASK SET FULL, 0 were aborted"));
}

TEST(SessionTableTest, TellsNothingOfNoCommands) {
  EXPECT_THAT(SessionTable({protocol::SessionInfo()}),
              Not(Contains(::testing::HasSubstr("in flight"))));
}

}  // namespace
}  // namespace skiff::tools::skiffd
