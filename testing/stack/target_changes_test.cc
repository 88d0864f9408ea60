// Targets, portals and sessions that go while a server runs.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/target/target_server.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

class TargetChangesTest : public ::testing::Test {
 protected:
  TargetChangesTest()
      : medium_(std::make_shared<scsi::testing::TestBackend>(
            scsi::testing::ThinInfo(64))),
        stack_(testing::SimWorld::SeedFromEnvironment(1),
               /*server_reactors=*/2) {
    stack_.StopServer();
    stack_.target = scsi::Target::Create(kTargetName);
    EXPECT_TRUE(stack_.target->AddLogicalUnit(medium_, {}).ok());
    stack_.StartServer();
  }

  TargetServer& server() { return *stack_.server; }
  // What a call told; runs the world until it has.
  static TargetServer::Done Into(std::optional<absl::Status>* told) {
    return [told](absl::Status status) {
      EXPECT_FALSE(told->has_value()) << "told twice";
      *told = std::move(status);
    };
  }
  TargetServer::TargetRemoved IntoTarget(std::optional<absl::Status>* told) {
    return [this, told](absl::StatusOr<std::shared_ptr<scsi::Target>> target) {
      EXPECT_FALSE(told->has_value()) << "told twice";
      *told = target.status();
      if (target.ok()) removed_ = *std::move(target);
    };
  }
  absl::Status Await(const std::optional<absl::Status>& told) {
    EXPECT_TRUE(stack_.RunUntil([&] { return told.has_value(); }));
    return told.value_or(absl::UnknownError("not told"));
  }
  absl::Status Drop(uint64_t id, absl::Duration grace = absl::ZeroDuration()) {
    std::optional<absl::Status> told;
    server().DropSession(id, grace, Into(&told));
    return Await(told);
  }
  absl::Status Remove(absl::string_view name) {
    std::optional<absl::Status> told;
    server().RemoveTarget(name, absl::ZeroDuration(), IntoTarget(&told));
    return Await(told);
  }
  absl::Status Close(const std::string& portal) {
    std::optional<absl::Status> told;
    server().ClosePortal(transport::Address::Parse(portal).value(),
                         Into(&told));
    return Await(told);
  }
  // A READ that stays in the backend.
  void HoldRead(RawPeer* peer) {
    medium_->completion = scsi::testing::TestBackend::Completion::kHeld;
    ScsiCommandPdu read;
    read.read = true;
    read.initiator_task_tag = 2;
    read.expected_data_transfer_length = 512;
    read.cdb[0] = 0x28;
    read.cdb[8] = 1;
    // The first answer is a unit attention.
    for (read.cmd_sn = 1; read.cmd_sn <= 2; ++read.cmd_sn) {
      peer->Send(ToWire(read));
      stack_.world.RunFor(absl::Milliseconds(100));
    }
    ASSERT_EQ(medium_->held(), 1u);
  }

  const std::shared_ptr<scsi::testing::TestBackend> medium_;
  std::shared_ptr<scsi::Target> removed_;
  SimStack stack_;
};

// --- Sessions.

TEST_F(TargetChangesTest, ADroppedSessionIsGoneWhenThatIsTold) {
  RawPeer first(&stack_);
  RawPeer second(&stack_);
  first.LogIn(1);
  second.LogIn(2);
  const std::vector<SessionInfo> sessions = stack_.Sessions();
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_NE(sessions[0].id, sessions[1].id);
  const uint64_t id = sessions[0].id;
  EXPECT_TRUE(Drop(id).ok());
  const std::vector<SessionInfo> left = stack_.Sessions();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id, sessions[1].id);
  const absl::Status again = Drop(id);
  EXPECT_EQ(again.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(again.message()), HasSubstr("gone already"));
  EXPECT_FALSE(Drop(0).ok());
}

TEST_F(TargetChangesTest, ASessionMayHaveTimeToLogOut) {
  RawPeer deaf(&stack_);
  deaf.LogIn(1);
  const uint64_t id = stack_.Sessions().at(0).id;
  std::optional<absl::Status> first, second;
  const absl::Time start = stack_.world.now();
  server().DropSession(id, absl::Seconds(30), Into(&first));
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(first.has_value());
  EXPECT_FALSE(deaf.closed());
  server().DropSession(id, absl::Seconds(2), Into(&second));
  EXPECT_TRUE(Await(second).ok());
  EXPECT_TRUE(Await(first).ok());
  EXPECT_GE(stack_.world.now() - start, absl::Seconds(3));
  EXPECT_LT(stack_.world.now() - start, absl::Seconds(4));
}

TEST_F(TargetChangesTest, ALoginCanBeDroppedToo) {
  RawPeer mute(&stack_);
  stack_.world.RunFor(absl::Milliseconds(10));
  EXPECT_TRUE(Drop(stack_.Sessions().at(0).id, absl::Minutes(1)).ok());
  stack_.world.RunFor(absl::Milliseconds(10));
  EXPECT_TRUE(mute.closed());
}

TEST_F(TargetChangesTest, AnInitiatorComesBackAfterItWasDropped) {
  stack_.LogIn();
  EXPECT_TRUE(Drop(stack_.Sessions().at(0).id).ok());
  TestCommand ready(scsi::cdb::TestUnitReady(), 0);
  stack_.RunToGood(&ready);
  EXPECT_EQ(stack_.Sessions().size(), 1u);
}

