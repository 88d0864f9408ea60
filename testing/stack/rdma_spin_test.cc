// iSER connections on reactors that spin for a while before they sleep.

#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

constexpr absl::Duration kSpin = absl::Milliseconds(1);

class RdmaSpinTest : public ::testing::TestWithParam<Fabric> {
 protected:
  RdmaSpinTest() : stack_(1, 1, GetParam().rdma) {
    server()->set_spin(kSpin);
    client()->set_spin(kSpin);
    stack_.LogIn();
    RunCommand();  // A unit attention.
  }

  void RunCommand() {
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);
    EXPECT_EQ(ready.command.outcome, scsi::Command::Outcome::kCompleted);
  }
  testing::SimReactor* server() const {
    return static_cast<testing::SimReactor*>(stack_.server_reactors[0]);
  }
  testing::SimReactor* client() const { return stack_.client_reactor; }
  bool busy() const { return server()->busy() || client()->busy(); }
  uint64_t wakeups() const { return server()->wakeups() + client()->wakeups(); }

  SimStack stack_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, RdmaSpinTest,
                         ::testing::Values(InfiniBand(), Iwarp(), Plain()),
                         FabricName());

TEST_P(RdmaSpinTest, NobodyIsWokenMeanwhile) {
  const uint64_t before = wakeups();
  for (int i = 0; i < 100; ++i) RunCommand();
  EXPECT_EQ(wakeups(), before);
  EXPECT_TRUE(server()->busy());
  EXPECT_TRUE(client()->busy());
}

TEST_P(RdmaSpinTest, SleepsAfterwards) {
  stack_.world.RunFor(kSpin / 2);
  EXPECT_TRUE(server()->busy());
  EXPECT_TRUE(client()->busy());
  stack_.world.RunFor(kSpin);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(busy());
    stack_.world.RunFor(kSpin);
  }
  // And hears what comes then.
  for (int i = 0; i < 10; ++i) {
    const uint64_t server_before = server()->wakeups();
    RunCommand();
    EXPECT_GT(server()->wakeups(), server_before);
    EXPECT_TRUE(server()->busy());
    stack_.world.RunFor(2 * kSpin);
    EXPECT_FALSE(busy());
  }
}

// As reactors do where events do not come soon any more.
TEST_P(RdmaSpinTest, SleepsWhenItsReactorNoLongerSpins) {
  EXPECT_TRUE(server()->busy());
  for (const absl::Duration spin : {absl::ZeroDuration(), kSpin}) {
    server()->set_spin(spin);
    client()->set_spin(spin);
    stack_.world.RunFor(absl::Microseconds(10));
    EXPECT_FALSE(busy());
    for (int i = 0; i < 10; ++i) RunCommand();
  }
  EXPECT_TRUE(server()->busy());
}

TEST_P(RdmaSpinTest, LogsOutWhileItSpins) {
  EXPECT_TRUE(client()->busy());
  const absl::Status out = stack_.Await(
      [this](auto done) { stack_.initiator->Logout(std::move(done)); });
  EXPECT_TRUE(out.ok()) << out;
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(busy());
}

TEST_P(RdmaSpinTest, LearnsOfThePeersEndWhileItSpins) {
  EXPECT_TRUE(client()->busy());
  const uint64_t before = stack_.initiator->stats().reconnects;
  stack_.StopServer();
  stack_.StartServer();
  EXPECT_TRUE(stack_.RunUntil(
      [&] { return stack_.initiator->stats().reconnects > before; }));
  RunCommand();
}

TEST_P(RdmaSpinTest, GoesWhileItSpins) {
  EXPECT_TRUE(client()->busy());
  stack_.initiator.reset();
  EXPECT_FALSE(client()->busy());
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(busy());
}

TEST_P(RdmaSpinTest, VerifiesData) {
  testing::SimRandom random(1);
  VerifiedLoad::Options options;
  options.depth = 64;
  options.commands = 2000;
  VerifiedLoad load(stack_.initiator.get(), &random, options);
  load.Start();
  EXPECT_TRUE(stack_.RunUntil([&load] { return load.done(); }));
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  stack_.world.RunFor(2 * kSpin);
  EXPECT_FALSE(busy());
}

}  // namespace
}  // namespace skiff::protocol
