#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "transport/auto/auto_test_util.h"

namespace skiff::transport {
namespace {

using testing::FakeDevice;

class AutoConnectTest : public testing::AutoTest {};

constexpr absl::Duration kNever = absl::InfiniteDuration();

TEST_F(AutoConnectTest, TakesTheBestThatSucceedsAtOnce) {
  EXPECT_EQ(Connect(), "verbs://peer:3260");
  EXPECT_TRUE(fabric.connects.empty());
  EXPECT_TRUE(tcp.connects.empty());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].chosen(), &reports[0].entries[0]);
  EXPECT_EQ(Entry("verbs").rank, 1);
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kSucceeded);
  EXPECT_EQ(Entry("verbs").took, absl::Milliseconds(1));
  EXPECT_EQ(Entry("fabric").rank, 2);
  EXPECT_EQ(Entry("fabric").outcome, ChoiceOutcome::kSkipped);
  EXPECT_EQ(Entry("fabric").reason, "verbs succeeded first");
  EXPECT_EQ(Entry("tcp").rank, 3);
  EXPECT_EQ(Entry("tcp").devices, "lo, eth0");
  EXPECT_FALSE(reports[0].fell_back());
  EXPECT_EQ(reports[0].WhyNoRdma(), "");
}

TEST_F(AutoConnectTest, StaggersAttempts) {
  verbs.takes = fabric.takes = kNever;
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_EQ(Began(verbs), absl::ZeroDuration());
  EXPECT_EQ(Began(fabric), absl::Milliseconds(250));
  EXPECT_EQ(Began(tcp), absl::Milliseconds(1250));
  EXPECT_EQ(took, absl::Milliseconds(1251));
  EXPECT_EQ(fabric.connects[0].options.at("provider"), "verbs");
  EXPECT_TRUE(tcp.connects[0].options.empty());
  // What is left of the deadline for all.
  EXPECT_EQ(tcp.timeouts[0], absl::Milliseconds(8750));
}

TEST_F(AutoConnectTest, AFailureBringsTheNextForward) {
  verbs.takes = absl::Milliseconds(10);
  verbs.outcome = absl::UnavailableError("no route");
  EXPECT_EQ(Connect(), "fabric://peer:3260?provider=verbs");
  EXPECT_EQ(Began(fabric), absl::Milliseconds(10));
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kFailed);
  EXPECT_EQ(Entry("verbs").reason, "no route");
  EXPECT_EQ(Entry("verbs").took, absl::Milliseconds(10));
  EXPECT_EQ(Entry("fabric").began, absl::Milliseconds(10));
}

TEST_F(AutoConnectTest, ARefusalBringsTheNextForwardAtOnce) {
  verbs.refusal = absl::InvalidArgumentError("too many entries");
  fabric.refusal = absl::InvalidArgumentError("no provider");
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_EQ(took, absl::Milliseconds(1));
}

TEST_F(AutoConnectTest, AFallbackWaitsWhileSomethingBetterRuns) {
  verbs.takes = absl::Milliseconds(600);
  fabric.takes = absl::Milliseconds(1);
  fabric.outcome = absl::UnavailableError("no route");
  EXPECT_EQ(Connect(), "verbs://peer:3260");
  EXPECT_EQ(took, absl::Milliseconds(600));
  EXPECT_TRUE(tcp.connects.empty());
}

TEST_F(AutoConnectTest, AFallbackStartsWhenNothingBetterRuns) {
  verbs.takes = absl::Milliseconds(300);
  fabric.takes = absl::Milliseconds(1);
  verbs.outcome = fabric.outcome = absl::UnavailableError("no route");
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_EQ(Began(tcp), absl::Milliseconds(300));
}

TEST_F(AutoConnectTest, TheWinnerCancelsTheOthers) {
  verbs.takes = kNever;
  fabric.takes = absl::Milliseconds(20);
  EXPECT_EQ(Connect(), "fabric://peer:3260?provider=verbs");
  EXPECT_EQ(verbs.attempts_alive, 0);
  EXPECT_EQ(fabric.attempts_alive, 0);
  EXPECT_EQ(verbs.endpoints_alive, 0);
  EXPECT_EQ(fabric.endpoints_alive, 1);
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kTried);
  EXPECT_EQ(Entry("verbs").reason, "fabric succeeded first");
  EXPECT_EQ(Entry("verbs").took, absl::Milliseconds(270));
  world.RunFor(absl::Hours(1));
  EXPECT_EQ(reports.size(), 1u);
}