TEST_F(TargetChangesTest, ADroppedSessionWaitsForItsBackend) {
  RawPeer peer(&stack_);
  peer.LogIn(1);
  HoldRead(&peer);
  std::optional<absl::Status> told;
  server().DropSession(stack_.Sessions().at(0).id, absl::ZeroDuration(),
                       Into(&told));
  stack_.world.RunFor(absl::Seconds(30));
  EXPECT_FALSE(told.has_value());
  EXPECT_EQ(medium_->CompleteHeld(), 1u);
  EXPECT_TRUE(Await(told).ok());
}

TEST_F(TargetChangesTest, ShutdownTellsThoseWhoWait) {
  RawPeer peer(&stack_);
  peer.LogIn(1);
  HoldRead(&peer);
  std::optional<absl::Status> session, target;
  server().DropSession(stack_.Sessions().at(0).id, absl::ZeroDuration(),
                       Into(&session));
  server().RemoveTarget(kTargetName, absl::ZeroDuration(), IntoTarget(&target));
  bool down = false;
  server().Shutdown(absl::ZeroDuration(), [&] {
    EXPECT_TRUE(session.has_value() && target.has_value());
    down = true;
  });
  EXPECT_TRUE(stack_.RunUntil([&] { return down; }));
  EXPECT_EQ(session->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(target->code(), absl::StatusCode::kAborted);
  stack_.server.reset();
  EXPECT_EQ(medium_->CompleteHeld(), 1u);
  stack_.world.RunFor(absl::Seconds(1));
}

// --- Targets.

TEST_F(TargetChangesTest, ARemovedTargetIsNotReferredToAnyMore) {
  RawPeer first(&stack_);
  RawPeer second(&stack_);
  RawPeer discovery(&stack_);
  first.LogIn(1);
  second.LogIn(2);
  discovery.LogIn(3, /*target=*/"");
  std::weak_ptr<scsi::Target> target = stack_.target;
  stack_.target.reset();
  EXPECT_TRUE(Remove(kTargetName).ok());
  EXPECT_EQ(removed_.use_count(), 1);
  EXPECT_EQ(removed_, target.lock());
  ASSERT_EQ(stack_.Sessions().size(), 1u) << "who discovers stays";
  EXPECT_EQ(stack_.Sessions()[0].target_name, "");
  RawPeer late(&stack_);
  late.LogIn(1);
  EXPECT_EQ(late.LoginStatus(), 0x0203);
  EXPECT_EQ(Remove(kTargetName).code(), absl::StatusCode::kNotFound);
  // Again.
  EXPECT_TRUE(server().AddTarget(std::move(removed_)).ok());
  RawPeer back(&stack_);
  back.LogIn(1);
  EXPECT_EQ(back.LoginStatus(), 0);
}

TEST_F(TargetChangesTest, ANameIsFreeWhenTheLastSessionIsGone) {
  RawPeer peer(&stack_);
  peer.LogIn(1);
  std::optional<absl::Status> told;
  server().RemoveTarget(kTargetName, absl::Seconds(5), IntoTarget(&told));
  stack_.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(told.has_value());
  const absl::Status early = server().AddTarget(stack_.target);
  EXPECT_THAT(std::string(early.message()), HasSubstr("is being removed"));
  EXPECT_THAT(std::string(Remove(kTargetName).message()),
              HasSubstr("is being removed already"));
  RawPeer late(&stack_);
  late.LogIn(2);
  EXPECT_EQ(late.LoginStatus(), 0x0203);
  EXPECT_TRUE(Await(told).ok());
  EXPECT_TRUE(server().AddTarget(stack_.target).ok());
}

// The first request names the target, and the next one never comes.
TEST_F(TargetChangesTest, ALoginThatIsUnderWayEndsWithItsTarget) {
  RawPeer peer(&stack_);
  peer.Send(RawPeer::FirstLogin(1, kTargetName, "iqn.2001-04.com.example:raw",
                                /*transit=*/false));
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_FALSE(peer.closed());
  EXPECT_TRUE(Remove(kTargetName).ok());
  stack_.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(peer.closed());
  EXPECT_EQ(stack_.Sessions().size(), 0u);
}

TEST_F(TargetChangesTest, ATargetThatIsNotThereIsNamed) {
  const absl::Status status = Remove("iqn.2001-04.com.example:nothing");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("iqn.2001-04.com.example:nothing"));
}

// --- Portals.

TEST_F(TargetChangesTest, AClosedPortalTakesNobody) {
  const std::string second = stack_.Listen("sim://server:0");
  RawPeer before(&stack_, second);
  before.LogIn(1);
  EXPECT_EQ(before.LoginStatus(), 0);
  RawPeer mute(&stack_, second);
  EXPECT_TRUE(Close(second).ok());
  EXPECT_EQ(Close(second).code(), absl::StatusCode::kNotFound);
  RawPeer after(&stack_, second);
  EXPECT_TRUE(after.closed());
  EXPECT_FALSE(before.closed()) << "sessions go on";
  mute.LogIn(2);
  EXPECT_EQ(mute.LoginStatus(), 0) << "and logins";
  RawPeer elsewhere(&stack_, stack_.portal);
  elsewhere.LogIn(3);
  EXPECT_EQ(elsewhere.LoginStatus(), 0);
  EXPECT_EQ(stack_.Listen(second), second) << "the address is free";
}

}  // namespace
}  // namespace skiff::protocol
