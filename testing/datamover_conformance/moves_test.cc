// A session that prefers RDMA goes on over a byte stream when the way of RDMA
// dies, and back when it is there again.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "scsi/target/target.h"
#include "testing/datamover_conformance/holding_backend.h"
#include "testing/sim/sim_memory.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/iser_raw_peer.h"
#include "testing/stack/ways.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using transport::Address;

testing::SimRdmaOptions Fabric(std::shared_ptr<bool> transfers_break) {
  testing::SimRdmaOptions options = testing::SimRdmaOptions::InfiniBand();
  options.transfers_break = std::move(transfers_break);
  return options;
}

class MoveTest : public ::testing::TestWithParam<uint64_t> {
 public:
  MoveTest() : stack_(GetParam(), 1, testing::SimRdmaOptions::InfiniBand()) {
    ways_.emplace(&stack_, Fabric(transfers_break_));
  }
  ~MoveTest() override { stack_.initiator.reset(); }

 protected:
  InitiatorOptions Options() const {
    InitiatorOptions options = stack_.Options();
    options.portal = Address::Parse("auto://server:3260").value();
    options.rdma_retry_interval = absl::Seconds(20);
    return options;
  }

  void CutRdma() {
    ways_->rdma.works = false;
    stack_.world.network().ResetConnections("client", "server");
  }

  // Attempts by RDMA reach nobody, and their device is removed meanwhile.
  void BreakRdma() {
    ways_->rdma = Way();
    ways_->rdma.leads_to = "nobody";
    ways_->rdma.breaks = true;
    stack_.world.network().BlackholeOneWay("client", "nobody");
  }
  // Its driver waits for that.
  void ExpectTheDeviceIsLeft() {
    ASSERT_NE(ways_->rdma.removed, nullptr);
    EXPECT_EQ(ways_->rdma.removed->regions(), 0u);
  }

  // A session that began without RDMA is about to have it.
  void BeginMove() { BeginMove(Options()); }
  void BeginMove(const InitiatorOptions& options) {
    ways_->rdma.works = false;
    stack_.LogIn(options);
    ways_->rdma.works = true;
    ASSERT_TRUE(stack_.RunUntil(
        [&] { return absl::StrContains(Log(), "the session moves there"); }));
  }

  // RDMA leads to somebody who does not have the target.
  std::unique_ptr<TargetServer> ListenAsAStranger() {
    auto stranger = TargetServer::Create(&stack_.registry,
                                         {stack_.world.AddReactor("stranger")},
                                         stack_.server_options)
                        .value();
    EXPECT_TRUE(
        stranger
            ->Listen(Address::Parse("sim://stranger:3260?kind=rdma").value())
            .ok());
    ways_->rdma.leads_to = "stranger";
    return stranger;
  }
  void ShutDown(TargetServer* server) {
    bool down = false;
    server->Shutdown(absl::ZeroDuration(), [&down] { down = true; });
    EXPECT_TRUE(stack_.RunUntil([&down] { return down; }));
  }

  // RDMA leads to somebody who does what the test wants.
  void LeadRdmaTo(RawIserPeer* peer) {
    peer->AcceptAt(*stack_.registry.Find("sim"), stack_.world.AddReactor("raw"),
                   "sim://raw:3260?kind=rdma");
    ways_->rdma.leads_to = "raw";
  }
  void Refuse(RawIserPeer* peer, LoginStatus status) {
    ASSERT_TRUE(
        stack_.RunUntil([peer] { return peer->endpoint() != nullptr; }));
    const std::optional<std::string> message = peer->Next();
    ASSERT_TRUE(message.has_value());
    LoginRequestPdu request;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &request).ok());
    LoginResponsePdu refusal;
    refusal.status_class = static_cast<uint16_t>(status) >> 8;
    refusal.status_detail = static_cast<uint16_t>(status) & 0xff;
    refusal.initiator_task_tag = request.initiator_task_tag;
    peer->Send(ToIser(refusal));
  }

  void ExpectModel(const std::string& model) {
    EXPECT_TRUE(stack_.RunUntil([&] {
      return stack_.initiator->connected() &&
             stack_.initiator->data_model() == model;
    })) << stack_.initiator->data_model();
  }

  // The target's view of the newest session.
  SessionInfo TargetsSession() {
    const std::vector<SessionInfo> sessions = stack_.Sessions();
    EXPECT_FALSE(sessions.empty());
    return sessions.empty() ? SessionInfo() : sessions.back();
  }

  std::string Log() const { return absl::StrJoin(stack_.log, "\n"); }

  // Logins get through by RDMA, and data do not.
  const std::shared_ptr<bool> transfers_break_ = std::make_shared<bool>(false);
  std::optional<Ways> ways_;  // Outlive what they are used by.
  SimStack stack_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, MoveTest, ::testing::Range<uint64_t>(1, 4));

