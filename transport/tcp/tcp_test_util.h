#ifndef SKIFF_TRANSPORT_TCP_TCP_TEST_UTIL_H_
#define SKIFF_TRANSPORT_TCP_TCP_TEST_UTIL_H_

#include <poll.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/tcp/tcp_transport.h"

namespace skiff::transport {

// A reactor that the test drives, with a transport.
class TcpTest : public ::testing::Test {
 protected:
  TcpTest() : reactor_(EpollReactor::Create().value()) {}

  // Runs the reactor until `done` holds; false when that takes too long.
  bool RunUntil(const std::function<bool()>& done,
                absl::Duration limit = absl::Seconds(20)) {
    const absl::Time end = EpollReactor::MonotonicNow() + limit;
    while (!done()) {
      const absl::Time now = EpollReactor::MonotonicNow();
      if (now >= end) return false;
      const absl::Duration wait = std::min(
          std::min(end, reactor_->NextDeadline()) - now, absl::Seconds(1));
      pollfd p = {reactor_->fd(), POLLIN, 0};
      poll(&p, 1,
           static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(
               std::max(wait, absl::ZeroDuration()), absl::Milliseconds(1)))));
      reactor_->Poll();
    }
    return true;
  }

  // Listens and collects requests.
  std::unique_ptr<Listener> Listen(const std::string& uri,
                                   const ListenOptions& options = {}) {
    auto listener =
        transport_->Listen(reactor_.get(), Address::Parse(uri).value(), options,
                           [this](std::unique_ptr<ConnectionRequest> request) {
                             requests_.push_back(std::move(request));
                           });
    EXPECT_TRUE(listener.ok()) << listener.status();
    return listener.ok() ? *std::move(listener) : nullptr;
  }

  // Connects and waits for the outcome.
  absl::StatusOr<std::unique_ptr<ByteStream>> Connect(
      const Address& address, const ConnectOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<ByteStream>> result =
        absl::UnknownError("no outcome");
    bool finished = false;
    auto attempt = transport_->Connect(
        reactor_.get(), address, options,
        [&](absl::StatusOr<Endpoint> endpoint) {
          finished = true;
          if (endpoint.ok()) {
            result =
                std::get<std::unique_ptr<ByteStream>>(*std::move(endpoint));
          } else {
            result = endpoint.status();
          }
        });
    if (!attempt.ok()) return attempt.status();
    EXPECT_FALSE(finished) << "the callback ran inside Connect()";
    EXPECT_TRUE(RunUntil([&] { return finished; }));
    return result;
  }

  // Accepts the oldest request.
  std::unique_ptr<ByteStream> Accept(const AcceptOptions& options = {}) {
    EXPECT_TRUE(RunUntil([&] { return !requests_.empty(); }));
    if (requests_.empty()) return nullptr;
    auto request = std::move(requests_.front());
    requests_.erase(requests_.begin());
    std::unique_ptr<ByteStream> stream;
    bool finished = false;
    request->Accept(
        reactor_.get(), options, [&](absl::StatusOr<Endpoint> endpoint) {
          finished = true;
          EXPECT_TRUE(endpoint.ok()) << endpoint.status();
          if (!endpoint.ok()) return;
          stream = std::get<std::unique_ptr<ByteStream>>(*std::move(endpoint));
        });
    EXPECT_FALSE(finished) << "the callback ran inside Accept()";
    EXPECT_TRUE(RunUntil([&] { return finished; }));
    return stream;
  }

  // Reads until `size` bytes came, the peer ended its side or the stream died;
  // `last` gets the last status other than kWouldBlock.
  std::string ReadSome(ByteStream* stream, size_t size, StreamStatus* last) {
    std::string data;
    RunUntil([&] {
      while (data.size() < size) {
        char buffer[65536];
        const iovec to = {buffer, std::min(sizeof(buffer), size - data.size())};
        const IoResult result = stream->Readv({&to, 1});
        if (result.status == StreamStatus::kWouldBlock) return false;
        *last = result.status;
        if (result.status != StreamStatus::kOk) return true;
        data.append(buffer, result.bytes);
      }
      return true;
    });
    return data;
  }

  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<Transport> transport_ = MakeTcpTransport();
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
};

inline IoResult Write(ByteStream* stream, const std::string& data) {
  const iovec from = {const_cast<char*>(data.data()), data.size()};
  return stream->Writev({&from, 1});
}

inline IoResult Read(ByteStream* stream, void* to, size_t size) {
  const iovec piece = {to, size};
  return stream->Readv({&piece, 1});
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_TEST_UTIL_H_
