#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "transport/auto/auto_listener.h"
#include "transport/auto/auto_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::transport {
namespace {

class AutoListenTest : public testing::AutoTest {
 public:
  absl::Status Listen(const std::string& uri,
                      absl::Duration retry = absl::ZeroDuration()) {
    ListenOptions options;
    options.retry_interval = retry;
    options.on_change = [this](const absl::Status& status) {
      changes.push_back(status.ToString());
    };
    options.on_failure = [this](const absl::Status& why) { ended = why; };
    auto made = transport->Listen(
        reactor, Address::Parse(uri).value(), options,
        [this](const std::unique_ptr<ConnectionRequest>& /*request*/) {
          ++requests;
        });
    absl::Status status = made.status();
    if (made.ok()) listener = *std::move(made);
    return status;
  }

  std::unique_ptr<Listener> listener;
  absl::Status ended;
  std::vector<std::string> changes;
  int requests = 0;
};

TEST_F(AutoListenTest, LeavesLayersOut) {
  verbs.devices[0].rdma_device = fabric.devices[0].rdma_device = "rxe0";
  fabric.devices[0].layered = true;
  ASSERT_TRUE(Listen("auto://0.0.0.0:0").ok());
  EXPECT_EQ(verbs.listeners_alive, 1);
  EXPECT_TRUE(fabric.listens.empty());
  EXPECT_EQ(Entry("fabric").reason, "verbs has the same device");
}

TEST_F(AutoListenTest, ListensByAllOnOnePort) {
  ASSERT_TRUE(Listen("auto://0.0.0.0:0").ok());
  // TCP chose the port, since everybody has it.
  EXPECT_EQ(tcp.listens.at(0).ToString(), "tcp://0.0.0.0:0");
  EXPECT_EQ(verbs.listens.at(0).ToString(), "verbs://0.0.0.0:4321");
  EXPECT_EQ(fabric.listens.at(0).ToString(),
            "fabric://0.0.0.0:4321?provider=verbs");
  EXPECT_EQ(listener->address().ToString(), "auto://0.0.0.0:4321");
  tcp.on_request(nullptr);
  verbs.on_request(nullptr);
  world.RunFor(absl::Milliseconds(1));  // They wait for their turn.
  EXPECT_EQ(requests, 2);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].listening);
  EXPECT_FALSE(reports[0].fell_back());
  EXPECT_EQ(Entry("tcp").address, "tcp://0.0.0.0:4321");
  std::vector<std::string> addresses;
  for (const Address& address : listener->addresses()) {
    addresses.push_back(address.ToString());
  }
  EXPECT_EQ(addresses, (std::vector<std::string>{
                           "tcp://0.0.0.0:4321", "verbs://0.0.0.0:4321",
                           "fabric://0.0.0.0:4321?provider=verbs"}));
  listener.reset();
  EXPECT_EQ(
      tcp.listeners_alive + verbs.listeners_alive + fabric.listeners_alive, 0);
}

TEST_F(AutoListenTest, EachFailureIsReported) {
  verbs.refusal = fabric.refusal = absl::AlreadyExistsError("port taken");
  ASSERT_TRUE(Listen("auto://0.0.0.0:3260").ok());
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kFailed);
  EXPECT_EQ(Entry("verbs").reason, "port taken");
  EXPECT_EQ(Entry("tcp").outcome, ChoiceOutcome::kSucceeded);
  EXPECT_TRUE(reports[0].fell_back());
}

TEST_F(AutoListenTest, RequiredRdmaFailsClosed) {
  verbs.refusal = fabric.refusal = absl::AlreadyExistsError("port taken");
  const absl::Status status = Listen("auto://0.0.0.0:3260?rdma=require");
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_TRUE(tcp.listens.empty());
  EXPECT_EQ(reports.size(), 1u);
}

TEST_F(AutoListenTest, ATransportMayStopLater) {
  ASSERT_TRUE(Listen("auto://0.0.0.0:3260").ok());
  verbs.on_failure.at(0)(absl::UnavailableError("device removed"));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kFailed);
  EXPECT_EQ(Entry("verbs").reason, "stopped to listen: device removed");
  EXPECT_TRUE(ended.ok());
  tcp.on_failure.at(0)(absl::UnavailableError("no descriptors"));
  fabric.on_failure.at(0)(absl::UnavailableError("device removed"));
  EXPECT_EQ(ended.message(), "device removed");
  EXPECT_EQ(reports.size(), 4u);
}

