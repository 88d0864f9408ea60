// What happens to an initiator's commands when the network, or the target,
// fails under them. It takes faults that only a simulated network has, and
// virtual time: restarts.cc and held_commands.cc have what any network can do.

#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

void ExpectClean(const VerifiedLoad& load) {
  EXPECT_TRUE(load.done()) << load.completed() << " commands completed";
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
}

// A fabric and a seed.
class FaultTest
    : public ::testing::TestWithParam<std::tuple<Fabric, uint64_t>> {
 protected:
  const Fabric& fabric() const { return std::get<0>(GetParam()); }
  uint64_t seed() const { return std::get<1>(GetParam()); }
};

class OutageTest : public ::testing::TestWithParam<Fabric> {};

INSTANTIATE_TEST_SUITE_P(Fabrics, OutageTest, AllFabrics(), FabricName());

TEST_P(FaultTest, ResetsUnderLoadLoseNothing) {
  SimStack stack(seed(), 1, fabric().rdma);
  stack.LogIn();
  VerifiedLoad::Options options;
  options.commands = 1500;
  options.depth = 40;
  VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
  load.Start();
  for (int i = 0; i < 6; ++i) {
    stack.RunUntil(
        [&, goal = load.completed() + 100 + stack.world.random().Below(100)] {
          return load.completed() >= goal;
        });
    stack.world.network().ResetConnections("client", "server");
  }
  stack.RunUntil([&] { return load.done(); });
  ExpectClean(load);
  EXPECT_GE(stack.initiator->stats().reconnects, 5u);
  EXPECT_GT(stack.initiator->stats().retries, 0u);
  EXPECT_GT(load.unit_attentions(), 0u);
}

// RFC 7143 section 7.5: no login before DefaultTime2Wait is over, which is the
// longer of what both sides ask for.
TEST_P(OutageTest, ALostSessionComesBackAfterTheRespiteThatWasAgreedOn) {
  for (const bool target_asks : {false, true}) {
    SimStack stack(3, 1, GetParam().rdma);
    stack.StopServer();
    stack.server_options.offer.default_time2wait = target_asks ? 7 : 0;
    stack.StartServer();
    InitiatorOptions options = stack.Options();
    options.offer.default_time2wait = target_asks ? 0 : 7;
    options.reconnect.jitter = 0;
    stack.LogIn(options);
    TestCommand command(scsi::cdb::TestUnitReady(), 0);
    stack.RunToGood(&command);
    stack.world.network().ResetConnections("client", "server");
    ASSERT_TRUE(stack.RunUntil([&] { return !stack.initiator->connected(); }));
    const absl::Time lost = stack.world.now();
    ASSERT_TRUE(stack.RunUntil([&] { return stack.initiator->connected(); }));
    EXPECT_GE(stack.world.now() - lost, absl::Seconds(7));
    EXPECT_LT(stack.world.now() - lost, absl::Seconds(8));
  }
}

// The connection dies after ever more bytes: in every phase of login, and at
// every place of the first commands.
TEST_P(FaultTest, ResetsAtEveryByte) {
  uint64_t bytes = 1 + seed() % 7;
  int ready = 0;
  int refused = 0;
  while (bytes < 20000) {
    SCOPED_TRACE(::testing::Message() << "reset after " << bytes << " bytes");
    SimStack stack(seed() + bytes, 1, fabric().rdma);
    testing::LinkOptions link;
    link.reset_after_bytes = bytes;
    stack.world.network().SetLink("client", "server", link);
    stack.Connect(stack.Options());
    VerifiedLoad::Options options;
    options.commands = 30;
    options.depth = 5;
    VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
    load.Start();
    stack.RunUntil([&] { return stack.ready().has_value(); });
    ASSERT_TRUE(stack.ready().has_value());
    if (stack.ready()->ok()) {
      ++ready;
      // Heal the link for the connections to come.
      stack.RunUntil(
          [&] { return load.done() || !stack.initiator->connected(); });
      stack.world.network().SetLink("client", "server", {});
      stack.RunUntil([&] { return load.done(); });
      ExpectClean(load);
    } else {
      ++refused;
      EXPECT_NE(stack.ready()->message().find(stack.portal),
                absl::string_view::npos)
          << *stack.ready();
      stack.RunUntil([&] { return load.done(); });
      EXPECT_EQ(load.errors().size(), options.commands);
    }
    bytes += 1 + bytes / 8 + stack.world.random().Below(40);
  }
  EXPECT_GT(ready, 5);
  EXPECT_GT(refused, 5);
}

