// Whose settings a channel has. In a guest, as it takes a connection manager.

#include "transport/verbs/cm_channel.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::transport {
namespace {

TEST(CmChannelTest, IsSharedByThoseOfTheSameSettings) {
  const auto reactor = EpollReactor::Create().value();
  const auto other = EpollReactor::Create().value();
  const VerbsOptions usual;
  const auto channel = CmChannel::ForReactor(reactor.get(), usual).value();
  EXPECT_EQ(CmChannel::ForReactor(reactor.get(), usual).value(), channel);
  EXPECT_NE(CmChannel::ForReactor(other.get(), usual).value(), channel);
}

TEST(CmChannelTest, WhoCameFirstDoesNotChooseTheSettingsOfOthers) {
  const auto reactor = EpollReactor::Create().value();
  const VerbsOptions usual;
  VerbsOptions mine;
  mine.cm_events_per_turn = 1;
  const auto first = CmChannel::ForReactor(reactor.get(), usual).value();
  const auto channel = CmChannel::ForReactor(reactor.get(), mine).value();
  EXPECT_EQ(channel->settings(), mine);
  EXPECT_EQ(first->settings(), usual);
  EXPECT_EQ(CmChannel::ForReactor(reactor.get(), usual).value(), first);
  EXPECT_EQ(CmChannel::ForReactor(reactor.get(), mine).value(), channel);
}

// Two transports of one reactor, each with a channel of its own.
TEST(CmChannelTest, TransportsOfOtherSettingsMeet) {
  const auto reactor = EpollReactor::Create().value();
  VerbsOptions settings;
  settings.cm_events_per_turn = 1;
  const auto client = MakeVerbsTransport();
  const auto server = MakeVerbsTransport(settings);
  const char* const address = std::getenv("SKIFF_VM_ADDRESS");
  ASSERT_NE(address, nullptr) << "this test is for the guest";
  const std::string host = address;
  absl::StatusOr<Endpoint> accepted = absl::UnknownError("no outcome");
  absl::StatusOr<Endpoint> connected = absl::UnknownError("no outcome");
  const auto listener = server->Listen(
      reactor.get(), Address::Parse("verbs://" + host + ":0").value(), {},
      [&](std::unique_ptr<ConnectionRequest> request) {
        request->Accept(reactor.get(), {},
                        [&](auto endpoint) { accepted = std::move(endpoint); });
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto attempt =
      client->Connect(reactor.get(), (*listener)->address(), {},
                      [&](auto endpoint) { connected = std::move(endpoint); });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  const absl::Time limit = EpollReactor::MonotonicNow() + absl::Seconds(20);
  const auto open = [](const absl::StatusOr<Endpoint>& outcome) {
    return outcome.status().code() == absl::StatusCode::kUnknown;
  };
  while ((open(accepted) || open(connected)) &&
         EpollReactor::MonotonicNow() < limit) {
    reactor->Poll();
  }
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_TRUE(connected.ok()) << connected.status();
}

}  // namespace
}  // namespace skiff::transport
