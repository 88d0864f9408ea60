// A session that prefers RDMA goes on over a byte stream when the way of RDMA
// dies, and back when it is there again.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"
#include "testing/sim/sim_backend.h"
#include "testing/sim/sim_memory.h"
#include "transport/auto/auto_backend.h"

namespace skiff::protocol {
namespace {

using transport::Address;

struct Condition {
  bool works = true;
  std::string leads_to;  // In place of whom the address names; empty: nobody.
  // Its device is removed while it connects, and then is here.
  bool breaks = false;
  std::shared_ptr<testing::SimDomain> removed;
};

// One kind of the simulated network's endpoints, which may be out of order.
class Way final : public transport::Backend {
 public:
  Way(testing::SimWorld* world, std::string scheme, std::string kind,
      Condition* condition)
      : sim_(testing::MakeSimBackend(world)),
        scheme_(std::move(scheme)),
        kind_(std::move(kind)),
        condition_(condition) {}

  absl::string_view scheme() const override { return scheme_; }
  transport::Capabilities capabilities() const override {
    transport::Capabilities capabilities = sim_->capabilities();
    capabilities.rdma = kind_ == "rdma";
    return capabilities;
  }
  std::vector<transport::DeviceReport> Devices() const override {
    std::vector<transport::DeviceReport> devices = sim_->Devices();
    for (auto& device : devices) device.capabilities = capabilities();
    return devices;
  }
  absl::StatusOr<std::unique_ptr<transport::Listener>> Listen(
      transport::Reactor* /*reactor*/, const Address& /*address*/,
      const transport::ListenOptions& /*options*/,
      transport::AcceptCallback /*on_request*/) override {
    return absl::UnimplementedError("a way to connect");
  }
  absl::StatusOr<std::unique_ptr<transport::ConnectAttempt>> Connect(
      transport::Reactor* reactor, const Address& address,
      const transport::ConnectOptions& options,
      transport::ConnectCallback done) override {
    if (!condition_->works) {
      return absl::UnavailableError("the cable is pulled");
    }
    Address there = address;
    if (!condition_->leads_to.empty()) there.host = condition_->leads_to;
    there.scheme = "sim";
    there.options = {{"kind", kind_}};
    transport::ConnectOptions breaking = options;
    breaking.prepare = [condition = condition_, prepare = options.prepare](
                           transport::RdmaEndpoint& endpoint) {
      absl::Status status = prepare(endpoint);
      if (condition->breaks) {
        auto* domain = static_cast<testing::SimDomain*>(endpoint.domain());
        domain->SetRemoved();
        condition->removed = domain->shared_from_this();
      }
      return status;
    };
    return sim_->Connect(reactor, there, breaking, std::move(done));
  }

 private:
  const std::unique_ptr<transport::Backend> sim_;
  const std::string scheme_;
  const std::string kind_;
  Condition* const condition_;
};

// A target that listens for both kinds, and ways there that a test can cut.
class MoveTest : public ::testing::TestWithParam<uint64_t> {
 public:
  MoveTest() : stack_(GetParam(), 1, testing::SimRdmaOptions::InfiniBand()) {
    const auto streams = stack_.server->Listen(
        Address::Parse("sim://server:3260?kind=stream").value());
    EXPECT_TRUE(streams.ok()) << streams.status();
    AddWay("fast", "rdma", &rdma_);
    AddWay("slow", "stream", &streams_);
    transport::AutoOptions options;
    options.run_survey = [](const std::function<void()>& survey) {
      survey();
      return absl::OkStatus();
    };
    EXPECT_TRUE(stack_.registry
                    .Add(transport::MakeAutoBackend(
                        &ways_, [](const transport::ChoiceReport&) {}, options))
                    .ok());
  }
  ~MoveTest() override { stack_.initiator.reset(); }

 protected:
  void AddWay(const char* scheme, const char* kind, Condition* condition) {
    EXPECT_TRUE(
        ways_.Add(std::make_unique<Way>(&stack_.world, scheme, kind, condition))
            .ok());
  }

  InitiatorOptions Options() const {
    InitiatorOptions options = stack_.Options();
    options.portal = Address::Parse("auto://server:3260").value();
    options.rdma_retry_interval = absl::Seconds(20);
    return options;
  }

  void CutRdma() {
    rdma_.works = false;
    stack_.world.network().ResetConnections("client", "server");
  }

  // Attempts by RDMA reach nobody, and their device is removed meanwhile.
  void BreakRdma() {
    rdma_ = Condition();
    rdma_.leads_to = "nobody";
    rdma_.breaks = true;
    stack_.world.network().BlackholeOneWay("client", "nobody");
  }
  // Its driver waits for that.
  void ExpectTheDeviceIsLeft() {
    ASSERT_NE(rdma_.removed, nullptr);
    EXPECT_EQ(rdma_.removed->regions(), 0u);
  }

  // A session that began without RDMA is about to have it.
  void BeginMove() {
    rdma_.works = false;
    stack_.LogIn(Options());
    rdma_.works = true;
    ASSERT_TRUE(stack_.RunUntil(
        [&] { return absl::StrContains(Log(), "the session moves there"); }));
  }

