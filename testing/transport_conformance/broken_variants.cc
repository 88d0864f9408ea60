// The suite over simulated transports that break the contract on purpose:
// --transport chooses the defect. broken_variants_test.py knows which tests
// have to notice.
#include <memory>
#include <vector>

#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/sim_factory.h"

namespace skiff::testing {
namespace {

TransportChoice Broken(const char* name, SimDefect defect) {
  return {
      name, "",
      [defect](const transport::Address* /*url*/)
          -> absl::StatusOr<std::vector<std::unique_ptr<TransportFactory>>> {
        std::vector<std::unique_ptr<TransportFactory>> factories;
        for (const SimFabric fabric :
             {SimFabric::kInfiniBand, SimFabric::kIwarp, SimFabric::kStream}) {
          factories.push_back(MakeSimFactory(fabric, defect));
        }
        return factories;
      }};
}

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) {
  using skiff::testing::Broken;
  using skiff::testing::SimDefect;
  return skiff::testing::ConformanceMain(
      argc, argv,
      {
          Broken("none", SimDefect::kNone),
          Broken("lost_readable", SimDefect::kLostReadable),
          Broken("lost_writable", SimDefect::kLostWritable),
          Broken("corrupt_byte", SimDefect::kCorruptByte),
          Broken("swapped_segments", SimDefect::kSwappedSegments),
          Broken("reset_looks_clean", SimDefect::kResetLooksClean),
          Broken("nested_callback", SimDefect::kNestedCallback),
          Broken("double_completion", SimDefect::kDoubleCompletion),
          Broken("lost_completion", SimDefect::kLostCompletion),
          Broken("reordered_completions", SimDefect::kReorderedCompletions),
          Broken("early_send_completion", SimDefect::kEarlySendCompletion),
          Broken("early_write_completion", SimDefect::kEarlyWriteCompletion),
          Broken("early_read_completion", SimDefect::kEarlyReadCompletion),
          Broken("wrong_byte_count", SimDefect::kWrongByteCount),
          Broken("unchecked_remote_access", SimDefect::kUncheckedRemoteAccess),
          Broken("ignored_invalidate", SimDefect::kIgnoredInvalidate),
          Broken("lasting_window", SimDefect::kLastingWindow),
          Broken("late_write", SimDefect::kLateWrite),
          Broken("no_flush", SimDefect::kNoFlush),
          Broken("dangling_endpoint", SimDefect::kDanglingEndpoint),
          Broken("unbounded_read_depth", SimDefect::kUnboundedReadDepth),
          Broken("missed_arm", SimDefect::kMissedArm),
          Broken("unchecked_bounds", SimDefect::kUncheckedBounds),
          Broken("stale_buffer", SimDefect::kStaleBuffer),
          Broken("credit_leak", SimDefect::kCreditLeak),
          Broken("overflowing_queue", SimDefect::kOverflowingQueue),
          Broken("nested_disconnect", SimDefect::kNestedDisconnect),
          Broken("wrong_scheme", SimDefect::kWrongScheme),
          Broken("wrong_listen_scheme", SimDefect::kWrongListenScheme),
          Broken("ignored_timeout", SimDefect::kIgnoredTimeout),
          Broken("unchecked_address", SimDefect::kUncheckedAddress),
          Broken("no_devices", SimDefect::kNoDevices),
      });
}
