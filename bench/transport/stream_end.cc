#include "bench/transport/stream_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/compare/util.h"

namespace skiff::bench {

using transport::ByteStream;
using transport::IoResult;
using transport::StreamStatus;

StreamEnd::StreamEnd(std::unique_ptr<ByteStream> stream)
    : stream_(std::move(stream)), connecting_(false) {
  stream_->SetObserver(this);
}

StreamEnd::StreamEnd(std::unique_ptr<ByteStream> stream,
                     const Workload& workload)
    : stream_(std::move(stream)), connecting_(true) {
  stream_->SetObserver(this);
  const std::vector<uint8_t> hello = Encode(workload);
  const iovec from = {const_cast<uint8_t*>(hello.data()), hello.size()};
  if (stream_->Writev({&from, 1}).bytes != hello.size()) {
    Die("cannot send on a new stream");
  }
  SetWorkload(workload);
}

absl::Status StreamEnd::RunByEvents(transport::Reactor* /*reactor*/,
                                    std::function<int()> step) {
  step_ = std::move(step);
  stream_->SetObserver(this);  // Tells at once.
  return absl::OkStatus();
}

// Until there is nothing more to read: a stream tells only once.
void StreamEnd::Step() {
  if (!step_) return;
  while (step_() > 0) {
  }
}

void StreamEnd::SetWorkload(const Workload& workload) {
  const size_t answer = kHeaderBytes + workload.size;
  in_bytes_ = connecting_ ? answer : kHeaderBytes;
  out_bytes_ = connecting_ ? kHeaderBytes : answer;
  const size_t depth = workload.ping_pong ? 1 : workload.depth;
  in_.resize(in_bytes_ * depth);
  out_.resize(out_bytes_);
  pieces_.reserve(2 * depth + 1);
  started_ = true;
  if (connecting_) Send(depth);
}

bool StreamEnd::ReceiveWorkload() {
  const size_t have = hello_.size();
  hello_.resize(kWorkloadBytes);
  const iovec to = {&hello_[have], kWorkloadBytes - have};
  const IoResult result = stream_->Readv({&to, 1});
  hello_.resize(have + (result.status == StreamStatus::kOk ? result.bytes : 0));
  if (hello_.size() < kWorkloadBytes) return false;
  Workload workload;
  if (!Decode(hello_, &workload)) Die("the peer is another program");
  SetWorkload(workload);
  return true;
}

// Messages that were completed. None only if there is nothing more to read.
int StreamEnd::Receive() {
  while (true) {
    const iovec to = {in_.data(), in_.size() - partial_};
    const IoResult result = stream_->Readv({&to, 1});
    if (result.status == StreamStatus::kWouldBlock) return 0;
    if (result.status != StreamStatus::kOk) {
      closed_ = true;
      return 0;
    }
    partial_ += result.bytes;
    const int messages = static_cast<int>(partial_ / in_bytes_);
    partial_ %= in_bytes_;
    if (messages > 0) return messages;
  }
}

void StreamEnd::Send(size_t messages) {
  if (connecting_) outstanding_ += static_cast<uint32_t>(messages);
  unsent_ += messages * out_bytes_;
  Write();
}

// Each message is a header and a payload of their own, as protocols have them.
void StreamEnd::Write() {
  while (unsent_ > 0) {
    pieces_.clear();
    size_t at = (out_bytes_ - unsent_ % out_bytes_) % out_bytes_;
    for (size_t left = unsent_;
         left > 0 && pieces_.size() < ByteStream::kMaxIov;) {
      const size_t end = at < kHeaderBytes ? kHeaderBytes : out_bytes_;
      pieces_.push_back({out_.data() + at, end - at});
      left -= end - at;
      at = end % out_bytes_;
    }
    const IoResult result = stream_->Writev(pieces_);
    if (result.status == StreamStatus::kWouldBlock) return;
    if (result.status != StreamStatus::kOk) {
      closed_ = true;
      return;
    }
    unsent_ -= result.bytes;
  }
}

int StreamEnd::Poll() {
  if (!started_ && !ReceiveWorkload()) return 0;
  if (unsent_ > 0) Write();
  // As raw does, which bench/compare measures beside this: requests wait.
  if (unsent_ > 0) return 0;
  const int messages = Receive();
  if (messages == 0) return 0;
  completed_ += static_cast<uint64_t>(messages);
  if (connecting_) outstanding_ -= static_cast<uint32_t>(messages);
  if (!finishing_) Send(static_cast<size_t>(messages));
  return messages;
}

}  // namespace skiff::bench
