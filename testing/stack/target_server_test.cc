// A target server and peers that misbehave, in virtual time.

#include "protocol/target/target_server.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session_harness.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"
#include "transport/auto/fake_transport.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

absl::Duration WholeSeconds(absl::Duration duration) {
  return absl::Floor(duration + absl::Milliseconds(500), absl::Seconds(1));
}

class TargetServerTest : public ::testing::Test {
 protected:
  TargetServerTest() : stack_(testing::SimWorld::SeedFromEnvironment(1)) {}

  // Restarts the server with other limits.
  void Restart(const TargetServerLimits& limits) {
    stack_.StopServer();
    stack_.server_options.limits = limits;
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
  }
  // Another session works.
  void ExpectServes() {
    stack_.LogIn();
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.initiator->Submit(&ready.command);
    EXPECT_TRUE(
        stack_.RunUntil([&ready] { return ready.finished; }, absl::Seconds(5)));
    EXPECT_EQ(ready.command.outcome, scsi::Command::Outcome::kCompleted);
    stack_.initiator.reset();
  }
  size_t Sessions() { return stack_.Sessions().size(); }

  // A portal of a transport that does what the test says.
  transport::Address ListenByVerbs(absl::Duration retry) {
    TargetServerLimits limits;
    limits.listen_retry_interval = retry;
    Restart(limits);
    EXPECT_TRUE(
        stack_.registry
            .Add(std::make_unique<testing::FakeTransport>("verbs", &verbs_))
            .ok());
    const auto bound = stack_.server->Listen(
        transport::Address::Parse("verbs://192.0.2.7:0").value());
    EXPECT_TRUE(bound.ok()) << bound.status();
    EXPECT_EQ(verbs_.on_failure.size(), 1u);
    return bound.value_or(transport::Address());
  }

  // These outlive the server, who uses them.
  std::vector<std::string> log_;
  testing::FakeScript verbs_;
  SimStack stack_;
};

TEST_F(TargetServerTest, DropsALoginThatNeverFinishes) {
  TargetServerLimits limits;
  Restart(limits);
  RawPeer silent(&stack_);
  RawPeer halfway(&stack_);
  halfway.Send(std::string(20, '\0'));
  stack_.world.RunFor(absl::Seconds(14));
  EXPECT_FALSE(silent.closed());
  ExpectServes();
  stack_.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(halfway.closed());
  EXPECT_THAT(log_, Contains(HasSubstr("login took longer than 15s")));
}

TEST_F(TargetServerTest, ClosesConnectionsBeyondTheLimits) {
  TargetServerLimits limits;
  limits.connections.max_connections = 4;
  limits.connections.max_connections_in_login = 2;
  limits.connections.max_logins_per_peer = 2;
  limits.connections.max_sessions_per_peer = 4;
  Restart(limits);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 3; ++i)
    peers.push_back(std::make_unique<RawPeer>(&stack_));
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(peers[0]->closed()) << "the oldest that is mute";
  EXPECT_FALSE(peers[1]->closed());
  EXPECT_FALSE(peers[2]->closed());
  EXPECT_THAT(log_, Contains(HasSubstr("gave way to a new one")));
  // Logged in, they make room for further logins.
  peers[1]->LogIn(1);
  peers[2]->LogIn(2);
  EXPECT_EQ(peers[2]->LoginStatus(), 0);
  for (int i = 0; i < 3; ++i) {
    peers.push_back(std::make_unique<RawPeer>(&stack_));
    peers.back()->LogIn(static_cast<uint8_t>(10 + i));
  }
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_FALSE(peers[4]->closed());
  EXPECT_TRUE(peers[5]->closed());
  EXPECT_THAT(log_, Contains(HasSubstr("max_connections is reached")));
  peers.clear();
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(Sessions(), 0u);
  ExpectServes();
}

// Whatever many connections of one host do or leave undone, another logs in,
// and so does a new one of the same host.
TEST_F(TargetServerTest, ALoginNeverWaitsForThoseThatAreQuiet) {
  Restart(TargetServerLimits());
  const std::string half =
      RawPeer::FirstLogin(1, kTargetName, "iqn.2001-04.com.example:raw", false);
  for (const std::string& said : {std::string(), half.substr(0, 30), half}) {
    std::vector<std::unique_ptr<RawPeer>> held;
    for (int i = 0; i < 300; ++i) {
      held.push_back(std::make_unique<RawPeer>(&stack_));
      held.back()->Send(said);
      if (i % 100 == 99) stack_.world.RunFor(absl::Seconds(2));
    }
    RawPeer same_host(&stack_);
    same_host.LogIn(1);
    EXPECT_EQ(same_host.LoginStatus(), 0) << "they say " << said.size();
    RawPeer other_host(&stack_, stack_.world.AddReactor("other"));
    other_host.LogIn(2, kTargetName, "iqn.2001-04.com.example:other");
    EXPECT_EQ(other_host.LoginStatus(), 0) << "they say " << said.size();
    EXPECT_EQ(Sessions(), 2u + 127u) << "half of the places, less one";
  }
}

