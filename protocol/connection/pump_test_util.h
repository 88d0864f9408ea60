#ifndef SKIFF_PROTOCOL_CONNECTION_PUMP_TEST_UTIL_H_
#define SKIFF_PROTOCOL_CONNECTION_PUMP_TEST_UTIL_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "protocol/connection/connection_pump.h"

namespace skiff::protocol {

// What a pump tells is noted, and a test says what happens then.
class PumpTestClient : public PumpClient {
 protected:
  void OnProgress() override {
    ++progress_;
    if (on_progress_) on_progress_();
  }
  void OnClosed(absl::Status why) override {
    EXPECT_FALSE(closed_);
    closed_ = true;
    why_ = std::move(why);
    if (on_closed_) on_closed_();
  }

  int progress_ = 0;
  bool closed_ = false;
  absl::Status why_;
  std::function<void()> on_progress_;
  std::function<void()> on_closed_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_PUMP_TEST_UTIL_H_