TEST_P(MoveTest, UnderLoadNothingIsLostOnTheWayThereAndBack) {
  InitiatorOptions initiator = Options();
  initiator.rdma_retry_interval = absl::Milliseconds(20);
  stack_.LogIn(initiator);
  EXPECT_EQ(stack_.initiator->data_model(), "iSER");
  VerifiedLoad::Options options;
  options.commands = 25000;
  VerifiedLoad load(stack_.initiator.get(), &stack_.world.random(), options);
  load.Start();
  const auto run_some = [&] {
    stack_.RunUntil([&, goal = load.completed() + 300] {
      return load.completed() >= goal;
    });
  };
  for (int i = 0; i < 2; ++i) {
    run_some();
    CutRdma();
    ExpectModel("iSCSI");
    run_some();
    const uint64_t retries = stack_.initiator->stats().retries;
    ways_->rdma.works = true;
    ExpectModel("iSER");
    // It moved when no command was under way, and the load went on meanwhile.
    EXPECT_EQ(stack_.initiator->stats().retries, retries) << Log();
  }
  EXPECT_FALSE(load.done());
  load.Finish();
  EXPECT_TRUE(stack_.RunUntil([&] { return load.done(); }));
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  EXPECT_EQ(stack_.initiator->stats().reconnects, 4u);
  EXPECT_TRUE(absl::StrContains(Log(), "the session moves there")) << Log();
}

// Both ends say what carries the session, not what was asked for.
TEST_P(MoveTest, BothEndsNameTheBackendInUse) {
  InitiatorOptions options = Options();
  stack_.Connect(options);
  EXPECT_EQ(stack_.initiator->transport_name(), "auto") << "not chosen yet";
  ExpectModel("iSER");
  EXPECT_EQ(stack_.initiator->transport_name(), "sim");
  EXPECT_EQ(TargetsSession().connection.transport, "sim");
  EXPECT_EQ(TargetsSession().connection.data_model, "iSER");
  CutRdma();
  ExpectModel("iSCSI");
  EXPECT_EQ(stack_.initiator->transport_name(), "sim");
  EXPECT_EQ(TargetsSession().connection.transport, "sim");
  EXPECT_EQ(TargetsSession().connection.data_model, "iSCSI");
}

TEST_P(MoveTest, WhatBeganWithoutRdmaGetsItLater) {
  ways_->rdma.works = false;
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  stack_.world.RunFor(absl::Minutes(5));
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  ways_->rdma.works = true;
  const absl::Time back = stack_.world.now();
  ExpectModel("iSER");
  EXPECT_LE(stack_.world.now() - back, absl::Seconds(21));
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
}

TEST_P(MoveTest, ZeroMeansNever) {
  ways_->rdma.works = false;
  InitiatorOptions options = Options();
  options.rdma_retry_interval = absl::ZeroDuration();
  stack_.LogIn(options);
  ways_->rdma.works = true;
  stack_.world.RunFor(absl::Minutes(5));
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
}

TEST_P(MoveTest, CommandsThatTakeLongAreWaitedForAndThenLeftAlone) {
  ways_->rdma.works = false;
  InitiatorOptions options = Options();
  options.timeouts.nop_interval = absl::ZeroDuration();
  options.timeouts.command_timeout = absl::ZeroDuration();
  stack_.LogIn(options);
  ways_->rdma.works = true;
  // The way back is dark: nothing that is under way ends.
  stack_.world.network().BlackholeOneWay("server", "client");
  TestCommand stuck(scsi::cdb::Inquiry(96), 96);
  stack_.initiator->Submit(&stuck.command);
  stack_.world.RunFor(absl::Minutes(2));
  EXPECT_FALSE(stuck.finished);
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  stack_.world.network().Heal("server", "client");
  ExpectModel("iSER");
  EXPECT_TRUE(stack_.RunUntil([&] { return stuck.finished; }));
  EXPECT_EQ(stuck.command.outcome, scsi::Command::Outcome::kCompleted);
}