TEST_P(FaultTest, SilenceIsNoticedAndSurvived) {
  for (const bool one_way : {false, true}) {
    SimStack stack(seed(), 1, fabric().rdma);
    InitiatorOptions options = stack.Options();
    options.timeouts.nop_interval = absl::Seconds(2);
    options.timeouts.nop_timeout = absl::Seconds(3);
    options.connect.timeout = absl::Seconds(3);
    stack.LogIn(options);
    VerifiedLoad::Options load_options;
    load_options.commands = 800;
    VerifiedLoad load(stack.initiator.get(), &stack.world.random(),
                      load_options);
    load.Start();
    stack.RunUntil([&] {
      return load.completed() >= 50 + stack.world.random().Below(50);
    });
    const absl::Time dark = stack.world.now();
    if (one_way) {
      stack.world.network().BlackholeOneWay("server", "client");
    } else {
      stack.world.network().Blackhole("client", "server");
    }
    stack.RunUntil([&] { return !stack.initiator->connected(); });
    EXPECT_LE(stack.world.now() - dark, absl::Seconds(6));
    stack.world.RunFor(absl::Seconds(15));
    EXPECT_FALSE(stack.initiator->connected());
    stack.world.network().Heal("client", "server");
    stack.RunUntil([&] { return load.done(); });
    ExpectClean(load);
  }
}

// From the first packet of the connection on: no phase hangs, and what fails
// says where.
TEST_P(FaultTest, SilenceInEveryPhaseOfTheLogin) {
  int refused = 0;
  for (uint64_t steps = seed(); steps < 120; steps += 4) {
    SCOPED_TRACE(::testing::Message() << "dark after " << steps << " steps");
    SimStack stack(seed() * 1000 + steps, 1, fabric().rdma);
    InitiatorOptions options = stack.Options();
    options.timeouts.login_timeout = absl::Seconds(7);
    options.connect.timeout = absl::Seconds(3);
    stack.Connect(options);
    const absl::Time begin = stack.world.now();
    for (uint64_t i = 0; i < steps && !stack.ready().has_value(); ++i) {
      stack.world.Step();
    }
    stack.world.network().Blackhole("client", "server");
    stack.RunUntil([&] { return stack.ready().has_value(); });
    ASSERT_TRUE(stack.ready().has_value());
    EXPECT_LE(stack.world.now() - begin, absl::Seconds(11));
    if (stack.ready()->ok()) continue;
    ++refused;
    EXPECT_NE(stack.ready()->message().find(stack.portal),
              absl::string_view::npos)
        << *stack.ready();
  }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FaultTest,
                         ::testing::Combine(AllFabrics(),
                                            ::testing::Range<uint64_t>(1, 5)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               "_", std::get<1>(info.param));
                         });

TEST_P(OutageTest, CommandsFailWhenTheSessionIsNotRestoredInTime) {
  SimStack stack(50, 1, GetParam().rdma);
  InitiatorOptions options = stack.Options();
  options.reconnect.replacement_timeout = absl::Seconds(20);
  stack.LogIn(options);
  stack.StopServer();
  TestCommand first(scsi::cdb::TestUnitReady(), 0);
  const absl::Time begin = stack.world.now();
  stack.Run(&first.command);
  EXPECT_EQ(first.command.outcome, Outcome::kConnectionLost);
  EXPECT_LE(stack.world.now() - begin, absl::Seconds(21));
  EXPECT_GE(stack.world.now() - begin, absl::Seconds(19));
  // From now on at once, until it is back.
  const absl::Time second_begin = stack.world.now();
  TestCommand second(scsi::cdb::TestUnitReady(), 0);
  stack.Run(&second.command);
  EXPECT_EQ(second.command.outcome, Outcome::kConnectionLost);
  EXPECT_LE(stack.world.now() - second_begin, absl::Milliseconds(1));
  stack.StartServer();
  EXPECT_TRUE(stack.RunUntil([&] { return stack.initiator->connected(); }));
  TestCommand third(scsi::cdb::Inquiry(96), 96);
  stack.Run(&third.command);
  EXPECT_EQ(third.command.outcome, Outcome::kCompleted);
  const std::string log = absl::StrJoin(stack.log, "\n");
  EXPECT_NE(log.find("session lost"), std::string::npos) << log;
  EXPECT_NE(log.find("not restored within 20s"), std::string::npos) << log;
  EXPECT_NE(log.find("session restored"), std::string::npos) << log;
}

TEST_P(OutageTest, ZeroMeansAtOnce) {
  SimStack stack(51, 1, GetParam().rdma);
  InitiatorOptions options = stack.Options();
  options.reconnect.replacement_timeout = absl::ZeroDuration();
  stack.LogIn(options);
  stack.world.network().Blackhole("client", "server");
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack.initiator->Submit(&command.command);
  stack.world.RunFor(absl::Milliseconds(1));
  stack.world.network().ResetConnections("client", "server");
  const absl::Time begin = stack.world.now();
  stack.RunUntil([&] { return command.finished; });
  EXPECT_EQ(command.command.outcome, Outcome::kConnectionLost);
  EXPECT_LE(stack.world.now() - begin, absl::Milliseconds(1));
}

TEST_P(OutageTest, LogoutEndsTheAttempts) {
  SimStack stack(52, 1, GetParam().rdma);
  stack.LogIn();
  stack.StopServer();
  stack.RunUntil([&] { return !stack.initiator->connected(); });
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack.initiator->Submit(&command.command);
  EXPECT_TRUE(
      stack.Await([&](auto done) { stack.initiator->Logout(std::move(done)); })
          .ok());
  EXPECT_EQ(command.command.outcome, Outcome::kConnectionLost);
  stack.StartServer();
  stack.world.RunFor(absl::Minutes(1));
  EXPECT_FALSE(stack.initiator->connected());
}