TEST_F(TargetServerTest, DiscoverySessionsKeepNobodyOut) {
  TargetServerLimits limits;
  limits.connections.max_discovery_sessions = 20;
  limits.session.nop_interval =
      absl::ZeroDuration();  // Or it would notice first.
  Restart(limits);
  std::vector<std::unique_ptr<RawPeer>> hoard;
  for (int i = 0; i < 30; ++i) {
    hoard.push_back(std::make_unique<RawPeer>(&stack_));
    hoard.back()->LogIn(static_cast<uint8_t>(i), "");
    EXPECT_EQ(hoard.back()->LoginStatus(), i < 10 ? 0 : 0x0302) << i;
  }
  EXPECT_THAT(log_, Contains(HasSubstr("max_discovery_per_peer is reached")));
  RawPeer normal(&stack_);
  normal.LogIn(1);
  EXPECT_EQ(normal.LoginStatus(), 0);
  stack_.world.RunFor(absl::Seconds(6));  // Those that were refused go.
  // Those that do nothing give way.
  RawPeer fresh(&stack_);
  fresh.LogIn(99, "");
  EXPECT_EQ(fresh.LoginStatus(), 0);
  EXPECT_EQ(Sessions(), 11u);
  EXPECT_TRUE(hoard[0]->closed());
  EXPECT_FALSE(hoard[1]->closed());
  stack_.world.RunFor(absl::Seconds(62));
  EXPECT_EQ(Sessions(), 1u);
  EXPECT_THAT(log_, Contains(HasSubstr("asked for nothing for 1m")));
}

TEST_F(TargetServerTest, EachPeerHasItsShareOfTheSessions) {
  TargetServerLimits limits;
  limits.connections.max_sessions_per_peer = 3;
  Restart(limits);
  std::vector<std::unique_ptr<RawPeer>> peers;
  const auto log_in = [&](transport::Reactor* from, uint8_t isid,
                          absl::string_view name) {
    peers.push_back(std::make_unique<RawPeer>(&stack_, from));
    peers.back()->LogIn(isid, kTargetName, name);
    return peers.back()->LoginStatus();
  };
  transport::Reactor* const one = stack_.client_reactor;
  transport::Reactor* const two = stack_.world.AddReactor("two");
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(log_in(one, i, "iqn.2001-04.com.example:a"), 0);
  }
  EXPECT_EQ(log_in(one, 3, "iqn.2001-04.com.example:b"), 0x0302);
  EXPECT_EQ(log_in(two, 3, "iqn.2001-04.com.example:a"), 0x0302);
  EXPECT_EQ(log_in(two, 3, "iqn.2001-04.com.example:b"), 0);
  EXPECT_THAT(log_, Contains(HasSubstr("max_sessions_per_peer is reached")));
  // Who has no place takes none from a session that it would reinstate.
  const RawPeer& old = *peers.back();
  EXPECT_EQ(log_in(one, 3, "iqn.2001-04.com.example:b"), 0x0302);
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(old.closed());
  // A session that is reinstated is in the place of its own.
  EXPECT_EQ(log_in(one, 2, "iqn.2001-04.com.example:a"), 0);
  stack_.world.RunFor(absl::Seconds(6));  // Those that were refused go.
  EXPECT_EQ(Sessions(), 4u);
  // And those that are over make room.
  peers.clear();
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(log_in(one, 4, "iqn.2001-04.com.example:a"), 0);
}

