// An initiator whose device does not invalidate the key of a command that was
// answered. The memory stays registered for as long as a window is bound to it,
// and so the window has to go first; the simulated device insists on that.

#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

using testing::SimFailure;
using testing::SimRdmaOptions;

SimRdmaOptions InfiniBandThatFails(std::shared_ptr<SimFailure> failure) {
  SimRdmaOptions fabric = SimRdmaOptions::InfiniBand();
  fabric.failure = std::move(failure);
  return fabric;
}

class LostInvalidationTest : public RawTargetTest {
 protected:
  LostInvalidationTest()
      : LostInvalidationTest(std::make_shared<SimFailure>()) {}
  explicit LostInvalidationTest(const std::shared_ptr<SimFailure>& failure)
      : RawTargetTest(InfiniBandThatFails(failure)), failure_(failure) {
    failure->status = transport::CompletionStatus::kLocalError;
    failure->nth = UINT64_MAX;
  }

  const std::shared_ptr<SimFailure> failure_;
};

INSTANTIATE_TEST_SUITE_P(Once, LostInvalidationTest, ::testing::Values(false));

TEST_P(LostInvalidationTest, TheWindowGoesFirst) {
  LogIn();
  Submit();
  peer_.Send(ToIser(Good()));
  // What is posted next, by the initiator.
  failure_->nth = failure_->seen + 1;
  ASSERT_TRUE(stack_.RunUntil([this] { return finished_; }));
  EXPECT_TRUE(failure_->struck());
  EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
  ExpectLost("invalidation failed");
}

}  // namespace
}  // namespace skiff::protocol