// A device that was removed, and comes back.
TEST_F(AutoListenTest, ATransportThatStoppedIsTriedAgain) {
  ASSERT_TRUE(Listen("auto://0.0.0.0:0", absl::Seconds(2)).ok());
  verbs.refusal = absl::UnavailableError("no device has the address");
  verbs.on_failure.at(0)(absl::UnavailableError("device removed"));
  EXPECT_EQ(verbs.listens.size(), 1u) << "never from inside";
  world.RunFor(absl::Seconds(11));
  EXPECT_EQ(verbs.listens.size(), 6u) << "every two seconds";
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kFailed);
  EXPECT_EQ(verbs.listeners_alive, 0);
  // Told once, however often it is tried.
  const std::vector<std::string> down = {
      "UNAVAILABLE: verbs stopped to listen: device removed",
      "UNAVAILABLE: verbs stopped to listen: no device has the address"};
  EXPECT_EQ(changes, down);
  EXPECT_EQ(reports.size(), 3u);

  verbs.refusal = absl::OkStatus();
  world.RunFor(absl::Seconds(10));
  EXPECT_EQ(verbs.listens.size(), 7u);
  EXPECT_EQ(verbs.listens.back().port, 4321) << "the port that peers know";
  EXPECT_EQ(verbs.listeners_alive, 1);
  EXPECT_EQ(Entry("verbs").outcome, ChoiceOutcome::kSucceeded);
  EXPECT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes.back(), "OK");
  verbs.on_request(nullptr);
  world.RunFor(absl::Milliseconds(1));
  EXPECT_EQ(requests, 1);
  // The others were left alone, and all go with the listener.
  EXPECT_EQ(tcp.listens.size() + fabric.listens.size(), 2u);
  verbs.on_failure.back()(absl::UnavailableError("device removed"));
  listener.reset();
  world.RunFor(absl::Seconds(10));
  EXPECT_EQ(verbs.listens.size(), 7u);
}

// Then even the last one has not ended for good.
TEST_F(AutoListenTest, TheOnlyTransportIsTriedAgain) {
  ASSERT_TRUE(Listen("auto://0.0.0.0:3260?rdma=off", absl::Seconds(2)).ok());
  tcp.on_failure.at(0)(absl::UnavailableError("no descriptors"));
  EXPECT_EQ(reports.back().chosen(), nullptr);
  EXPECT_TRUE(ended.ok()) << ended;
  world.RunFor(absl::Seconds(3));
  EXPECT_EQ(Entry("tcp").outcome, ChoiceOutcome::kSucceeded);
}

// Real sockets on a real reactor.
TEST(AutoTcpTest, ConnectsToItself) {
  auto reactor = EpollReactor::Create({}).value();
  Registry registry;
  std::vector<ChoiceReport> reports;
  ASSERT_TRUE(registry.Add(MakeTcpTransport()).ok());
  ASSERT_TRUE(registry
                  .Add(MakeAutoTransport(&registry,
                                         [&](const ChoiceReport& report) {
                                           reports.push_back(report);
                                         }))
                  .ok());
  Transport* const transport = registry.Find("auto").value();
  std::unique_ptr<ConnectionRequest> request;
  auto listener = transport->Listen(
      reactor.get(), Address::Parse("auto://127.0.0.1:0").value(), {},
      [&](auto incoming) { request = std::move(incoming); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  bool connected = false;
  auto attempt = transport->Connect(
      reactor.get(), (*listener)->address(), {},
      [&](absl::StatusOr<Endpoint> made) { connected = made.ok(); });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while ((!connected || request == nullptr) && absl::Now() < limit) {
    reactor->Poll();
  }
  ASSERT_TRUE(connected && request != nullptr);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].chosen()->scheme, "tcp");
  EXPECT_EQ(reports[1].chosen()->scheme, "tcp");
  EXPECT_EQ(reports[1].WhyNoRdma(), "this program has no RDMA transport");
}

}  // namespace
}  // namespace skiff::transport
