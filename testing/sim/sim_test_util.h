#ifndef SKIFF_TESTING_SIM_SIM_TEST_UTIL_H_
#define SKIFF_TESTING_SIM_SIM_TEST_UTIL_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_transport.h"

namespace skiff::testing {

// Two hosts, "client" and "server", each with a reactor, and a connection
// between them.
template <typename EndpointType>
class SimPair {
 public:
  using Pointer = std::unique_ptr<EndpointType>;

  explicit SimPair(uint64_t seed, const SimTransportOptions& options = {})
      : world(seed),
        client_reactor(world.AddReactor("client")),
        server_reactor(world.AddReactor("server")),
        transport(MakeSimTransport(&world, options)) {}

  static const char* Uri() {
    return std::is_same_v<EndpointType, transport::ByteStream>
               ? "sim://server:3260?kind=stream"
               : "sim://server:3260?kind=rdma";
  }

  // Listens, unless it does already, and accepts what comes.
  void Listen() {
    if (listener != nullptr) return;
    auto created = transport->Listen(
        server_reactor, transport::Address::Parse(Uri()).value(), {},
        [this](std::unique_ptr<transport::ConnectionRequest> request) {
          request->Accept(server_reactor, accept_options,
                          [this](absl::StatusOr<transport::Endpoint> made) {
                            ASSERT_TRUE(made.ok()) << made.status();
                            server = std::get<Pointer>(*std::move(made));
                          });
        });
    ASSERT_TRUE(created.ok()) << created.status();
    listener = *std::move(created);
  }

  // Connects and waits; the outcome.
  absl::Status Connect() {
    Listen();
    absl::Status status = absl::UnknownError("no outcome");
    bool finished = false;
    auto attempt = transport->Connect(
        client_reactor, transport::Address::Parse(Uri()).value(),
        connect_options, [&](absl::StatusOr<transport::Endpoint> made) {
          finished = true;
          status = made.status();
          if (made.ok()) client = std::get<Pointer>(*std::move(made));
        });
    if (!attempt.ok()) return attempt.status();
    EXPECT_FALSE(finished);
    EXPECT_TRUE(world.RunUntil([&] { return finished; }, absl::Hours(1)));
    if (status.ok()) {
      EXPECT_TRUE(world.RunUntil([&] { return server != nullptr; }));
    }
    return status;
  }

  SimWorld world;
  SimReactor* const client_reactor;
  SimReactor* const server_reactor;
  const std::unique_ptr<transport::Transport> transport;
  transport::ConnectOptions connect_options;
  transport::AcceptOptions accept_options;
  std::unique_ptr<transport::Listener> listener;
  Pointer client;
  Pointer server;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_TEST_UTIL_H_