TEST_F(TargetServerTest, DropsAReaderThatNeverDrainsAndServesTheOthers) {
  TargetServerLimits limits;
  limits.memory.max_send_queue_bytes = 1 << 20;
  limits.session.nop_interval =
      absl::ZeroDuration();  // Or it would notice first.
  Restart(limits);
  RawPeer greedy(&stack_);
  greedy.LogIn(1);
  ASSERT_EQ(greedy.LoginStatus(), 0);
  greedy.StopReading();
  // Reads of 64 KiB, as many as the window has and more.
  for (uint32_t i = 0; i < 1000; ++i) {
    ScsiCommandPdu read;
    read.read = true;
    read.initiator_task_tag = 100 + i;
    read.cmd_sn = 1 + i;
    read.expected_data_transfer_length = 65536;
    read.cdb[0] = 0x28;
    read.cdb[8] = 128;
    greedy.Send(ToWire(read));
  }
  stack_.world.RunFor(absl::Seconds(10));
  ExpectServes();
  stack_.world.RunFor(absl::Minutes(3));
  EXPECT_EQ(Sessions(), 0u);
  EXPECT_THAT(log_, Contains(HasSubstr("the peer read nothing for 1m")));
}

TEST_F(TargetServerTest, DropsAPeerThatIsGoneWithoutAWord) {
  Restart(TargetServerLimits());
  RawPeer dead(&stack_);
  dead.LogIn(1);
  EXPECT_EQ(Sessions(), 1u);
  // It reads our pings, but never answers.
  stack_.world.RunFor(absl::Seconds(44));
  EXPECT_FALSE(dead.closed());
  stack_.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(dead.closed());
  EXPECT_EQ(Sessions(), 0u);
}

TEST_F(TargetServerTest, ANewLoginOfTheSameNameEndsTheOldSession) {
  Restart(TargetServerLimits());
  RawPeer old(&stack_);
  old.LogIn(1);
  RawPeer other(&stack_);
  other.LogIn(2);
  EXPECT_EQ(Sessions(), 2u);
  RawPeer fresh(&stack_);
  fresh.LogIn(1);
  EXPECT_EQ(fresh.LoginStatus(), 0);
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(old.closed());
  EXPECT_FALSE(other.closed());
  EXPECT_EQ(Sessions(), 2u);
  EXPECT_THAT(log_, Contains(HasSubstr("reinstated")));
}

// A target that opens no nexus while it is told to.
class RefusingTarget final : public scsi::Target {
 public:
  explicit RefusingTarget(std::shared_ptr<scsi::Target> target)
      : target_(std::move(target)) {}
  bool refuses = false;

  absl::string_view name() const override { return target_->name(); }
  absl::Status AddLogicalUnit(
      std::shared_ptr<scsi::Backend> backend,
      const scsi::LogicalUnitOptions& options) override {
    return target_->AddLogicalUnit(std::move(backend), options);
  }
  absl::Status RemoveLogicalUnit(uint64_t lun,
                                 scsi::LogicalUnitRemoved done) override {
    return target_->RemoveLogicalUnit(lun, std::move(done));
  }
  void NotifyBackendChanged(uint64_t lun) override {
    target_->NotifyBackendChanged(lun);
  }
  std::vector<uint64_t> Luns() const override { return target_->Luns(); }
  std::vector<scsi::LogicalUnitStatus> LogicalUnitStatuses() const override {
    return target_->LogicalUnitStatuses();
  }
  std::vector<scsi::DirectMemory> DirectMemories() const override {
    return target_->DirectMemories();
  }
  absl::StatusOr<std::unique_ptr<scsi::Nexus>> OpenNexus(
      scsi::Worker* worker, scsi::TargetPort* port,
      const scsi::NexusIdentity& identity) override {
    if (refuses) return absl::ResourceExhaustedError("not one more");
    return target_->OpenNexus(worker, port, identity);
  }

 private:
  const std::shared_ptr<scsi::Target> target_;
};

TEST_F(TargetServerTest, AReinstatementThatFailsKeepsTheOldSession) {
  const auto target = std::make_shared<RefusingTarget>(stack_.target);
  stack_.target = target;
  Restart({});
  RawPeer old(&stack_);
  old.LogIn(1);
  ASSERT_EQ(old.LoginStatus(), 0);
  target->refuses = true;
  {
    RawPeer refused(&stack_);
    refused.LogIn(1);
    EXPECT_EQ(refused.LoginStatus(), 0x0300);
    stack_.world.RunFor(absl::Milliseconds(100));
    EXPECT_TRUE(refused.closed());
  }
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_THAT(log_, Contains(HasSubstr("not one more")));
  EXPECT_FALSE(old.closed());
  EXPECT_EQ(Sessions(), 1u);

  target->refuses = false;
  RawPeer next(&stack_);
  next.LogIn(1);
  EXPECT_EQ(next.LoginStatus(), 0);
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(old.closed());
  EXPECT_EQ(Sessions(), 1u);
}