TEST_P(MoveTest, CommandsThatWaitedGoOnWhenTheMoveTakesTooLong) {
  constexpr uint64_t kHolds = uint64_t{1} << 48;  // LUN 1, as in PDUs.
  const auto disk = std::make_shared<HoldingBackend>(kBlocks * kBlock);
  scsi::LogicalUnitOptions unit;
  unit.lun = 1;
  ASSERT_TRUE(stack_.target->AddLogicalUnit(disk, unit).ok());
  ways_->rdma.works = false;
  InitiatorOptions options = Options();
  // Nothing else wakes it up.
  options.timeouts.nop_interval = absl::ZeroDuration();
  options.timeouts.command_timeout = absl::ZeroDuration();
  stack_.LogIn(options);
  TestCommand attention(scsi::cdb::TestUnitReady(), 0);
  attention.command.lun = kHolds;
  stack_.RunToGood(&attention);
  disk->Hold();
  TestCommand held(scsi::cdb::Read(0, 1), kBlock);
  held.command.lun = kHolds;
  stack_.initiator->Submit(&held.command);
  ASSERT_TRUE(stack_.RunUntil([&] { return disk->held() == 1; }));
  ways_->rdma.works = true;
  ways_->rdma.attempts = 0;
  ASSERT_TRUE(stack_.RunUntil([&] { return ways_->rdma.attempts == 1; }));
  stack_.RunFor(options.rdma_move_patience / 2);
  TestCommand waits(scsi::cdb::Inquiry(96), 96);
  stack_.initiator->Submit(&waits.command);
  stack_.RunFor(options.rdma_move_patience / 4);
  EXPECT_FALSE(waits.finished);
  stack_.RunFor(options.rdma_move_patience / 2);
  EXPECT_TRUE(waits.finished);
  EXPECT_FALSE(held.finished);
  EXPECT_THAT(Log(), HasSubstr("(rdma_move_patience)"));
  disk->Release();
  EXPECT_TRUE(stack_.RunUntil([&] { return held.finished; }));
  stack_.initiator.reset();  // While its commands are there.
}

// The session is restored where it was.
TEST_P(MoveTest, AWayThatBreaksDuringTheMoveIsLeft) {
  ASSERT_NO_FATAL_FAILURE(BeginMove());
  CutRdma();
  ExpectModel("iSCSI");
  TestCommand attention(scsi::cdb::TestUnitReady(), 0);
  stack_.Run(&attention.command);
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
}

// Nor does anything complete that was sent.
TEST_P(MoveTest, ALoginByAWayThatGoesDarkEndsInTime) {
  RawIserPeer peer(&stack_.world);
  LeadRdmaTo(&peer);
  InitiatorOptions options = Options();
  options.timeouts.login_timeout = absl::Seconds(1);
  ASSERT_NO_FATAL_FAILURE(BeginMove(options));
  stack_.world.network().BlackholeOneWay("client", "raw");
  ASSERT_TRUE(stack_.RunUntil(
      [&] { return absl::StrContains(Log(), "reconnect failed"); }));
  EXPECT_THAT(Log(), HasSubstr("did not finish the login within 1s"));
  stack_.initiator.reset();
}

TEST_P(MoveTest, AWayThatConnectsAndDoesNotLogInIsLeft) {
  auto stranger = ListenAsAStranger();
  ways_->rdma.works = false;
  stack_.LogIn(Options());
  ways_->rdma.works = true;
  for (int i = 0; i < 10; ++i) {
    stack_.world.RunFor(absl::Minutes(1));
    TestCommand command(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&command.command);
    EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
  }
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  // After 20 s, 40 s, 80 s, 160 s.
  EXPECT_EQ(stack_.initiator->stats().reconnects, 4u) << Log();
  ways_->rdma.leads_to.clear();
  ExpectModel("iSER");
  ShutDown(stranger.get());
}

