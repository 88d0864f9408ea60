// Connecting, for both endpoint kinds.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/sim/sim_test_util.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::testing {
namespace {

using transport::Address;
using transport::ConnectionRequest;
using transport::ConnectOptions;
using transport::Endpoint;

class SimConnectTest : public ::testing::TestWithParam<const char*> {
 protected:
  bool rdma() const { return GetParam() == std::string("rdma"); }
  Address At(const std::string& host_port) const {
    return Address::Parse(
               absl::StrCat("sim://", host_port, "?kind=", GetParam()))
        .value();
  }

  void Listen(int backlog = 10) {
    transport::ListenOptions options;
    options.backlog = backlog;
    auto listener =
        transport_->Listen(server_, At("server:3260"), options,
                           [this](std::unique_ptr<ConnectionRequest> request) {
                             requests_.push_back(std::move(request));
                           });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  void Connect(const ConnectOptions& options = {}) {
    auto attempt =
        transport_->Connect(client_, At("server:3260"), options,
                            [this](absl::StatusOr<Endpoint> made) {
                              outcomes_.push_back(made.status());
                              if (made.ok())
                                endpoints_.push_back(*std::move(made));
                            });
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    attempts_.push_back(*std::move(attempt));
  }

  bool WaitForOutcome() {
    return world_.RunUntil([this] { return !outcomes_.empty(); });
  }

  SimWorld world_{SimWorld::SeedFromEnvironment(1)};
  SimReactor* client_ = world_.AddReactor("client");
  SimReactor* server_ = world_.AddReactor("server");
  std::unique_ptr<transport::Transport> transport_ = MakeSimTransport(&world_);
  std::unique_ptr<transport::Listener> listener_;
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
  std::vector<std::unique_ptr<transport::ConnectAttempt>> attempts_;
  std::vector<absl::Status> outcomes_;
  std::vector<Endpoint> endpoints_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, SimConnectTest,
                         ::testing::Values("stream", "rdma"));

TEST_P(SimConnectTest, RefusedWhenNobodyListens) {
  Connect();
  ASSERT_TRUE(WaitForOutcome());
  EXPECT_EQ(outcomes_[0].message(),
            absl::StrCat("connect sim://server:3260?kind=", GetParam(),
                         ": Connection refused - is a target listening "
                         "there?"));
}

TEST_P(SimConnectTest, TimesOutInABlackhole) {
  Listen();
  world_.network().Blackhole("client", "server");
  const absl::Time start = world_.now();
  Connect();
  ASSERT_TRUE(WaitForOutcome());
  EXPECT_EQ(outcomes_[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(world_.now() - start, ConnectOptions().timeout);
  // The request of a peer that has given up does not arrive later.
  world_.network().Heal("client", "server");
  world_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(requests_.empty());
}

TEST_P(SimConnectTest, CancelledAttemptNeverReports) {
  Listen();
  Connect();
  attempts_.clear();
  world_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(outcomes_.empty());
}

TEST_P(SimConnectTest, AttemptCancelledWhilePendingIsNoEndpoint) {
  Listen();
  Connect();
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  if (!rdma()) {
    ASSERT_TRUE(WaitForOutcome());
    endpoints_.clear();
  }
  attempts_.clear();
  world_.RunFor(absl::Seconds(1));
  absl::Status status;
  requests_[0]->Accept(server_, {}, [&](absl::StatusOr<Endpoint> made) {
    status = made.status();
  });
  world_.RunFor(absl::Seconds(1));
  // As with TCP, a stream is accepted and ends at once.
  EXPECT_EQ(status.ok(), !rdma()) << status;
}

TEST_P(SimConnectTest, DestroyedRequestRejects) {
  Listen();
  Connect();
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  requests_.clear();
  ASSERT_TRUE(WaitForOutcome());
  if (rdma()) {
    EXPECT_TRUE(absl::StrContains(outcomes_[0].message(), "rejected"))
        << outcomes_[0];
    return;
  }
  // TCP connects before anyone accepts.
  ASSERT_TRUE(outcomes_[0].ok()) << outcomes_[0];
  world_.RunFor(absl::Seconds(1));
  EXPECT_FALSE(std::get<std::unique_ptr<transport::ByteStream>>(endpoints_[0])
                   ->error()
                   .ok());
}

TEST_P(SimConnectTest, ListenerThatGoesRejectsWhatIsPending) {
  Listen();
  server_->StallUntil(world_.now() + absl::Seconds(2));
  Connect();
  world_.RunFor(absl::Seconds(1));
  listener_.reset();
  world_.RunFor(absl::Seconds(2));
  EXPECT_TRUE(requests_.empty());
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].ok(), !rdma()) << outcomes_[0];
}

TEST_P(SimConnectTest, BacklogIsBounded) {
  Listen(/*backlog=*/2);
  for (int i = 0; i < 3; ++i) Connect();
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(requests_.size(), 2u);
  world_.RunFor(absl::Minutes(1));
  int failed = 0;
  for (const absl::Status& status : outcomes_) failed += status.ok() ? 0 : 1;
  EXPECT_EQ(failed, rdma() ? 3 : 1);
  // Answered ones make room.
  requests_.clear();
  Connect();
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_P(SimConnectTest, AttemptMayBeDestroyedByItsOwnCallback) {
  std::unique_ptr<transport::ConnectAttempt> attempt;
  bool called = false;
  auto created = transport_->Connect(client_, At("server:1"), {},
                                     [&](absl::StatusOr<Endpoint>) {
                                       called = true;
                                       attempt.reset();
                                     });
  ASSERT_TRUE(created.ok()) << created.status();
  attempt = *std::move(created);
  EXPECT_TRUE(world_.RunUntil([&] { return called; }));
}

TEST_P(SimConnectTest, PortsAreChosenAndTaken) {
  auto listen = [&](const Address& address) {
    return transport_->Listen(server_, address, {},
                              [](std::unique_ptr<ConnectionRequest>) {});
  };
  auto first = listen(At("server:0"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE((*first)->address().port, 0);
  EXPECT_EQ(listen((*first)->address()).status().code(),
            absl::StatusCode::kAlreadyExists);
  const Address address = (*first)->address();
  first->reset();
  EXPECT_TRUE(listen(address).ok());
}

TEST_P(SimConnectTest, BadArgumentsAreRefusedAtOnce) {
  auto never = [](absl::StatusOr<Endpoint>) { FAIL(); };
  auto epoll = transport::EpollReactor::Create().value();
  ConnectOptions no_time;
  no_time.timeout = absl::ZeroDuration();
  Address odd = At("server:1");
  odd.options["color"] = "red";
  for (const absl::Status& status :
       {transport_->Connect(epoll.get(), At("server:1"), {}, never).status(),
        transport_->Connect(client_, At("server:0"), {}, never).status(),
        transport_->Connect(client_, At("server:1"), no_time, never).status(),
        transport_->Connect(client_, odd, {}, never).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

class SimRdmaConnectTest : public SimConnectTest {};
INSTANTIATE_TEST_SUITE_P(Rdma, SimRdmaConnectTest, ::testing::Values("rdma"));

TEST_P(SimRdmaConnectTest, PrivateDataGoesBothWays) {
  Listen();
  ConnectOptions options;
  options.private_data = {1, 2, 3};
  options.read_depth = 4;
  Connect(options);
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  EXPECT_EQ(requests_[0]->private_data(), absl::MakeConstSpan({
                                              uint8_t{1},
                                              uint8_t{2},
                                              uint8_t{3},
                                          }));
  transport::AcceptOptions accept;
  accept.private_data = {9};
  accept.read_depth = 100;
  requests_[0]->Accept(server_, accept, [&](absl::StatusOr<Endpoint> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    endpoints_.push_back(*std::move(made));
  });
  ASSERT_TRUE(world_.RunUntil([&] { return endpoints_.size() == 2; }));
  auto& server =
      std::get<std::unique_ptr<transport::RdmaEndpoint>>(endpoints_[0]);
  auto& client =
      std::get<std::unique_ptr<transport::RdmaEndpoint>>(endpoints_[1]);
  EXPECT_EQ(server->peer_private_data().size(), 3u);
  EXPECT_EQ(client->peer_private_data(), absl::MakeConstSpan({uint8_t{9}}));
  EXPECT_EQ(server->capabilities().max_read_depth, 4u);
  EXPECT_EQ(client->capabilities().max_read_depth, 4u);
  EXPECT_EQ(client->peer_address(), "server:3260");
  EXPECT_EQ(client->local_address(), server->peer_address());
}

TEST_P(SimRdmaConnectTest, PrivateDataMayDependOnTheDevice) {
  Listen();
  const auto say = [](ConnectOptions* options, uint8_t what) {
    options->private_data = {1, 2, 3};
    options->private_data_of = [what](transport::RdmaEndpoint& endpoint) {
      EXPECT_TRUE(endpoint.domain()->capabilities().rdma);
      return std::vector<uint8_t>{what};
    };
  };
  ConnectOptions options;
  say(&options, 7);
  Connect(options);
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  EXPECT_EQ(requests_[0]->private_data(), absl::MakeConstSpan({uint8_t{7}}));
  transport::AcceptOptions accept;
  say(&accept, 8);
  requests_[0]->Accept(server_, accept, [&](absl::StatusOr<Endpoint> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    endpoints_.push_back(*std::move(made));
  });
  ASSERT_TRUE(world_.RunUntil([&] { return endpoints_.size() == 2; }));
  EXPECT_EQ(std::get<std::unique_ptr<transport::RdmaEndpoint>>(endpoints_[1])
                ->peer_private_data(),
            absl::MakeConstSpan({uint8_t{8}}));
}

TEST_P(SimRdmaConnectTest, RejectCarriesPrivateData) {
  Listen();
  Connect();
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  const uint8_t why[] = {7, 8};
  requests_[0]->Reject(why);
  ASSERT_TRUE(WaitForOutcome());
  EXPECT_EQ(outcomes_[0].GetPayload(transport::kRejectPrivateData),
            absl::Cord("\x07\x08"));
}

TEST_P(SimRdmaConnectTest, TooMuchPrivateDataIsRefused) {
  Listen();
  ConnectOptions options;
  options.private_data.resize(
      transport_->capabilities().max_private_data_bytes + 1);
  Connect(options);
  ASSERT_TRUE(WaitForOutcome());
  EXPECT_EQ(outcomes_[0].code(), absl::StatusCode::kInvalidArgument)
      << outcomes_[0];
  EXPECT_TRUE(requests_.empty());

  outcomes_.clear();
  Connect();
  ASSERT_TRUE(world_.RunUntil([&] { return !requests_.empty(); }));
  transport::AcceptOptions accept;
  accept.private_data = options.private_data;
  absl::Status status;
  requests_[0]->Accept(server_, accept, [&](absl::StatusOr<Endpoint> made) {
    status = made.status();
  });
  ASSERT_TRUE(WaitForOutcome());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_FALSE(outcomes_[0].ok());
}

}  // namespace
}  // namespace skiff::testing
