#include "bench/transport/rdma_end.h"

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/compare/util.h"

namespace skiff::bench {
namespace {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RdmaEndpoint;
using transport::Sge;

constexpr size_t kPage = 4096;
// Of a flow in one direction: for so many messages the receiver sends a credit.
constexpr uint32_t kCredit = 64;
constexpr size_t kCreditBytes = 4;

struct Hello {
  uint64_t address;
  uint64_t key;
};

}  // namespace

RdmaEnd::RdmaEnd(const Workload& workload, bool connecting)
    : workload_(workload),
      connecting_(connecting),
      area_((workload.size + kPage - 1) / kPage * kPage),
      memory_(static_cast<uint8_t*>(std::aligned_alloc(kPage, 2 * area_))) {
  if (memory_ == nullptr) Die("no memory for a message");
  std::memset(memory_.get(), 0, 2 * area_);
}

RdmaEnd::~RdmaEnd() {
  if (reactor_ != nullptr) reactor_->UnwatchFd(queue_->fd());
}

absl::Status RdmaEnd::RunByEvents(transport::Reactor* reactor,
                                  std::function<int()> step) {
  absl::Status status = reactor->WatchFd(queue_->fd(), EPOLLIN, this);
  if (!status.ok()) return status;
  reactor_ = reactor;
  step_ = std::move(step);
  StepUntilArmed();
  return status;
}

void RdmaEnd::OnFdReady(uint32_t /*events*/) {
  queue_->Disarm();
  StepUntilArmed();
}

void RdmaEnd::StepUntilArmed() {
  do {
    while (step_() > 0) {
    }
  } while (!closed_ && !queue_->Arm());
}

void RdmaEnd::FillOptions(transport::ConnectOptions* options) {
  if (connecting_) options->private_data = Encode(workload_);
  // Credits, the hello, and operations.
  options->send_queue = workload_.depth + kReceives / kCredit + 1;
  options->receive_queue = kReceives;
  options->max_sges = 1;
  options->inline_bytes = workload_.inline_bytes;
  options->read_depth = workload_.read_depth;
  options->prepare = [this](RdmaEndpoint& endpoint) {
    return Prepare(endpoint);
  };
  options->on_disconnect = [this](RdmaEndpoint&) { closed_ = true; };
}

absl::Status RdmaEnd::Prepare(RdmaEndpoint& endpoint) {
  auto region = endpoint.domain()->Register(
      memory_.get(), 2 * area_, Access::kRemoteRead | Access::kRemoteWrite);
  if (!region.ok()) return region.status();
  region_ = *std::move(region);
  PostReceives(endpoint);
  return absl::OkStatus();
}

void RdmaEnd::Start(std::unique_ptr<RdmaEndpoint> endpoint) {
  endpoint_ = std::move(endpoint);
  queue_ = endpoint_->completion_queue();
  if (connecting_) SendHello();
  endpoint_->Flush();
}

void RdmaEnd::PostReceives(RdmaEndpoint& endpoint) {
  const Sge to = {received_data(), area_, region_.get()};
  for (; receives_due_ > 0; --receives_due_) {
    if (endpoint.PostReceive({}, {&to, 1}) != PostResult::kAccepted) return;
  }
}

void RdmaEnd::PostSend(size_t bytes) {
  const Sge from = {sent_data(), bytes, region_.get()};
  const PostResult result = endpoint_->PostSend({}, {&from, 1});
  if (result == PostResult::kClosed) {
    closed_ = true;
  } else if (result != PostResult::kAccepted) {
    Die("the send queue is full");
  } else {
    ++outstanding_;
    posted_ = true;
  }
}

void RdmaEnd::SendHello() {
  const Hello hello = {region_->remote_base(), region_->remote_key().value};
  std::memcpy(sent_data(), &hello, sizeof(hello));
  PostSend(sizeof(hello));
}

void RdmaEnd::OnHello() {
  Hello hello;
  std::memcpy(&hello, received_data(), sizeof(hello));
  std::memset(received_data(), 0, sizeof(hello));
  peer_ = {hello.address, {hello.key}};
  greeted_ = true;
  if (!connecting_) SendHello();
}

bool RdmaEnd::PostOperation() {
  const Sge sent = {sent_data(), workload_.size, region_.get()};
  PostResult result = PostResult::kClosed;
  switch (workload_.kind) {
    case Workload::Kind::kSend:
      result = endpoint_->PostSend({}, {&sent, 1});
      break;
    case Workload::Kind::kWrite:
      result = endpoint_->PostWrite({}, {&sent, 1},
                                    {peer_.address + area_, peer_.key});
      break;
    case Workload::Kind::kRead: {
      const Sge to = {received_data(), workload_.size, region_.get()};
      result = endpoint_->PostRead({}, {&to, 1}, peer_);
      break;
    }
  }
  if (result == PostResult::kClosed) closed_ = true;
  if (result != PostResult::kAccepted) return false;
  ++outstanding_;
  posted_ = true;
  return true;
}

// A round of what goes to and fro.
void RdmaEnd::Begin() {
  if (finishing_) return;
  if (workload_.kind == Workload::Kind::kWrite) {
    // Never 0, what the memory is before the first.
    sequence_ = static_cast<uint8_t>(sequence_ % 255 + 1);
    sent_data()[workload_.size - 1] = sequence_;
  }
  if (!PostOperation() && !closed_) Die("the send queue is full");
}

void RdmaEnd::OnReceive() {
  ++receives_due_;
  if (!greeted_) {
    OnHello();
    if (connecting_ && workload_.ping_pong) Begin();
    return;
  }
  if (workload_.ping_pong) {
    ++completed_;
    Begin();
  } else if (connecting_) {
    allowed_ += kCredit;
  } else if (++received_ % kCredit == 0) {
    // It stands for these: iWARP has no retries for a message without one.
    PostReceives(*endpoint_);
    PostSend(kCreditBytes);
  }
}

// A WRITE to and fro is seen by its last byte.
void RdmaEnd::LookAtMemory() {
  const uint8_t expected =
      connecting_ ? sequence_ : static_cast<uint8_t>(sequence_ % 255 + 1);
  if (expected == 0) return;
  const uint8_t seen =
      std::atomic_ref(received_data()[workload_.size - 1]).load();
  if (seen != expected) return;
  ++completed_;
  Begin();
}

void RdmaEnd::FillPipe() {
  // More READs would only be refused.
  const uint32_t depth = workload_.kind == Workload::Kind::kRead
                             ? std::min(workload_.depth, workload_.read_depth)
                             : workload_.depth;
  while (outstanding_ < depth) {
    if (workload_.kind == Workload::Kind::kSend) {
      if (allowed_ == 0) return;
      --allowed_;
    }
    if (!PostOperation()) return;
  }
}

void RdmaEnd::OnCompletion(const Completion& completion) {
  if (completion.status != CompletionStatus::kOk) {
    if (completion.status != CompletionStatus::kFlushed) {
      Die(absl::StrCat("an operation failed: ", endpoint_->error().ToString()));
    }
    closed_ = true;
    return;
  }
  if (completion.kind == OperationKind::kReceive) {
    OnReceive();
    return;
  }
  --outstanding_;
  if (!workload_.ping_pong && connecting_ && greeted_) ++completed_;
}

int RdmaEnd::Poll() {
  const int count = queue_->Poll(absl::MakeSpan(completions_));
  for (int i = 0; i < count; ++i) OnCompletion(completions_[i]);
  if (closed_) return count;
  if (greeted_ && workload_.ping_pong) {
    if (workload_.kind == Workload::Kind::kWrite) LookAtMemory();
  } else if (greeted_ && connecting_ && !finishing_) {
    FillPipe();
  }
  if (posted_) {
    endpoint_->Flush();
    posted_ = false;
  }
  if (receives_due_ > 0) PostReceives(*endpoint_);
  return count;
}

}  // namespace skiff::bench