TEST_F(AutoConnectTest, TwoSuccessesAtOneInstantDeliverOne) {
  verbs.takes = absl::Milliseconds(350);
  fabric.takes = absl::Milliseconds(100);
  EXPECT_EQ(Connect(), "verbs://peer:3260");
  EXPECT_EQ(verbs.endpoints_alive + fabric.endpoints_alive, 1);
}

TEST_F(AutoConnectTest, FallingBackIsSaid) {
  verbs.outcome = absl::UnavailableError("no route");
  fabric.devices[0].usable = false;
  fabric.devices[0].problem = "no link; check the cable";
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_TRUE(reports[0].fell_back());
  EXPECT_EQ(reports[0].WhyNoRdma(),
            "verbs (rxe0) failed: no route; fabric (fab0) skipped: no link; "
            "check the cable");
  EXPECT_EQ(reports[0].ToString(),
            "connect auto://peer:3260 (RDMA is preferred): tcp (lo, eth0), "
            "falling back from RDMA, after 2ms\n"
            "  1 verbs (rxe0): failed after 1ms: no route\n"
            "  2 tcp (lo, eth0): succeeded after 1ms\n"
            "  - fabric (fab0): skipped: no link; check the cable");
}

TEST_F(AutoConnectTest, RequiredRdmaFailsClosed) {
  verbs.outcome = absl::PermissionDeniedError("rejected");
  verbs.outcome.SetPayload(kRejectPrivateData, absl::Cord("why"));
  fabric.takes = absl::Milliseconds(2);
  fabric.outcome = absl::UnavailableError("no route");
  const std::string error = Connect("auto://peer:3260?rdma=require");
  EXPECT_TRUE(tcp.connects.empty());
  EXPECT_EQ(error,
            "connect auto://peer:3260?rdma=require: no transport succeeded "
            "(RDMA is required): verbs rxe0 failed: rejected; fabric fab0 "
            "failed: no route; tcp lo skipped: it is no RDMA, which is "
            "required (rdma=require); tcp eth0 skipped: it is no RDMA, which "
            "is required (rdma=require)");
  // The best one's code and payloads.
  EXPECT_TRUE(absl::IsPermissionDenied(result->status()));
  EXPECT_EQ(result->status().GetPayload(kRejectPrivateData).value(), "why");
  EXPECT_EQ(reports[0].chosen(), nullptr);
  EXPECT_FALSE(reports[0].fell_back());
}

TEST_F(AutoConnectTest, RequiredRdmaFailsAtOnceWithoutDevices) {
  verbs.devices[0].usable = fabric.devices[0].usable = false;
  verbs.devices[0].problem = "no RDMA device; load its driver";
  const std::string error = Connect("auto://peer:3260?rdma=require");
  EXPECT_TRUE(absl::IsFailedPrecondition(result->status())) << error;
  EXPECT_NE(error.find("verbs rxe0 skipped: no RDMA device; load"),
            std::string::npos)
      << error;
  EXPECT_EQ(reports.size(), 1u);
  EXPECT_EQ(Entry("verbs").rank, 0);
  EXPECT_EQ(took, absl::ZeroDuration());
}

TEST_F(AutoConnectTest, TcpOnlyTriesNoRdma) {
  EXPECT_EQ(Connect("auto://peer:3260?rdma=off"), "tcp://peer:3260");
  EXPECT_TRUE(verbs.connects.empty());
  EXPECT_EQ(Entry("verbs").reason, "RDMA is switched off (rdma=off)");
  EXPECT_FALSE(reports[0].fell_back());
}

TEST_F(AutoConnectTest, OneDeadlineForAll) {
  verbs.takes = fabric.takes = tcp.takes = kNever;
  const std::string error = Connect("auto://peer:3260", absl::Seconds(3));
  EXPECT_EQ(took, absl::Seconds(3));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result->status()));
  EXPECT_NE(error.find("no answer within the 3s for all attempts"),
            std::string::npos)
      << error;
  EXPECT_EQ(verbs.attempts_alive + fabric.attempts_alive + tcp.attempts_alive,
            0);
  EXPECT_EQ(Entry("tcp").outcome, ChoiceOutcome::kFailed);
  EXPECT_EQ(Entry("tcp").took, absl::Milliseconds(1750));
}

TEST_F(AutoConnectTest, TheDeadlineMayComeBeforeAllWereTried) {
  verbs.takes = fabric.takes = kNever;
  Connect("auto://peer:3260", absl::Milliseconds(500));
  EXPECT_EQ(took, absl::Milliseconds(500));
  EXPECT_EQ(Entry("tcp").outcome, ChoiceOutcome::kSkipped);
  EXPECT_EQ(Entry("tcp").reason, "no time was left for it");
}