TEST_F(TargetServerTest, AStormOfLoginsOfOneNameLeavesOneSession) {
  Restart(TargetServerLimits());
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 50; ++i) {
    peers.push_back(std::make_unique<RawPeer>(&stack_));
    peers.back()->LogIn(1);
  }
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(Sessions(), 1u);
  EXPECT_EQ(std::count_if(peers.begin(), peers.end(),
                          [](const auto& peer) { return !peer->closed(); }),
            1);
}

TEST_F(TargetServerTest, RefusesTargetsThatAreNotThere) {
  Restart(TargetServerLimits());
  RawPeer peer(&stack_);
  peer.LogIn(1, "iqn.2001-04.com.example:nothing");
  EXPECT_EQ(peer.LoginStatus(), 0x0203);
  stack_.world.RunFor(absl::Seconds(10));
  EXPECT_TRUE(peer.closed());
}

TEST_F(TargetServerTest, EveryShutdownCallsBack) {
  Restart(TargetServerLimits());
  RawPeer deaf(&stack_);
  deaf.LogIn(1);
  std::vector<std::string> called;
  const absl::Time start = stack_.world.now();
  stack_.server->Shutdown(absl::Seconds(10),
                          [&] { called.push_back("first"); });
  stack_.world.RunFor(absl::Seconds(1));
  stack_.server->Shutdown(absl::Seconds(2),
                          [&] { called.push_back("second"); });
  stack_.world.RunUntil([&] { return called.size() == 2; }, absl::Minutes(1));
  EXPECT_THAT(called, ::testing::ElementsAre("first", "second"));
  EXPECT_EQ(WholeSeconds(stack_.world.now() - start), absl::Seconds(3))
      << "the shorter grace";
  // Once it is down, at once.
  stack_.server->Shutdown(absl::Hours(1), [&] { called.push_back("third"); });
  stack_.world.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(called.size(), 3u);
  stack_.server.reset();
}

// A command that its backend never gives back, or gives back when nobody waits
// for it any more.
TEST_F(TargetServerTest, ShutdownLeavesBehindWhatABackendKeeps) {
  const auto medium =
      std::make_shared<scsi::testing::TestBackend>(scsi::testing::ThinInfo(64));
  medium->completion = scsi::testing::TestBackend::Completion::kHeld;
  stack_.target = scsi::Target::Create(kTargetName);
  ASSERT_TRUE(stack_.target->AddLogicalUnit(medium, {}).ok());
  const std::weak_ptr<scsi::Target> target = stack_.target;
  Restart(TargetServerLimits());
  RawPeer peer(&stack_);
  peer.LogIn(1);
  ScsiCommandPdu read;
  read.read = true;
  read.initiator_task_tag = 2;
  read.expected_data_transfer_length = 512;
  read.cdb[0] = 0x28;
  read.cdb[8] = 1;
  // The first answer is a unit attention.
  for (read.cmd_sn = 1; read.cmd_sn <= 2; ++read.cmd_sn) {
    peer.Send(ToWire(read));
    stack_.world.RunFor(absl::Milliseconds(100));
  }
  ASSERT_EQ(medium->held(), 1u);
  bool down = false;
  const absl::Time start = stack_.world.now();
  stack_.server->Shutdown(absl::Seconds(3), [&] { down = true; });
  stack_.world.RunUntil([&] { return down; }, absl::Minutes(1));
  EXPECT_EQ(WholeSeconds(stack_.world.now() - start),
            absl::Seconds(3) + TargetServerLimits().backend_patience);
  EXPECT_THAT(log_, Contains(HasSubstr("the session is left behind")));
  stack_.server.reset();
  stack_.target = nullptr;
  EXPECT_FALSE(target.expired()) << "the backend uses it";
  stack_.world.RunFor(absl::Minutes(1));
  // At last. Nothing is left then.
  EXPECT_EQ(medium->CompleteHeld(), 1u);
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(target.expired());
}

TEST_F(TargetServerTest, WhoLogsOutAndStaysDoesNotHoldUpAShutdown) {
  Restart(TargetServerLimits());
  for (const bool before : {true, false}) {
    RawPeer peer(&stack_);
    peer.LogIn(1);
    LogoutRequestPdu logout;
    logout.initiator_task_tag = 7;
    logout.cmd_sn = 1;
    logout.immediate = true;
    if (before) peer.Send(ToWire(logout));
    stack_.world.RunFor(absl::Milliseconds(100));
    bool down = false;
    const absl::Time start = stack_.world.now();
    stack_.server->Shutdown(absl::Minutes(10), [&] { down = true; });
    if (!before) peer.Send(ToWire(logout));
    stack_.world.RunUntil([&] { return down; }, absl::Minutes(20));
    EXPECT_LE(stack_.world.now() - start, absl::Seconds(2));
    stack_.server.reset();
    stack_.StartServer();
  }
}

