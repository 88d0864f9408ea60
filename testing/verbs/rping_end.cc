#include "testing/verbs/rping_end.h"

#include <endian.h>
#include <sys/epoll.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::testing {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RdmaEndpoint;
using transport::Sge;

namespace {

// rping's struct rping_rdma_info, in network byte order.
struct Told {
  uint64_t address;
  uint32_t key;
  uint32_t bytes;
};

Told Parse(const uint8_t* message) {
  Told told;
  std::memcpy(&told, message, sizeof(told));
  return {be64toh(told.address), be32toh(told.key), be32toh(told.bytes)};
}

void Write(const Told& told, uint8_t* message) {
  const Told wire = {htobe64(told.address), htobe32(told.key),
                     htobe32(told.bytes)};
  std::memcpy(message, &wire, sizeof(wire));
}

}  // namespace

RpingEnd::RpingEnd(transport::Reactor* reactor, const Settings& settings,
                   Done done)
    : reactor_(reactor),
      settings_(settings),
      done_(std::move(done)),
      memory_(SinkAt() + settings.bytes) {
  static_assert(sizeof(Told) == kMessage);
}

RpingEnd::~RpingEnd() {
  if (queue_ != nullptr) reactor_->UnwatchFd(queue_->fd());
}

void RpingEnd::FillOptions(transport::ConnectOptions* options) {
  options->send_queue = 8;
  options->receive_queue = kReceives;
  options->max_sges = 1;
  options->inline_bytes = 0;
  options->read_depth = 1;
  options->prepare = [this](RdmaEndpoint& endpoint) {
    return Prepare(endpoint);
  };
  // What is under way completes first.
  options->on_disconnect = [this](RdmaEndpoint& /*endpoint*/) { Drain(); };
}

absl::Status RpingEnd::Prepare(RdmaEndpoint& endpoint) {
  auto region =
      endpoint.domain()->Register(memory_.data(), memory_.size(),
                                  Access::kRemoteRead | Access::kRemoteWrite);
  if (!region.ok()) return region.status();
  region_ = *std::move(region);
  for (uint32_t slot = 0; slot < kReceives; ++slot) PostReceive(endpoint, slot);
  endpoint.Flush();
  return absl::OkStatus();
}

void RpingEnd::PostReceive(RdmaEndpoint& endpoint, uint32_t slot) {
  const Sge sge = {&memory_[ReceiveAt(slot)], kMessage, region_.get()};
  Expect(endpoint.PostReceive({slot, 0}, {&sge, 1}), "RECEIVE");
}

void RpingEnd::Start(std::unique_ptr<RdmaEndpoint> endpoint) {
  endpoint_ = std::move(endpoint);
  transport::CompletionQueue* const queue = endpoint_->completion_queue();
  const absl::Status status = reactor_->WatchFd(queue->fd(), EPOLLIN, this);
  if (!status.ok()) {
    Finish(status);
    return;
  }
  queue_ = queue;
  if (settings_.client) BeginRound();
  Drain();
}

void RpingEnd::OnFdReady(uint32_t /*events*/) {
  queue_->Disarm();
  Drain();
}

void RpingEnd::Drain() {
  std::array<Completion, 8> batch;
  do {
    int count = 0;
    while ((count = queue_->Poll(absl::MakeSpan(batch))) > 0) {
      for (int i = 0; i < count; ++i) OnCompletion(batch[i]);
    }
    endpoint_->Flush();
  } while (!queue_->Arm());
  if (endpoint_->connected()) return;
  // Between rounds a server's peer may leave.
  const bool between = !settings_.client && step_ == Step::kTellSource;
  Finish(between ? absl::OkStatus() : endpoint_->error());
}