TEST_P(OutageTest, AnIdleSessionStaysUp) {
  SimStack stack(53, 1, GetParam().rdma);
  stack.LogIn();
  stack.world.RunFor(absl::Minutes(30));
  EXPECT_TRUE(stack.initiator->connected());
  EXPECT_EQ(stack.initiator->stats().reconnects, 0u);
}

// While much waits to be sent, the target does not read, and so hears nothing.
TEST_P(OutageTest, ASlowNetworkIsNotSilence) {
  SimStack stack(54, 1, GetParam().rdma);
  stack.StopServer();
  stack.server_options.limits.memory.max_send_queue_bytes = 64 << 10;
  stack.server_options.limits.session.nop_interval = absl::Seconds(2);
  stack.server_options.limits.session.nop_timeout = absl::Seconds(2);
  stack.StartServer();
  stack.LogIn();
  TestCommand attention(scsi::cdb::TestUnitReady(), 0);
  stack.Run(&attention.command);
  testing::LinkOptions slow = testing::LinkOptions::Calm();
  slow.bytes_per_second = 100 << 10;
  stack.world.network().SetLink("client", "server", slow);
  std::deque<TestCommand> reads;
  for (int i = 0; i < 32; ++i) {
    auto& read = reads.emplace_back(scsi::cdb::Read(0, 64), 64 * kBlock);
    stack.initiator->Submit(&read.command);
  }
  stack.RunUntil([&] { return reads.back().finished; });
  for (const TestCommand& read : reads) {
    EXPECT_EQ(read.command.outcome, Outcome::kCompleted);
    EXPECT_EQ(read.command.status, 0);
  }
  EXPECT_EQ(stack.initiator->stats().reconnects, 0u)
      << absl::StrJoin(stack.log, "\n");
}

TEST_P(OutageTest, BigCommandsOverASlowLink) {
  SimStack stack(8, 1, GetParam().rdma);
  testing::LinkOptions link = testing::LinkOptions::Calm();
  link.bytes_per_second = 50 << 20;
  link.latency_min = link.latency_max = absl::Milliseconds(3);
  stack.world.network().SetLink("client", "server", link);
  stack.LogIn();
  VerifiedLoad::Options options;
  options.depth = 4;
  options.max_blocks = 4096;  // 2 MiB.
  options.commands = 30;
  VerifiedLoad load(stack.initiator.get(), &stack.world.random(), options);
  load.Start();
  stack.RunUntil([&] { return load.done(); });
  ExpectClean(load);
}

TEST_P(OutageTest, DestroyingTheInitiatorFailsWhatIsPending) {
  SimStack stack(13, 1, GetParam().rdma);
  stack.LogIn();
  stack.world.network().Blackhole("client", "server");
  std::vector<std::unique_ptr<TestCommand>> commands;
  for (int i = 0; i < 300; ++i) {
    commands.push_back(
        std::make_unique<TestCommand>(scsi::cdb::Read(0, 8), 8 * kBlock));
    stack.initiator->Submit(&commands.back()->command);
  }
  stack.world.RunFor(absl::Milliseconds(1));
  stack.initiator.reset();
  for (const auto& command : commands) {
    EXPECT_TRUE(command->finished);
    EXPECT_EQ(command->command.outcome, Outcome::kConnectionLost);
  }
}

TEST_P(OutageTest, AbortsACommandThatWaits) {
  SimStack stack(15, 1, GetParam().rdma);
  stack.LogIn();
  stack.world.network().Blackhole("client", "server");
  TestCommand sent(scsi::cdb::Read(0, 1), kBlock);
  stack.initiator->Submit(&sent.command);
  stack.world.RunFor(absl::Milliseconds(1));
  stack.initiator->Abort(&sent.command);
  EXPECT_FALSE(sent.finished);
  // The session is lost before the target hears of it; an aborted command is
  // not sent again.
  stack.RunUntil([&] { return sent.finished; });
  EXPECT_EQ(sent.command.outcome, Outcome::kAborted);
  stack.world.network().Heal("client", "server");
  EXPECT_TRUE(stack.RunUntil([&] { return stack.initiator->connected(); }));
  EXPECT_EQ(stack.initiator->stats().retries, 0u);

  TestCommand queued(scsi::cdb::Read(0, 1), kBlock);
  stack.world.network().ResetConnections("client", "server");
  EXPECT_TRUE(stack.RunUntil([&] { return !stack.initiator->connected(); }));
  stack.initiator->Submit(&queued.command);
  stack.initiator->Abort(&queued.command);
  stack.RunUntil([&] { return queued.finished; });
  EXPECT_EQ(queued.command.outcome, Outcome::kAborted);
}

}  // namespace
}  // namespace skiff::protocol