// A driver that hangs holds up neither the reactor nor the deadline.
TEST_F(AutoConnectTest, TheDeadlineIsForTheDevicesToo) {
  std::function<void()> survey;
  AutoOptions options;
  options.run_survey = [&survey](std::function<void()> work) {
    survey = std::move(work);
    return absl::OkStatus();
  };
  ConfigureAsTheyAre(options);
  const std::string error = Connect("auto://peer:3260", absl::Seconds(3));
  EXPECT_EQ(took, absl::Seconds(3));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result->status()));
  EXPECT_NE(error.find("devices did not tell within 3s"), std::string::npos)
      << error;
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(Entry("auto").took, absl::Seconds(3));
  // Too late.
  survey();
  world.RunFor(absl::Hours(1));
  EXPECT_TRUE(verbs.connects.empty());
  EXPECT_EQ(reports.size(), 1u);
}

TEST_F(AutoConnectTest, CancelledInFlight) {
  verbs.takes = fabric.takes = tcp.takes = kNever;
  ASSERT_TRUE(Start().ok());
  world.RunFor(absl::Milliseconds(400));
  EXPECT_EQ(verbs.attempts_alive + fabric.attempts_alive, 2);
  attempt.reset();
  EXPECT_EQ(verbs.attempts_alive + fabric.attempts_alive, 0);
  world.RunFor(absl::Hours(1));
  EXPECT_FALSE(result.has_value());
  EXPECT_TRUE(tcp.connects.empty());
  EXPECT_TRUE(reports.empty());
}

TEST_F(AutoConnectTest, CancelledBeforeItBegan) {
  ASSERT_TRUE(Start().ok());
  attempt.reset();
  world.RunFor(absl::Hours(1));
  EXPECT_TRUE(verbs.connects.empty());
}

TEST_F(AutoConnectTest, EveryFailureIsTold) {
  verbs.outcome = fabric.outcome = absl::UnavailableError("no route");
  tcp.outcome = absl::UnavailableError("Connection refused");
  const std::string error = Connect();
  EXPECT_EQ(error,
            "connect auto://peer:3260: no transport succeeded (RDMA is "
            "preferred): verbs rxe0 failed: no route; fabric fab0 failed: no "
            "route; tcp lo, eth0 failed: Connection refused");
  EXPECT_EQ(took, absl::Milliseconds(3));
}

TEST_F(AutoConnectTest, EmulatedRdmaCountsOnlyWhereItIsAllowed) {
  verbs.devices.clear();
  fabric.devices[0].emulated = true;
  fabric.takes = kNever;
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_NE(Entry("fabric").reason.find("emulates RDMA"), std::string::npos);
  EXPECT_EQ(Entry("verbs").reason, "it finds no device on this machine");

  fabric.takes = absl::Milliseconds(1);
  result.reset();
  EXPECT_EQ(Connect("auto://peer:3260?emulated=yes&rdma=require"),
            "fabric://peer:3260?provider=verbs");
}

TEST_F(AutoConnectTest, DevicesMayKeepOut) {
  verbs.devices.clear();
  fabric.devices[0].not_for_auto = "it has to be named";
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_EQ(Entry("fabric").reason, "it has to be named");
}

TEST_F(AutoConnectTest, LayersGiveWayToTransportsWithTheSameDevice) {
  verbs.devices.push_back(FakeDevice("rxe0 port 2", true));
  verbs.devices[0].rdma_device = verbs.devices[1].rdma_device = "rxe0";
  fabric.devices.push_back(FakeDevice("fab1", true));
  fabric.devices[0].rdma_device = "rxe0";
  fabric.devices[1].rdma_device = "mlx5_0";
  fabric.devices[0].layered = fabric.devices[1].layered = true;
  verbs.takes = kNever;
  EXPECT_EQ(Connect(), "fabric://peer:3260");
  EXPECT_EQ(verbs.connects.size(), 1u);
  EXPECT_EQ(fabric.connects.size(), 1u);
  EXPECT_EQ(Entry("verbs").devices, "rxe0, rxe0 port 2");
  EXPECT_EQ(Entry("fabric").devices, "fab1");
  EXPECT_EQ(reports[0].entries.back().devices, "fab0");
  EXPECT_EQ(reports[0].entries.back().reason, "verbs has the same device");
  // What holds for both is said of both.
  result.reset();
  EXPECT_EQ(Connect("auto://peer:3260?rdma=off"), "tcp://peer:3260");
  EXPECT_EQ(Entry("fabric").reason, Entry("verbs").reason);
}

