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
};

SKIFF_CONFORMANCE_SUITE(TransportTest, AllFactories);

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
  EXPECT_FALSE(state.peer_addresses.at(0).empty());
  EXPECT_FALSE(state.local_addresses.at(0).empty());
}

TEST_P(TransportTest, ReportsAUsableDevice) {
  const auto devices = transport().Devices();
  std::string problems;
  for (const transport::DeviceReport& device : devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_FALSE(device.detail.empty()) << device.name;
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
      << transport().CheckAddress(good);
  Address bad = good;
  bad.options["no_such_option"] = "1";
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument &&
           status.message().find("no_such_option") != std::string::npos;
  };
  EXPECT_TRUE(refused(transport().CheckAddress(bad)))
      << transport().CheckAddress(bad) << ", by CheckAddress()";
  transport::Reactor* const reactor = world().reactor(Side::kConnecting);
  const auto listener = transport().Listen(reactor, bad, {}, [](auto) {});
  EXPECT_TRUE(refused(listener.status())) << listener.status() << ", by Listen";
  bad.port = 9;
  absl::Status outcome = absl::UnknownError("no outcome");
  const auto attempt = transport().Connect(
      reactor, bad, {}, [&](auto made) { outcome = made.status(); });
  if (attempt.ok()) {
    EXPECT_TRUE(Wait([&] { return !absl::IsUnknown(outcome); }));
  } else {
    outcome = attempt.status();
  }
  EXPECT_TRUE(refused(outcome)) << outcome << ", by Connect()";
}

}  // namespace
}  // namespace skiff::testing