void RpingEnd::OnCompletion(const Completion& completion) {
  if (completion.status != CompletionStatus::kOk) {
    failures_.push_back(completion);
    return;
  }
  switch (completion.kind) {
    case OperationKind::kReceive: {
      std::array<uint8_t, kMessage> message;
      std::memcpy(message.data(), &memory_[ReceiveAt(completion.id.index)],
                  kMessage);
      PostReceive(*endpoint_, completion.id.index);
      if (completion.bytes == kMessage) {
        OnMessage(message.data());
      } else {
        Finish(absl::DataLossError(absl::StrCat(
            "a message of ", completion.bytes, " bytes; rping's have 16")));
      }
      break;
    }
    case OperationKind::kRead:
      if (settings_.keep_reading) {
        CountRound();
        Transfer();
        break;
      }
      step_ = Step::kTellSink;
      Tell(SourceAt());
      break;
    case OperationKind::kWrite:
      step_ = Step::kTellSource;
      Tell(SourceAt());
      CountRound();
      break;
    default:
      break;
  }
}

// The client is told to go on; the server, where the client's memory is.
void RpingEnd::OnMessage(const uint8_t* message) {
  if (!settings_.client) {
    Move(message);
  } else if (step_ == Step::kAwaitRead) {
    step_ = Step::kAwaitWrite;
    Tell(SinkAt());
  } else if (step_ == Step::kAwaitWrite) {
    if (std::memcmp(&memory_[SourceAt()], &memory_[SinkAt()],
                    settings_.bytes) != 0) {
      Finish(absl::DataLossError(
          absl::StrCat("round ", rounds_, ": other data came back")));
      return;
    }
    CountRound();
    BeginRound();
  }
}

void RpingEnd::CountRound() {
  ++rounds_;
  if (settings_.on_round) settings_.on_round(rounds_);
}

void RpingEnd::BeginRound() {
  if (settings_.rounds > 0 && rounds_ == settings_.rounds) {
    Finish(absl::OkStatus());
    return;
  }
  // Text, because the server returns what is before the first zero.
  for (size_t i = 0; i + 1 < settings_.bytes; ++i) {
    memory_[SourceAt() + i] = static_cast<uint8_t>('A' + (rounds_ + i) % 26);
  }
  std::memset(&memory_[SinkAt()], 0, settings_.bytes);
  step_ = Step::kAwaitRead;
  Tell(SourceAt());
}

void RpingEnd::Tell(size_t offset) {
  Write({region_->remote_base() + offset,
         static_cast<uint32_t>(region_->remote_key().value),
         static_cast<uint32_t>(settings_.bytes)},
        &memory_[SendAt()]);
  const Sge sge = {&memory_[SendAt()], kMessage, region_.get()};
  Expect(endpoint_->PostSend({0, 0}, {&sge, 1}), "SEND");
}

void RpingEnd::Move(const uint8_t* message) {
  const Told told = Parse(message);
  const bool read = step_ == Step::kTellSource;
  if ((!read && step_ != Step::kTellSink) || told.bytes == 0 ||
      told.bytes > settings_.bytes || (!read && told.bytes < length_)) {
    Finish(absl::DataLossError(absl::StrCat(
        "the client told of ", told.bytes, " bytes out of its turn, or of too ",
        "many for a buffer of ", settings_.bytes)));
    return;
  }
  if (read) length_ = told.bytes;
  step_ = read ? Step::kAwaitRead : Step::kAwaitWrite;
  remote_ = {told.address, {told.key}};
  Transfer();
}

void RpingEnd::Transfer() {
  const Sge sge = {&memory_[SourceAt()], length_, region_.get()};
  if (step_ == Step::kAwaitRead) {
    Expect(endpoint_->PostRead({0, 0}, {&sge, 1}, remote_), "READ");
  } else {
    Expect(endpoint_->PostWrite({0, 0}, {&sge, 1}, remote_), "WRITE");
  }
}

// A closed connection is told of by its end.
void RpingEnd::Expect(PostResult result, const char* what) {
  if (result == PostResult::kWouldBlock) {
    Finish(absl::InternalError(absl::StrCat("no room for a ", what)));
  }
}

void RpingEnd::Finish(const absl::Status& status) {
  if (step_ == Step::kOver) return;
  step_ = Step::kOver;
  done_(status);
}

}  // namespace skiff::testing
