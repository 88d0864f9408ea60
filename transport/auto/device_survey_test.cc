#include "transport/auto/device_survey.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/auto/auto_test_util.h"
#include "transport/auto/auto_transport.h"
#include "transport/auto/fake_transport.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::transport {
namespace {

using testing::FakeDevice;
using testing::FakeScript;
using testing::FakeTransport;

// Its devices take as long as somebody holds them up.
class SlowTransport final : public Transport {
 public:
  absl::string_view scheme() const override { return "slow"; }
  Capabilities capabilities() const override { return {}; }
  std::vector<DeviceReport> Devices() const override {
    ++looks;
    looked_on = std::this_thread::get_id();
    release.wait();
    return {FakeDevice("slow0", true)};
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* /*reactor*/, const Address& /*address*/,
      const ListenOptions& /*options*/, AcceptCallback /*done*/) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* /*reactor*/, const Address& /*address*/,
      const ConnectOptions& /*options*/, ConnectCallback /*done*/) override {
    return absl::UnimplementedError("");
  }

  std::shared_future<void> release;
  mutable std::atomic<int> looks{0};
  mutable std::atomic<std::thread::id> looked_on;
};

class DeviceSurveyTest : public ::testing::Test {
 public:
  DeviceSurveyTest() {
    auto transport = std::make_unique<SlowTransport>();
    slow = transport.get();
    slow->release = gate.get_future().share();
    EXPECT_TRUE(registry.Add(std::move(transport)).ok());
  }

  void Make(absl::Duration max_age, SurveyRunner run = nullptr) {
    survey = std::make_unique<DeviceSurvey>(&registry, max_age, std::move(run));
  }
  // The request; its result comes into `results`.
  std::unique_ptr<DeviceSurvey::Request> Start() {
    const size_t before = results.size();
    auto request = survey->Start(reactor.get(), [this](const auto& found) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      results.push_back(found);
    });
    EXPECT_EQ(results.size(), before) << "called back from inside Start";
    return request;
  }
  // Turns until there are so many results; bounded by the test's time.
  void Await(size_t count) {
    while (results.size() < count) reactor->Poll();
  }
  void AwaitLook(int count) const {
    while (slow->looks < count) std::this_thread::yield();
  }

  const std::thread::id here = std::this_thread::get_id();
  std::promise<void> gate;
  Registry registry;
  SlowTransport* slow;
  std::unique_ptr<EpollReactor> reactor = EpollReactor::Create().value();
  std::vector<absl::StatusOr<DeviceSurvey::Found>> results;
  std::unique_ptr<DeviceSurvey> survey;
};

TEST_F(DeviceSurveyTest, LooksOnAnotherThread) {
  FakeScript script;
  ASSERT_TRUE(
      registry.Add(std::make_unique<FakeTransport>("none", &script)).ok());
  ASSERT_TRUE(registry
                  .Add(MakeAutoTransport(&registry,
                                         [](const ChoiceReport& /*report*/) {}))
                  .ok());
  Make(absl::Seconds(1));
  const auto request = Start();
  AwaitLook(1);
  // The reactor has its turns meanwhile.
  reactor->Poll();
  EXPECT_TRUE(results.empty());
  gate.set_value();
  Await(1);
  EXPECT_NE(slow->looked_on.load(), here);
  ASSERT_TRUE(results[0].ok());
  const MachineDevices& found = **results[0];
  ASSERT_EQ(found.size(), 2u) << "auto is no way of its own";
  EXPECT_EQ(found[0].transport, slow);
  ASSERT_EQ(found[0].devices.size(), 1u);
  EXPECT_EQ(found[0].devices[0].name, "slow0");
  EXPECT_TRUE(found[1].devices.empty());
}

TEST_F(DeviceSurveyTest, WhatWasFoundServesForAWhile) {
  gate.set_value();
  Make(absl::InfiniteDuration());
  const auto first = Start();
  Await(1);
  const auto second = Start();
  Await(2);
  EXPECT_EQ(slow->looks, 1);
  EXPECT_EQ(*results[0], *results[1]);

  Make(absl::ZeroDuration());
  const auto third = Start();
  Await(3);
  const auto fourth = Start();
  Await(4);
  EXPECT_EQ(slow->looks, 3);
}

TEST_F(DeviceSurveyTest, OneSurveyServesAllThatWait) {
  Make(absl::ZeroDuration());
  const auto first = Start();
  AwaitLook(1);
  const auto second = Start();
  auto third = Start();
  third.reset();
  gate.set_value();
  Await(2);
  for (int i = 0; i < 10; ++i) reactor->Poll();
  EXPECT_EQ(results.size(), 2u) << "a request that was cancelled was answered";
  EXPECT_EQ(slow->looks, 1);
}

TEST_F(DeviceSurveyTest, OutlivesItsReactor) {
  Make(absl::ZeroDuration());
  auto request = Start();
  AwaitLook(1);
  request.reset();
  reactor.reset();
  gate.set_value();
  survey.reset();
  EXPECT_TRUE(results.empty());
}

TEST_F(DeviceSurveyTest, ItsEndWaitsForTheTransports) {
  Make(absl::ZeroDuration());
  auto request = Start();
  AwaitLook(1);
  request.reset();
  std::atomic<bool> released{false};
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    released = true;
    gate.set_value();
  });
  survey.reset();
  EXPECT_TRUE(released) << "the transports may be gone while they are in use";
  later.join();
}

TEST_F(DeviceSurveyTest, SaysWhyNobodyCouldLook) {
  Make(absl::Seconds(1), [](const std::function<void()>& /*work*/) {
    return absl::ResourceExhaustedError("no more threads");
  });
  const auto request = Start();
  Await(1);
  EXPECT_EQ(results[0].status(),
            absl::ResourceExhaustedError("no more threads"));
  EXPECT_EQ(slow->looks, 0);
  // The next one tries again.
  const auto again = Start();
  Await(2);
}

TEST_F(DeviceSurveyTest, TheRequestMayGoInItsCallback) {
  gate.set_value();
  Make(absl::Seconds(1));
  std::unique_ptr<DeviceSurvey::Request> request;
  bool done = false;
  request = survey->Start(reactor.get(), [&](const auto& /*found*/) {
    request.reset();
    done = true;
  });
  while (!done) reactor->Poll();
}

}  // namespace
}  // namespace skiff::transport