// Whichever the program names first.
TEST_F(AutoConnectTest, LayersGiveWayToWhatComesLater) {
  verbs.devices[0].rdma_device = fabric.devices[0].rdma_device = "rxe0";
  verbs.devices[0].layered = true;
  EXPECT_EQ(Connect(), "fabric://peer:3260?provider=verbs");
  EXPECT_EQ(Entry("verbs").reason, "fabric has the same device");
  EXPECT_TRUE(verbs.connects.empty());
}

// What is wrong with the device is wrong for both; and the layer's address may
// lead to a device that is tried already.
TEST_F(AutoConnectTest, LayersGiveWayToWhatCannotBeUsed) {
  verbs.devices[0].rdma_device = fabric.devices[0].rdma_device = "rxe0";
  verbs.devices[0].usable = false;
  verbs.devices[0].problem = "the link is down";
  fabric.devices[0].layered = true;
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  EXPECT_EQ(Entry("verbs").reason, "the link is down");
  EXPECT_EQ(Entry("fabric").reason, "verbs has the same device");
}

// Nobody says that they reach the same peers.
TEST_F(AutoConnectTest, OthersMayShareADevice) {
  verbs.devices[0].rdma_device = fabric.devices[0].rdma_device = "rxe0";
  verbs.takes = kNever;
  EXPECT_EQ(Connect(), "fabric://peer:3260?provider=verbs");
}

TEST_F(AutoConnectTest, TheCallerMayRefuseDevices) {
  AutoOptions options;
  options.suitable = [](const DeviceReport& device) {
    return device.name == "rxe0" ? absl::UnimplementedError("keys too wide")
                                 : absl::OkStatus();
  };
  Configure(options);
  EXPECT_EQ(Connect(), "fabric://peer:3260?provider=verbs");
  EXPECT_EQ(Entry("verbs").reason, "keys too wide");
}

TEST_F(AutoConnectTest, AttemptsAreBounded) {
  AutoOptions options;
  options.max_attempts = 2;
  Configure(options);
  verbs.outcome = fabric.outcome = absl::UnavailableError("no route");
  Connect();
  EXPECT_FALSE(result->ok());
  EXPECT_TRUE(tcp.connects.empty());
  EXPECT_EQ(Entry("tcp").reason, "there are 2 better ones (max_attempts)");
}

TEST_F(AutoConnectTest, DevicesOfDifferentOptionsAreTriedApart) {
  fabric.devices.push_back(FakeDevice("fab1", true));
  fabric.devices.push_back(FakeDevice("fab2", true));
  fabric.devices[1].address_options = {{"provider", "opx"}};
  fabric.devices[2].address_options = {{"provider", "verbs"}};
  verbs.outcome = fabric.outcome = absl::UnavailableError("no route");
  EXPECT_EQ(Connect(), "tcp://peer:3260");
  ASSERT_EQ(fabric.connects.size(), 2u);
  EXPECT_EQ(fabric.connects[1].options.at("provider"), "opx");
  EXPECT_EQ(Entry("fabric").devices, "fab0, fab2");
}

TEST_F(AutoConnectTest, DoesNotChooseItself) {
  ChoiceObserver ignore = [](const ChoiceReport&) {};
  Add(MakeAutoTransport(&registry, ignore));
  EXPECT_EQ(Connect(), "verbs://peer:3260");
  EXPECT_EQ(reports[0].entries.size(), 3u);
  EXPECT_TRUE(transport->capabilities().rdma);
}

TEST_F(AutoConnectTest, RefusesOptionsThatMakeNoSense) {
  for (const char* uri :
       {"auto://h?rdma=maybe", "auto://h?stagger=-1s", "auto://h?stagger=soon",
        "auto://h?emulated=1", "auto://h?provider=tcp"}) {
    const Address address = Address::Parse(uri).value();
    EXPECT_TRUE(absl::IsInvalidArgument(transport->CheckAddress(address)))
        << uri;
    EXPECT_TRUE(absl::IsInvalidArgument(Start(uri))) << uri;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Start("auto://h", absl::ZeroDuration())));
  verbs.takes = kNever;
  EXPECT_EQ(Connect("auto://peer:3260?stagger=5ms"),
            "fabric://peer:3260?provider=verbs");
  EXPECT_EQ(Began(fabric), absl::Milliseconds(5));
}

}  // namespace
}  // namespace skiff::transport
