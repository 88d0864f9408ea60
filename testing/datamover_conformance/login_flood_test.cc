// A session beside logins that all come at once.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "scsi/initiator/cdb.h"
#include "testing/sim/sim_reactor.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

constexpr int kLogins = 100;

class LoginFloodTest : public ::testing::Test {
 protected:
  LoginFloodTest() : stack_(1) {
    stack_.StopServer();
    TargetServerOptions& options = stack_.server_options;
    options.log_limits.interval = absl::ZeroDuration();
    options.log = [this](LogLevel, absl::string_view line) {
      if (absl::StrContains(line, " logged in to ")) ++logged_in_;
    };
    stack_.StartServer();
    stack_.LogIn();
    for (int i = 0; i < kLogins; ++i) {
      peers_.push_back(std::make_unique<RawPeer>(&stack_));
    }
  }

  // All of them begin at once.
  void Flood() {
    for (int i = 0; i < kLogins; ++i) {
      const std::string name =
          absl::StrCat("iqn.2001-04.com.example:flood-", i);
      peers_[i]->Send(RawPeer::FirstLogin(static_cast<uint8_t>(i), kTargetName,
                                          name, /*transit=*/true));
    }
  }
  testing::SimReactor* server() {
    return static_cast<testing::SimReactor*>(stack_.server_reactors[0]);
  }

  SimStack stack_;
  std::vector<std::unique_ptr<RawPeer>> peers_;
  int logged_in_ = 0;
};

TEST_F(LoginFloodTest, ASessionIsServedInTheMeantime) {
  server()->set_look(absl::Microseconds(20));
  // The session works, and is known to.
  for (int i = 0; i < 3; ++i) {
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);
  }
  // All of it is there when the target's next turn begins.
  server()->StallUntil(stack_.world.now() + absl::Milliseconds(10));
  Flood();
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack_.initiator->Submit(&command.command);
  const int others = logged_in_;
  int before = others;
  int most = 0;
  int when_answered = 0;
  EXPECT_TRUE(stack_.RunUntil([&] {
    most = std::max(most, logged_in_ - before);
    before = logged_in_;
    if (!command.finished) when_answered = logged_in_;
    return logged_in_ == others + kLogins && command.finished;
  }));
  // No turn, and so no command of the session, waited for more than a few.
  EXPECT_LE(most, kLogins / 4);
  EXPECT_LT(when_answered, others + kLogins / 2);
}

}  // namespace
}  // namespace skiff::protocol
