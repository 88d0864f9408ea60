#include "testing/datamover_conformance/local_stack.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::protocol {

LocalStack::LocalStack(const std::string& address,
                       std::unique_ptr<transport::Transport> transport,
                       const StackOptions& options)
    : Stack(address, absl::Minutes(2)),
      reactor_options_(options.reactors),
      random_(options.seed) {
  const bool tcp = transport->scheme() == "tcp";
  EXPECT_TRUE(registry.Add(std::move(transport)).ok());
  if (!tcp) {
    EXPECT_TRUE(registry.Add(transport::MakeTcpTransport()).ok());
  }
  transport::ReactorThreadsOptions threads;
  threads.count = options.server_reactors;
  threads.reactor = reactor_options_;
  threads_ = transport::ReactorThreads::Start(threads).value();
  MoveToNewHost();
  StartServer();
}

InitiatorOptions LocalStack::Options() const {
  InitiatorOptions options = Stack::Options();
  options.timeouts.login_timeout = absl::Seconds(60);
  options.timeouts.nop_timeout = absl::Seconds(60);
  options.reconnect.delay = absl::Milliseconds(5);
  options.reconnect.max_delay = absl::Milliseconds(100);
  return options;
}

bool LocalStack::Turn(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time end = transport::EpollReactor::MonotonicNow() + limit;
  while (!done()) {
    if (transport::EpollReactor::MonotonicNow() > end) return false;
    if (initiator_reactor()->Poll() == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

void LocalStack::RunFor(absl::Duration duration) {
  Turn([] { return false; }, duration);
}

std::string LocalStack::StreamAddress() const {
  const auto address = transport::Address::Parse(portal).value();
  return absl::StrCat("tcp://", address.host, ":0");
}

void LocalStack::MoveToNewHost() {
  reactors_.push_back(
      transport::EpollReactor::Create(reactor_options_).value());
}

}  // namespace skiff::protocol
