// A session that ends where memory runs out in the middle.

#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "protocol/session/target_session_test_util.h"
#include "testing/refusing_memory.h"

namespace skiff::protocol {
namespace {

// The allocation that is refused, of those since it was set.
uint32_t refused = 0;
uint32_t asked = 0;

bool IsTheOne() { return ++asked == refused; }

class TargetSessionMemoryTest : public TargetSessionTest {
 protected:
  // Whether it was refused one: the `nth`.
  bool TerminateWithout(uint32_t nth) {
    refused = nth;
    asked = 0;
    testing::RefuseAllEvery(1, &IsTheOne);
    bool thrown = false;
    try {
      harness_->session()->Terminate();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    testing::RefuseAllEvery(0, nullptr);
    return thrown;
  }
};

// The harness sees to it that it has ended.
TEST_F(TargetSessionMemoryTest, EndsWhenThereIsMemoryAgain) {
  uint32_t nth = 1;
  for (bool thrown = true; thrown; ++nth) {
    SCOPED_TRACE(nth);
    Start();
    // One waits for its data, another for a window to be sent.
    Send(Transfer(/*write=*/true, 0, 8));
    Send(Transfer(/*write=*/false, 0, 8));
    thrown = TerminateWithout(nth);
    if (!thrown) continue;
    EXPECT_EQ(harness_->session()->phase(), TargetSession::Phase::kTerminating);
    EXPECT_FALSE(TerminateWithout(0));
    EXPECT_FALSE(TerminateWithout(0));
  }
  EXPECT_GT(nth, 2u) << "it asked for none";
}

}  // namespace
}  // namespace skiff::protocol
