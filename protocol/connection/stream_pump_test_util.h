#ifndef SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_TEST_UTIL_H_
#define SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_TEST_UTIL_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "transport/byte_stream.h"

// A stream and a datamover whose other ends are a test.

namespace skiff::protocol {

// A stream whose other end is the test: `input` is what can be read, `output`
// what was written.
struct Wire {
  // Takes what can be read first: a long input is not moved each time.
  size_t Take(void* to, size_t most) {
    const size_t n = std::min(most, input.size() - taken);
    memcpy(to, input.data() + taken, n);
    taken += n;
    if (taken == input.size()) {
      input.clear();
      taken = 0;
    }
    return n;
  }

  std::string input;
  size_t taken = 0;  // Of `input`.
  std::string output;
  size_t room = ~size_t{0};  // Bytes that may still be written.
  transport::StreamStatus input_end =
      transport::StreamStatus::kWouldBlock;  // After `input`.
  bool write_fails = false;
  bool shut = false;
  bool destroyed = false;
  int reads = 0;
  int writes = 0;
  transport::StreamObserver* observer = nullptr;
};

class FakeStream final : public transport::ByteStream {
 public:
  explicit FakeStream(Wire* wire) : wire_(wire) {}
  ~FakeStream() override {
    EXPECT_EQ(wire_->observer, nullptr);
    wire_->destroyed = true;
  }
  void SetObserver(transport::StreamObserver* observer) override {
    wire_->observer = observer;
  }
  transport::IoResult Readv(absl::Span<const iovec> to) override {
    ++wire_->reads;
    if (wire_->input.empty()) return {wire_->input_end, 0};
    size_t moved = 0;
    for (const iovec& part : to) {
      moved += wire_->Take(part.iov_base, part.iov_len);
    }
    return {transport::StreamStatus::kOk, moved};
  }
  transport::IoResult Writev(absl::Span<const iovec> from) override {
    ++wire_->writes;
    if (wire_->write_fails) return {transport::StreamStatus::kError, 0};
    if (wire_->room == 0) return {transport::StreamStatus::kWouldBlock, 0};
    size_t moved = 0;
    for (const iovec& part : from) {
      const size_t n = std::min(part.iov_len, wire_->room);
      wire_->output.append(static_cast<const char*>(part.iov_base), n);
      wire_->room -= n;
      moved += n;
    }
    return {transport::StreamStatus::kOk, moved};
  }
  void ShutdownWrite() override { wire_->shut = true; }
  void Abort() override {}
  absl::Status error() const override {
    return absl::UnavailableError("connection reset by peer");
  }
  absl::string_view scheme() const override { return "fake"; }
  std::string local_address() const override { return "here"; }
  std::string peer_address() const override { return "there"; }

 private:
  Wire* wire_;
};

// Appends what it receives to `received`, sends `queue`.
class FakeDatamover final : public StreamDatamover {
 public:
  static constexpr size_t kCapacity = 64;  // Of what it receives at once.

  absl::Span<const iovec> ReceiveSpans() override {
    if (paused) return {};
    buffer_.resize(capacity);
    span_ = {buffer_.data(), buffer_.size()};
    return {&span_, 1};
  }
  void BytesReceived(size_t n) override {
    received.append(buffer_, 0, n);
    if (on_receive) on_receive();
  }
  absl::Span<const iovec> SendSpans() override {
    if (queue.empty()) return {};
    send_ = {queue.data(), queue.size()};
    return {&send_, 1};
  }
  void BytesSent(size_t n) override { queue.erase(0, n); }
  bool has_output() const override { return !queue.empty(); }
  bool mid_pdu() const override { return mid; }
  bool congested() const override { return queue.size() > 100; }
  ConnectionCounters counters() const override { return {}; }

  size_t capacity = kCapacity;
  std::string received;
  std::string queue;
  bool paused = false;
  bool mid = false;
  std::function<void()> on_receive;

 private:
  std::string buffer_;
  iovec span_;
  iovec send_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_TEST_UTIL_H_
