// What a transport says of itself, and of addresses, is so.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Address;

class TransportTest : public ConformancePair {
 protected:
  transport::Transport& transport() {
    return *world().transport(Side::kConnecting);
  }
  bool rdma() const { return expected().capabilities.rdma; }
  // What becomes of a connect, by its return or by `done`.
  absl::Status OutcomeOf(const Address& address,
                         const transport::ConnectOptions& options) {
    absl::Status outcome = absl::UnknownError("no outcome");
    const auto attempt = transport().Connect(
        world().reactor(Side::kConnecting), address, options,
        [&](auto made) { outcome = made.status(); });
    if (!attempt.ok()) return attempt.status();
    EXPECT_TRUE(Wait([&] { return !absl::IsUnknown(outcome); }));
    return outcome;
  }
  auto Listen(const Address& address,
              const transport::ListenOptions& options = {}) {
    return transport().Listen(world().reactor(Side::kConnecting), address,
                              options, [](auto) {});
  }
};

SKIFF_CONFORMANCE_SUITE(TransportTest, AllFactories);

TEST_P(TransportTest, SaysWhichKindItIs) {
  EXPECT_TRUE(transport().capabilities().rdma || !rdma())
      << "Transport::capabilities() has no RDMA";
  Connect();
  EXPECT_EQ(client().State().capabilities.rdma, rdma())
      << "the kind of the end that connected";
  EXPECT_EQ(server().State().capabilities.rdma, rdma())
      << "the kind of the end that listened";
}

TEST_P(TransportTest, EverythingHasItsScheme) {
  const std::string scheme(transport().scheme());
  EXPECT_FALSE(scheme.empty());
  EXPECT_EQ(world().listen_address().scheme, scheme);
  const int listener = server_host().Listen({}).value();
  const auto bound = Address::Parse(server_host().ListenAddress(listener));
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->scheme, scheme) << "of Listener::address()";
  EXPECT_NE(bound->port, 0) << "the port that was bound";
  for (const std::string& text : server_host().ListenAddresses(listener)) {
    const auto address = Address::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->scheme, scheme) << "of Listener::addresses()";
    EXPECT_NE(address->port, 0) << text;
  }
  server_host().CloseListener(listener);
  Connect();
  EXPECT_EQ(client().State().scheme, scheme) << "of the end that connected";
  EXPECT_EQ(server().State().scheme, scheme) << "of the end that listened";
}

// Servers count connections by it, and logs name it.
TEST_P(TransportTest, RequestsSayWhoAsks) {
  ListenPlan plan;
  plan.answer = Answer::kIgnore;
  const int listener = server_host().Listen(plan).value();
  const EndHandle end(
      &client_host(),
      client_host().Connect(server_host().ListenAddress(listener), {}));
  ASSERT_TRUE(Wait([&] {
    return !server_host().StateOfListener(listener).private_data.empty();
  })) << "the request never arrived";
  const ListenerState state = server_host().StateOfListener(listener);
  EXPECT_FALSE(state.peer_addresses.at(0).empty())
      << "ConnectionRequest::peer_address()";
  EXPECT_FALSE(state.local_addresses.at(0).empty())
      << "ConnectionRequest::local_address()";
  if (!rdma()) {
    EXPECT_EQ(state.private_data.at(0), "") << "byte streams have none";
  }
  Quiet();
  const absl::Status failure = server_host().StateOfListener(listener).failure;
  EXPECT_TRUE(failure.ok())
      << "on_failure ran while listening goes on: " << failure;
}

TEST_P(TransportTest, ReportsAUsableDevice) {
  const auto devices = transport().Devices();
  std::string problems;
  for (const transport::DeviceReport& device : devices) {
    EXPECT_FALSE(device.name.empty()) << "a device without a name";
    EXPECT_FALSE(device.detail.empty()) << device.name << " has no detail";
    if (device.usable) {
      EXPECT_TRUE(device.capabilities.rdma || !rdma()) << device.name;
      return;
    }
    EXPECT_FALSE(device.problem.empty())
        << device.name << " is not usable, and nobody says why";
    absl::StrAppend(&problems, "\n", device.name, ": ", device.problem);
  }
  ADD_FAILURE() << "none of " << devices.size()
                << " devices is usable:" << problems;
}

// A configuration is checked before it is used: what Listen() and Connect()
// refuse by the look of an address, CheckAddress() does, too. No transport has
// an option of that name, and ignoring one would not be what was meant.
TEST_P(TransportTest, RefusesAnUnknownOption) {
  const Address good = world().listen_address();
  EXPECT_TRUE(transport().CheckAddress(good).ok())
      << "CheckAddress() refuses what Listen() takes: "
      << transport().CheckAddress(good);
  Address bad = good;
  bad.options["no_such_option"] = "1";
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument &&
           status.message().find("no_such_option") != std::string::npos;
  };
  EXPECT_TRUE(refused(transport().CheckAddress(bad)))
      << transport().CheckAddress(bad) << ", by CheckAddress()";
  const absl::Status listening = Listen(bad).status();
  EXPECT_TRUE(refused(listening)) << listening << ", by Listen()";
  bad.port = 9;
  const absl::Status connecting = OutcomeOf(bad, {});
  EXPECT_TRUE(refused(connecting)) << connecting << ", by Connect()";
}

// CheckConnect() and CheckListen() say it for every transport.
TEST_P(TransportTest, RefusesWhatCannotBe) {
  Address address = world().listen_address();
  address.port = 0;
  const absl::Status port = OutcomeOf(address, {});
  EXPECT_TRUE(absl::IsInvalidArgument(port))
      << "connecting to port 0: " << port;
  address.port = 9;
  transport::ConnectOptions no_time;
  no_time.timeout = absl::ZeroDuration();
  const absl::Status timeout = OutcomeOf(address, no_time);
  EXPECT_TRUE(absl::IsInvalidArgument(timeout))
      << "connecting with a timeout of 0: " << timeout;
  transport::ListenOptions no_room;
  no_room.backlog = 0;
  const absl::Status backlog =
      Listen(world().listen_address(), no_room).status();
  EXPECT_TRUE(absl::IsInvalidArgument(backlog))
      << "listening with a backlog of 0: " << backlog;
}

TEST_P(TransportTest, RefusesAPortThatIsTaken) {
  const auto first = Listen(world().listen_address());
  ASSERT_TRUE(first.ok()) << first.status();
  const Address taken = (*first)->address();
  const auto second = Listen(taken);
  ASSERT_FALSE(second.ok()) << "two listen at " << taken.ToString();
  EXPECT_NE(second.status().message().find(std::to_string(taken.port)),
            std::string::npos)
      << "the error of Listen() has to name the address: " << second.status();
}

}  // namespace
}  // namespace skiff::testing