TEST_P(MoveTest, AFirstLoginThatFailsByRdmaIsTriedWithout) {
  auto stranger = ListenAsAStranger();
  stack_.LogIn(Options());
  const auto over_streams = [this] {
    EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
    EXPECT_THAT(stack_.initiator->connection().fallbacks,
                ElementsAre(HasSubstr("iSCSI instead of iSER: RDMA connects, "
                                      "but the login over it failed: the "
                                      "target refuses the login")));
  };
  over_streams();
  EXPECT_THAT(Log(), HasSubstr("the login over it failed: the target refuses"));
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
  // It was the first failure: 40 s, not 20.
  stack_.world.RunFor(absl::Seconds(39));
  over_streams();
  ways_->rdma.leads_to.clear();
  ExpectModel("iSER");
  EXPECT_THAT(stack_.initiator->connection().fallbacks, IsEmpty());
  ShutDown(stranger.get());
}

TEST_P(MoveTest, WarningsAreForThoseWhoWantFewLines) {
  auto stranger = ListenAsAStranger();
  std::vector<std::string> warnings;
  InitiatorOptions options = Options();
  options.warn = [&](absl::string_view line) { warnings.emplace_back(line); };
  stack_.LogIn(options);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the login over it failed")));
  EXPECT_THAT(Log(), Not(HasSubstr(warnings[0])));
  stack_.initiator.reset();
  ShutDown(stranger.get());
}

TEST_P(MoveTest, WhoDoesNotSpeakIserIsReachedWithout) {
  RawIserPeer peer(&stack_.world);
  peer.SetPrivateData({0x80, 0});
  LeadRdmaTo(&peer);
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_THAT(Log(), HasSubstr("private data is 2 bytes; iSER's is 4"));
  ways_->rdma.leads_to.clear();
  ExpectModel("iSER");
}

// What it answered is looked at before the session logs out.
TEST_P(MoveTest, ASessionDoesNotMoveToWhoDoesNotSpeakIser) {
  RawIserPeer peer(&stack_.world);
  peer.SetPrivateData({0x80, 0});
  ways_->rdma.works = false;
  std::vector<std::string> warnings;
  InitiatorOptions options = Options();
  options.warn = [&](absl::string_view line) { warnings.emplace_back(line); };
  stack_.LogIn(options);
  ways_->rdma.works = true;
  LeadRdmaTo(&peer);
  warnings.clear();
  // After 20 s, and 40 s.
  for (size_t times = 1; times <= 2; ++times) {
    ASSERT_TRUE(stack_.RunUntil([&] { return warnings.size() == times; }));
    EXPECT_THAT(warnings.back(),
                AllOf(HasSubstr("RDMA connects, but cannot be used"),
                      HasSubstr("private data is 2 bytes"),
                      HasSubstr("the session stays")));
    EXPECT_TRUE(peer.Closed());
    peer.AcceptAnother();
    TestCommand command(scsi::cdb::Inquiry(96), 96);
    stack_.Run(&command.command);
    EXPECT_EQ(command.command.status, 0);
    EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  }
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u) << Log();
  ways_->rdma.leads_to.clear();
  ExpectModel("iSER");
}

// Handshakes arrive, and messages do not.
TEST_P(MoveTest, WhoDoesNotAnswerByRdmaIsReachedWithout) {
  RawIserPeer peer(&stack_.world);
  LeadRdmaTo(&peer);
  InitiatorOptions options = Options();
  options.timeouts.login_timeout = absl::Seconds(7);
  const absl::Time begin = stack_.world.now();
  stack_.LogIn(options);
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_GE(stack_.world.now() - begin, absl::Seconds(7));
  EXPECT_LE(stack_.world.now() - begin, absl::Seconds(8));
  EXPECT_EQ(ways_->rdma.attempts, 1);
}

TEST_P(MoveTest, ARefusalForWhoWeAreIsNotAskedForTwice) {
  for (const LoginStatus status : {LoginStatus::kAuthenticationFailure,
                                   LoginStatus::kAuthorizationFailure}) {
    RawIserPeer peer(&stack_.world);
    LeadRdmaTo(&peer);
    ways_->streams.attempts = 0;
    stack_.Connect(Options());
    Refuse(&peer, status);
    ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
    EXPECT_THAT(stack_.ready()->message(), HasSubstr("refuses the login"));
    EXPECT_EQ(ways_->streams.attempts, 0);
    EXPECT_THAT(Log(), Not(HasSubstr("without RDMA")));
    stack_.initiator.reset();
  }
}