  void ExpectModel(const std::string& model) {
    EXPECT_TRUE(stack_.RunUntil([&] {
      return stack_.initiator->connected() &&
             stack_.initiator->data_model() == model;
    })) << stack_.initiator->data_model();
  }

  // The target's view of the newest session.
  SessionInfo TargetsSession() {
    std::vector<SessionInfo> sessions;
    bool listed = false;
    stack_.server->ListSessions([&](std::vector<SessionInfo> found) {
      sessions = std::move(found);
      listed = true;
    });
    EXPECT_TRUE(stack_.RunUntil([&] { return listed; }));
    EXPECT_FALSE(sessions.empty());
    return sessions.empty() ? SessionInfo() : sessions.back();
  }

  std::string Log() const { return absl::StrJoin(stack_.log, "\n"); }

  Condition rdma_;
  Condition streams_;
  transport::Registry ways_;
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
    rdma_.works = true;
    ExpectModel("iSER");
    // It moved when no command was under way, and the load went on meanwhile.
    EXPECT_EQ(stack_.initiator->stats().retries, retries) << Log();
  }
  EXPECT_FALSE(load.done());
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
  rdma_.works = false;
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  stack_.world.RunFor(absl::Minutes(5));
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  rdma_.works = true;
  const absl::Time back = stack_.world.now();
  ExpectModel("iSER");
  EXPECT_LE(stack_.world.now() - back, absl::Seconds(21));
  TestCommand command(scsi::cdb::Inquiry(96), 96);
  stack_.Run(&command.command);
  EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
}

TEST_P(MoveTest, ZeroMeansNever) {
  rdma_.works = false;
  InitiatorOptions options = Options();
  options.rdma_retry_interval = absl::ZeroDuration();
  stack_.LogIn(options);
  rdma_.works = true;
  stack_.world.RunFor(absl::Minutes(5));
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
}

TEST_P(MoveTest, CommandsThatTakeLongAreWaitedForAndThenLeftAlone) {
  rdma_.works = false;
  InitiatorOptions options = Options();
  options.nop_interval = absl::ZeroDuration();
  options.command_timeout = absl::ZeroDuration();
  stack_.LogIn(options);
  rdma_.works = true;
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

// RDMA leads to somebody who does not have the target.
TEST_P(MoveTest, AWayThatConnectsAndDoesNotLogInIsLeft) {
  auto stranger = TargetServer::Create(&stack_.registry,
                                       {stack_.world.AddReactor("stranger")},
                                       stack_.server_options)
                      .value();
  ASSERT_TRUE(
      stranger->Listen(Address::Parse("sim://stranger:3260?kind=rdma").value())
          .ok());
  rdma_.works = false;
  stack_.LogIn(Options());
  rdma_.works = true;
  rdma_.leads_to = "stranger";
  for (int i = 0; i < 10; ++i) {
    stack_.world.RunFor(absl::Minutes(1));
    TestCommand command(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&command.command);
    EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kCompleted);
  }
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  // After 20 s, 40 s, 80 s, 160 s.
  EXPECT_EQ(stack_.initiator->stats().reconnects, 4u) << Log();
  rdma_.leads_to.clear();
  ExpectModel("iSER");
  bool down = false;
  stranger->Shutdown(absl::ZeroDuration(), [&down] { down = true; });
  EXPECT_TRUE(stack_.RunUntil([&down] { return down; }));
}

// Commands that wait for a move have lost no session.
TEST_P(MoveTest, CommandsWaitForAMoveAlsoWhereTheyDoNotForALostSession) {
  rdma_.works = false;
  InitiatorOptions initiator = Options();
  initiator.rdma_retry_interval = absl::Milliseconds(20);
  initiator.replacement_timeout = absl::ZeroDuration();
  stack_.LogIn(initiator);
  VerifiedLoad::Options options;
  options.commands = 25000;
  VerifiedLoad load(stack_.initiator.get(), &stack_.world.random(), options);
  load.Start();
  rdma_.works = true;
  ExpectModel("iSER");
  EXPECT_FALSE(load.done());
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
  Condition other;
  AddWay("other", "rdma", &other);
  stack_.LogIn(Options());
  EXPECT_EQ(stack_.initiator->data_model(), "iSER");
  ExpectTheDeviceIsLeft();
  stack_.initiator.reset();
}

TEST_P(MoveTest, AnAttemptToMoveThatFailsLeavesItsDevice) {
  rdma_.works = false;
  stack_.LogIn(Options());
  BreakRdma();
  ASSERT_TRUE(stack_.RunUntil([&] { return rdma_.removed != nullptr; }));
  rdma_.works = false;
  stack_.world.RunFor(absl::Minutes(1));
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  ExpectTheDeviceIsLeft();
}

TEST_P(MoveTest, AConnectThatFailsLeavesItsDevice) {
  BreakRdma();
  streams_.works = false;
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
