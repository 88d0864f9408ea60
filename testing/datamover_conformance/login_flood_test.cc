// A session beside logins that all come at once.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
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
    stack_.LogIn();
    static_cast<testing::SimReactor*>(stack_.server_reactors[0])
        ->set_look(absl::Microseconds(20));
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
  int LoggedIn() const {
    return static_cast<int>(std::count_if(
        peers_.begin(), peers_.end(),
        [](const auto& peer) { return peer->LoginStatus() == 0; }));
  }
  void TestUnitReady() {
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);
  }

  SimStack stack_;
  std::vector<std::unique_ptr<RawPeer>> peers_;
};

TEST_F(LoginFloodTest, ASessionIsServedInTheMeantime) {
  // The session works, and is known to.
  for (int i = 0; i < 3; ++i) TestUnitReady();
  Flood();
  std::vector<int> logged_in;
  while (LoggedIn() < kLogins && logged_in.size() < 1000) {
    TestUnitReady();
    logged_in.push_back(LoggedIn());
  }
  EXPECT_EQ(LoggedIn(), kLogins);
  // None of its commands waited for more than a few of them.
  int before = 0;
  for (const int now : logged_in) {
    EXPECT_LE(now - before, kLogins / 4);
    before = now;
  }
}

}  // namespace
}  // namespace skiff::protocol
