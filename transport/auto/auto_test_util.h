#ifndef SKIFF_TRANSPORT_AUTO_AUTO_TEST_UTIL_H_
#define SKIFF_TRANSPORT_AUTO_AUTO_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_world.h"
#include "transport/auto/auto_transport.h"
#include "transport/auto/fake_transport.h"
#include "transport/registry.h"

namespace skiff::testing {

inline transport::DeviceReport FakeDevice(const std::string& name, bool rdma) {
  transport::DeviceReport device;
  device.name = name;
  device.usable = true;
  device.capabilities.rdma = rdma;
  return device;
}

// Three fake transports and an auto transport that chooses between them, in
// virtual time: "verbs" and "fabric" with RDMA, "tcp" without.
class AutoTest : public ::testing::Test {
 public:
  AutoTest() {
    verbs.devices = {FakeDevice("rxe0", true)};
    fabric.devices = {FakeDevice("fab0", true)};
    fabric.devices[0].address_options = {{"provider", "verbs"}};
    tcp.devices = {FakeDevice("lo", false), FakeDevice("eth0", false)};
    Add(std::make_unique<FakeTransport>("tcp", &tcp));
    Add(std::make_unique<FakeTransport>("verbs", &verbs));
    Add(std::make_unique<FakeTransport>("fabric", &fabric));
    Configure({});
  }

  void Add(std::unique_ptr<transport::Transport> transport) {
    ASSERT_TRUE(registry.Add(std::move(transport)).ok());
  }
  void Configure(transport::AutoOptions options) {
    // In virtual time, and with devices that tests change.
    options.devices_max_age = absl::ZeroDuration();
    options.run_survey = [](const std::function<void()>& work) {
      work();
      return absl::OkStatus();
    };
    ConfigureAsTheyAre(options);
  }
  void ConfigureAsTheyAre(const transport::AutoOptions& options) {
    transport = transport::MakeAutoTransport(
        &registry,
        [this](const transport::ChoiceReport& report) {
          reports.push_back(report);
        },
        options);
  }

  // Starts to connect; `result` comes later.
  absl::Status Start(const std::string& uri = "auto://peer:3260",
                     absl::Duration timeout = absl::Seconds(10)) {
    began = world.now();
    transport::ConnectOptions options;
    options.timeout = timeout;
    auto made = transport->Connect(
        reactor, transport::Address::Parse(uri).value(), options,
        [this](absl::StatusOr<transport::Endpoint> outcome) {
          EXPECT_FALSE(result.has_value()) << "called back twice";
          took = world.now() - began;
          result = std::move(outcome);
          attempt.reset();
        });
    EXPECT_FALSE(result.has_value()) << "called back from inside Connect";
    absl::Status status = made.status();
    if (made.ok()) attempt = *std::move(made);
    return status;
  }
  // Connects and waits. The address of the endpoint, or the error.
  std::string Connect(const std::string& uri = "auto://peer:3260",
                      absl::Duration timeout = absl::Seconds(10)) {
    const absl::Status started = Start(uri, timeout);
    if (!started.ok()) return std::string(started.message());
    EXPECT_TRUE(world.RunUntil([&] { return result.has_value(); }));
    if (!result->ok()) return std::string(result->status().message());
    return std::get<std::unique_ptr<transport::ByteStream>>(**result)
        ->peer_address();
  }
  // Of the last report.
  const transport::ChoiceEntry& Entry(const std::string& scheme) {
    static const transport::ChoiceEntry kNone;
    for (const transport::ChoiceEntry& entry : reports.back().entries) {
      if (entry.scheme == scheme) return entry;
    }
    ADD_FAILURE() << "the report has no " << scheme;
    return kNone;
  }
  absl::Duration Began(const FakeScript& script) {
    return script.began.at(0) - began;
  }

  SimWorld world{1};
  SimReactor* const reactor = world.AddReactor("client");
  FakeScript tcp;
  FakeScript verbs;
  FakeScript fabric;
  transport::Registry registry;
  std::unique_ptr<transport::Transport> transport;
  std::vector<transport::ChoiceReport> reports;
  absl::Time began;
  absl::Duration took;
  std::unique_ptr<transport::ConnectAttempt> attempt;
  std::optional<absl::StatusOr<transport::Endpoint>> result;
};

}  // namespace skiff::testing

#endif  // SKIFF_TRANSPORT_AUTO_AUTO_TEST_UTIL_H_