TEST_F(TargetServerTest, ShutdownTellsInitiatorsAndDropsTheDeaf) {
  Restart(TargetServerLimits());
  RawPeer deaf(&stack_);
  deaf.LogIn(1);
  const size_t before = deaf.received().size();
  const absl::Time start = stack_.world.now();
  stack_.StopServer(absl::Seconds(7));
  EXPECT_GE(stack_.world.now() - start, absl::Seconds(7));
  EXPECT_LE(stack_.world.now() - start, absl::Seconds(8));
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(deaf.closed());
  ASSERT_GE(deaf.received().size(), before + kBhsSize);
  AsyncMessagePdu message;
  ASSERT_TRUE(
      Decode(reinterpret_cast<const uint8_t*>(deaf.received().data()) + before,
             &message)
          .ok());
  EXPECT_EQ(message.async_event, AsyncMessagePdu::kLogoutRequested);
  EXPECT_EQ(message.parameter3, 7);
}

// A device that is removed and comes back, under a portal of its own transport:
// what auto:// does about that by itself is another matter.
TEST_F(TargetServerTest, APortalThatStoppedIsTriedAgain) {
  const transport::Address bound = ListenByVerbs(absl::Seconds(3));
  verbs_.refusal = absl::UnavailableError("no device has the address");
  verbs_.on_failure.at(0)(absl::UnavailableError("device removed"));
  EXPECT_EQ(verbs_.listens.size(), 1u) << "never from inside";
  EXPECT_THAT(log_, Contains("verbs://192.0.2.7:0: device removed; it is tried "
                             "again every 3s"));
  stack_.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(verbs_.listens.size(), 4u) << "every three seconds";
  EXPECT_EQ(verbs_.listeners_alive, 0) << "it would keep the device";
  // Told once, however often it is tried.
  EXPECT_THAT(log_, Contains(HasSubstr("no device has the address")).Times(1));
  ExpectServes();

  verbs_.refusal = absl::OkStatus();
  stack_.world.RunFor(absl::Seconds(3));
  EXPECT_EQ(verbs_.listeners_alive, 1);
  EXPECT_EQ(verbs_.listens.back().port, bound.port) << "what peers know";
  EXPECT_THAT(log_, Contains("verbs://192.0.2.7:0: listening again").Times(1));
  const size_t tried = verbs_.listens.size();
  stack_.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(verbs_.listens.size(), tried);

  // And each time that it happens. A server that goes does not try any more.
  verbs_.on_failure.back()(absl::UnavailableError("device removed"));
  stack_.world.RunFor(absl::Seconds(4));
  EXPECT_EQ(verbs_.listens.size(), tried + 1);
  verbs_.on_failure.back()(absl::UnavailableError("device removed"));
  stack_.StopServer();
  stack_.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(verbs_.listens.size(), tried + 1);
  EXPECT_EQ(verbs_.listeners_alive, 0);
}

TEST_F(TargetServerTest, WithoutAnIntervalAPortalIsNotTriedAgain) {
  ListenByVerbs(absl::ZeroDuration());
  verbs_.on_failure.at(0)(absl::UnavailableError("device removed"));
  stack_.world.RunFor(absl::Hours(1));
  EXPECT_EQ(verbs_.listens.size(), 1u);
  EXPECT_THAT(log_, Contains("verbs://192.0.2.7:0: device removed; "
                             "listen_retry_interval is 0, restart"));
  ExpectServes();
}

TEST_F(TargetServerTest, GarbageOfEveryKindEndsOnlyItsOwnConnection) {
  Restart(TargetServerLimits());
  testing::SimRandom& random = stack_.world.random();
  for (int i = 0; i < 200; ++i) {
    RawPeer peer(&stack_);
    if (i % 2 == 0) peer.LogIn(static_cast<uint8_t>(i));
    std::string garbage(48 * 4, '\0');
    for (char& c : garbage) c = static_cast<char>(random.Below(256));
    peer.Send(garbage);
    stack_.world.RunFor(absl::Milliseconds(10));
  }
  stack_.world.RunFor(absl::Minutes(3));
  EXPECT_EQ(Sessions(), 0u);
  ExpectServes();
}

}  // namespace
}  // namespace skiff::protocol
