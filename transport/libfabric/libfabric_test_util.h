#ifndef SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TEST_UTIL_H_
#define SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TEST_UTIL_H_

#include <poll.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::transport {

// Registered memory of one end.
class TestBuffer {
 public:
  TestBuffer(RdmaEndpoint* endpoint, size_t size, char fill,
             Access access = Access::kLocal)
      : memory_(size, fill),
        region_(endpoint->domain()
                    ->Register(memory_.data(), size, access)
                    .value()) {}

  char* data() { return memory_.data(); }
  std::string text() const { return {memory_.begin(), memory_.end()}; }
  const MemoryRegion* region() const { return region_.get(); }
  Sge Part(size_t offset, size_t length) {
    return {memory_.data() + offset, length, region_.get()};
  }
  RemoteBuffer Remote(size_t offset) const {
    return {region_->remote_base() + offset, region_->remote_key()};
  }

 private:
  std::vector<char> memory_;
  const std::unique_ptr<MemoryRegion> region_;
};

// A reactor that the test drives, with a transport; both ends live on it. The
// parameter is what follows the `?` of an address.
class LibfabricTest : public ::testing::TestWithParam<const char*> {
 protected:
  using EndpointPtr = std::unique_ptr<RdmaEndpoint>;

  LibfabricTest() : reactor_(EpollReactor::Create().value()) {}

  // Registered memory that outlives what is posted on it.
  TestBuffer& Memory(RdmaEndpoint* endpoint, size_t size, char fill,
                     Access access = Access::kLocal) {
    return buffers_.emplace_back(endpoint, size, fill, access);
  }

  std::string Uri(int port = 0) const {
    return "libfabric://127.0.0.1:" + std::to_string(port) + "?" + GetParam();
  }

  void Turn(absl::Duration limit) {
    const absl::Time now = EpollReactor::MonotonicNow();
    const absl::Duration wait = std::max(
        std::min(reactor_->NextDeadline() - now, limit), absl::ZeroDuration());
    pollfd p = {reactor_->fd(), POLLIN, 0};
    poll(&p, 1,
         static_cast<int>(absl::ToInt64Milliseconds(
             absl::Ceil(wait, absl::Milliseconds(1)))));
    reactor_->Poll();
  }

  // Runs the reactor until `done` holds; false when that takes too long.
  bool RunUntil(const std::function<bool()>& done,
                absl::Duration limit = absl::Seconds(20)) {
    const absl::Time end = EpollReactor::MonotonicNow() + limit;
    while (!done()) {
      if (EpollReactor::MonotonicNow() >= end) return false;
      Turn(absl::Milliseconds(2));
    }
    return true;
  }
  void RunFor(absl::Duration duration) {
    RunUntil([] { return false; }, duration);
  }

  void Listen(const ListenOptions& options = {}) {
    auto listener = transport_->Listen(
        reactor_.get(), Address::Parse(Uri()).value(), options,
        [this](std::unique_ptr<ConnectionRequest> request) {
          requests_.push_back(std::move(request));
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // Connects to the listener; the outcome goes to `out`.
  std::unique_ptr<ConnectAttempt> Connect(absl::StatusOr<EndpointPtr>* out,
                                          const ConnectOptions& options = {}) {
    *out = absl::UnknownError("no outcome");
    auto attempt = transport_->Connect(
        reactor_.get(), listener_->address(), options,
        [out](absl::StatusOr<Endpoint> endpoint) {
          if (endpoint.ok()) {
            *out = std::get<EndpointPtr>(*std::move(endpoint));
          } else {
            *out = endpoint.status();
          }
        });
    EXPECT_TRUE(attempt.ok()) << attempt.status();
    return attempt.ok() ? *std::move(attempt) : nullptr;
  }
  static bool Concluded(const absl::StatusOr<EndpointPtr>& outcome) {
    return outcome.ok() ||
           outcome.status().code() != absl::StatusCode::kUnknown;
  }

  // On reactor_ if `home` is null.
  void Accept(absl::StatusOr<EndpointPtr>* out,
              const AcceptOptions& options = {}, Reactor* home = nullptr) {
    *out = absl::UnknownError("no outcome");
    ASSERT_TRUE(RunUntil([this] { return !requests_.empty(); }));
    auto request = std::move(requests_.front());
    requests_.erase(requests_.begin());
    request->Accept(home != nullptr ? home : reactor_.get(), options,
                    [out](absl::StatusOr<Endpoint> endpoint) {
                      if (endpoint.ok()) {
                        *out = std::get<EndpointPtr>(*std::move(endpoint));
                      } else {
                        *out = endpoint.status();
                      }
                    });
  }

  // client_ and server_ are connected, the server on `home` unless that is
  // null. It has to go before that does.
  void ConnectPair(const ConnectOptions& connect = {},
                   const AcceptOptions& accept = {},
                   EpollReactor* home = nullptr) {
    if (listener_ == nullptr) Listen();
    ASSERT_NE(listener_, nullptr);
    absl::StatusOr<EndpointPtr> client;
    absl::StatusOr<EndpointPtr> server;
    const auto attempt = Connect(&client, connect);
    Accept(&server, accept, home);
    ASSERT_TRUE(RunUntil([&] {
      if (home != nullptr) home->Poll();
      return Concluded(client) && Concluded(server);
    })) << client.status()
        << server.status();
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE(server.ok()) << server.status();
    client_ = *std::move(client);
    server_ = *std::move(server);
  }

  // Waits for the next completion of `endpoint`'s queue.
  Completion Next(RdmaEndpoint* endpoint) {
    return Next(endpoint->completion_queue());
  }
  Completion Next(CompletionQueue* queue) {
    Completion completion;
    completion.status = CompletionStatus::kTransportError;
    EXPECT_TRUE(RunUntil([&] {
      return queue->Poll({&completion, 1}) == 1;
    })) << "no completion comes";
    return completion;
  }
  // Nothing completes for a while.
  bool Quiet(CompletionQueue* queue) {
    RunFor(absl::Milliseconds(50));
    Completion completion;
    return queue->Poll({&completion, 1}) == 0;
  }

  std::unique_ptr<EpollReactor> reactor_;
  std::deque<TestBuffer> buffers_;
  std::unique_ptr<Transport> transport_ = MakeLibfabricTransport();
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
  std::unique_ptr<Listener> listener_;
  EndpointPtr client_;
  EndpointPtr server_;
};

inline std::string ProviderName(
    const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name = name.substr(name.find('=') + 1);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; },
      '_');
  return name;
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TEST_UTIL_H_