// Some targets have no discovery sessions over iSER.
TEST_P(MoveTest, OtherRefusalsMayBeDueToIser) {
  RawIserPeer peer(&stack_.world);
  LeadRdmaTo(&peer);
  stack_.Connect(Options());
  Refuse(&peer, LoginStatus::kSessionTypeNotSupported);
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_TRUE(stack_.ready()->ok()) << *stack_.ready();
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
}

TEST_P(MoveTest, WhatFailsBothWaysIsToldOfBoth) {
  RawIserPeer peer(&stack_.world);
  peer.SetPrivateData({0x80, 0});
  LeadRdmaTo(&peer);
  ways_->streams.works = false;
  stack_.Connect(Options());
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_EQ(stack_.ready()->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(stack_.ready()->message(), HasSubstr("the cable is pulled"));
  EXPECT_THAT(stack_.ready()->message(), HasSubstr("private data is 2 bytes"));
  EXPECT_EQ(ways_->rdma.attempts, 1);
}

TEST_P(MoveTest, WhereRdmaIsRequiredThereIsNoWayWithout) {
  auto stranger = ListenAsAStranger();
  InitiatorOptions options = Options();
  options.portal = Address::Parse("auto://server:3260?rdma=require").value();
  stack_.Connect(options);
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_EQ(stack_.ready()->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ways_->rdma.attempts, 1);
  // Nor later, when the login fails that restores a session.
  ways_->rdma.leads_to.clear();
  stack_.LogIn(options);
  EXPECT_EQ(stack_.initiator->data_model(), "iSER");
  ways_->rdma.leads_to = "stranger";
  stack_.world.network().ResetConnections("client", "server");
  EXPECT_TRUE(stack_.RunUntil([&] { return ways_->rdma.attempts >= 5; }));
  EXPECT_FALSE(stack_.initiator->connected());
  EXPECT_EQ(ways_->streams.attempts, 0);
  stack_.initiator.reset();
  ShutDown(stranger.get());
}

constexpr char kMovedNoData[] = "lost before it had moved data";

TEST_P(MoveTest, AWayThatTakesLoginsButNoDataIsLeft) {
  *transfers_break_ = true;
  std::vector<std::string> warnings;
  InitiatorOptions initiator = Options();
  initiator.warn = [&](absl::string_view line) { warnings.emplace_back(line); };
  stack_.LogIn(initiator);
  EXPECT_EQ(stack_.initiator->data_model(), "iSER");
  TestCommand attention(scsi::cdb::TestUnitReady(), 0);
  stack_.Run(&attention.command);
  constexpr uint32_t kLength = 64 * 1024;
  for (char fill = 'a'; fill < 'k'; ++fill) {
    const std::string data(kLength, fill);
    TestCommand write(scsi::cdb::Write(0, kLength / kBlock), 0, data);
    TestCommand read(scsi::cdb::Read(0, kLength / kBlock), kLength);
    for (TestCommand* command : {&write, &read}) {
      // A session that was restored has a unit attention.
      do {
        stack_.Run(&command->command);
      } while (command->command.status == 2);
      EXPECT_EQ(command->command.outcome, scsi::Command::Outcome::kCompleted);
    }
    EXPECT_TRUE(read.buffer == data);
    EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
    EXPECT_THAT(stack_.initiator->connection().fallbacks,
                ElementsAre(HasSubstr(kMovedNoData)));
    stack_.world.RunFor(absl::Minutes(1));
  }
  // Moves after 40 s, 80 s, 160 s, 320 s; from each, and from the start, back.
  EXPECT_THAT(warnings, AllOf(SizeIs(4), Each(HasSubstr(kMovedNoData))));
  EXPECT_EQ(stack_.initiator->stats().reconnects, 7u) << Log();
  *transfers_break_ = false;
  ExpectModel("iSER");
}

// What moved data once is tried once more.
TEST_P(MoveTest, AWayThatDoesNotTakeDataAnyMoreIsLeft) {
  stack_.LogIn(Options());
  VerifiedLoad::Options options;
  options.commands = 2000;
  VerifiedLoad load(stack_.initiator.get(), &stack_.world.random(), options);
  load.Start();
  stack_.RunUntil([&] { return load.completed() >= 500; });
  *transfers_break_ = true;
  EXPECT_TRUE(stack_.RunUntil([&] { return load.done(); }));
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_EQ(stack_.initiator->stats().reconnects, 2u) << Log();
  EXPECT_THAT(stack_.log, Contains(HasSubstr(kMovedNoData)).Times(1));
}

// Nothing was to be moved, or enough was.
TEST_P(MoveTest, OtherLossesDoNotSpeakAgainstRdma) {
  stack_.LogIn(Options());
  for (int i = 0; i < 4; ++i) {
    if (i > 1) {
      TestCommand moved(scsi::cdb::Inquiry(96), 96);
      stack_.Run(&moved.command);
      EXPECT_EQ(moved.command.status, 0);
    }
    TestCommand lost(
        i > 1 ? scsi::cdb::Inquiry(96) : scsi::cdb::TestUnitReady(),
        i > 1 ? 96 : 0);
    stack_.initiator->Submit(&lost.command);
    stack_.world.network().ResetConnections("client", "server");
    EXPECT_TRUE(stack_.RunUntil([&] { return lost.finished; }));
    ExpectModel("iSER");
  }
  EXPECT_EQ(stack_.initiator->stats().reconnects, 4u);
  EXPECT_EQ(ways_->streams.attempts, 0);
}

// Commands that wait for a move have lost no session.
TEST_P(MoveTest, CommandsWaitForAMoveAlsoWhereTheyDoNotForALostSession) {
  ways_->rdma.works = false;
  InitiatorOptions initiator = Options();
  initiator.rdma_retry_interval = absl::Milliseconds(20);
  initiator.reconnect.replacement_timeout = absl::ZeroDuration();
  stack_.LogIn(initiator);
  VerifiedLoad::Options options;
  options.commands = 25000;
  VerifiedLoad load(stack_.initiator.get(), &stack_.world.random(), options);
  load.Start();
  ways_->rdma.works = true;
  ExpectModel("iSER");
  EXPECT_FALSE(load.done());
  load.Finish();
  EXPECT_TRUE(stack_.RunUntil([&] { return load.done(); }));
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
}

TEST_P(MoveTest, AnAttemptThatLosesLeavesItsDevice) {
  BreakRdma();
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  ExpectTheDeviceIsLeft();
}

TEST_P(MoveTest, AnAttemptThatLosesToAnotherByRdmaLeavesItsDevice) {
  BreakRdma();
  Way other;
  ways_->Add("other", &other);
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSER");
  ExpectTheDeviceIsLeft();
  stack_.initiator.reset();
}

TEST_P(MoveTest, AnAttemptToMoveThatFailsLeavesItsDevice) {
  ways_->rdma.works = false;
  stack_.LogIn(Options());
  BreakRdma();
  ASSERT_TRUE(stack_.RunUntil([&] { return ways_->rdma.removed != nullptr; }));
  ways_->rdma.works = false;
  stack_.world.RunFor(absl::Minutes(1));
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  ExpectTheDeviceIsLeft();
}

TEST_P(MoveTest, AConnectThatFailsLeavesItsDevice) {
  BreakRdma();
  ways_->streams.works = false;
  stack_.Connect(Options());
  ASSERT_TRUE(stack_.RunUntil([&] { return stack_.ready().has_value(); }));
  EXPECT_FALSE(stack_.ready()->ok());
  ExpectTheDeviceIsLeft();
}

TEST_P(MoveTest, EndsWithTheInitiator) {
  ASSERT_NO_FATAL_FAILURE(BeginMove());
  for (uint64_t i = 0; i < GetParam() * 3; ++i) stack_.world.Step();
  stack_.initiator.reset();
  stack_.world.RunFor(absl::Minutes(1));
}

TEST_P(MoveTest, ALogoutDuringTheMoveEndsTheSession) {
  ASSERT_NO_FATAL_FAILURE(BeginMove());
  TestCommand command(scsi::cdb::TestUnitReady(), 0);
  stack_.initiator->Submit(&command.command);
  EXPECT_TRUE(
      stack_
          .Await([&](auto done) { stack_.initiator->Logout(std::move(done)); })
          .ok());
  EXPECT_TRUE(command.finished);
  EXPECT_FALSE(stack_.initiator->connected());
  stack_.world.RunFor(absl::Minutes(1));
  EXPECT_FALSE(stack_.initiator->connected());
}

}  // namespace
}  // namespace skiff::protocol
