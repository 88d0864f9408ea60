// The same loop as fabric_loop's and verbs_loop's, over Skiff's transports:
// what the three measure differs by the calls that they make.
//
//   skiff_loop --url=verbs://192.168.77.1:7481 --op=send --mode=latency
//
// Starts both ends itself, each on its core, and prints one line of JSON. Both
// poll their completion queue without a pause and give their reactor a turn now
// and then.

#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/base/attributes.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "bench/compare/loop.h"
#include "bench/compare/util.h"
#include "bench/transport/connection.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/transport.h"

ABSL_FLAG(std::string, url, "libfabric://127.0.0.1:7481?provider=tcp",
          "to listen on, of a transport that has RDMA");

namespace skiff::bench {
namespace {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RdmaEndpoint;
using transport::Sge;

constexpr uint32_t kPollsPerTurn = 4096;
constexpr int kBatch = 64;

// A LoopEnd's.
class SkiffWire {
 public:
  SkiffWire(const LoopPlan& plan, const LoopMemory& memory, bool /*client*/)
      : plan_(plan), memory_(memory), url_(absl::GetFlag(FLAGS_url)) {
    transport::EpollReactorOptions options;
    options.spin = absl::InfiniteDuration();
    auto reactor = transport::EpollReactor::Create(options);
    if (!reactor.ok()) Die(reactor.status().ToString());
    reactor_ = *std::move(reactor);
  }

  void Listen(int ready_fd) {
    auto listener = TransportOf(url_)->Listen(
        reactor_.get(), ParseUrl(url_), {},
        [this](std::unique_ptr<transport::ConnectionRequest> request) {
          transport::AcceptOptions options;
          FillOptions(&options);
          request->Accept(reactor_.get(), options, Open());
        });
    if (!listener.ok()) Die(listener.status().ToString());
    listener_ = *std::move(listener);
    const char ready = 1;
    if (write(ready_fd, &ready, 1) != 1) Die("cannot write to the pipe", true);
    while (endpoint_ == nullptr) reactor_->Poll();
  }

  void Connect() {
    transport::ConnectOptions options;
    FillOptions(&options);
    auto attempt = TransportOf(url_)->Connect(reactor_.get(), ParseUrl(url_),
                                              options, Open());
    if (!attempt.ok()) Die(attempt.status().ToString());
    attempt_ = *std::move(attempt);
    while (endpoint_ == nullptr) reactor_->Poll();
  }

  LoopRemote local() const {
    return {region_->remote_base(), region_->remote_key().value};
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Send(size_t bytes) {
    const Sge from = {memory_.sent, bytes, region_.get()};
    return Posted(endpoint_->PostSend({}, {&from, 1}));
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Write(LoopRemote to) {
    const Sge from = {memory_.sent, plan_.size, region_.get()};
    return Posted(endpoint_->PostWrite({}, {&from, 1}, {to.address, {to.key}}));
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Read(LoopRemote from) {
    const Sge to = {memory_.received, plan_.size, region_.get()};
    return Posted(
        endpoint_->PostRead({}, {&to, 1}, {from.address, {from.key}}));
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Flush() {
    if (!posted_) return;
    posted_ = false;
    endpoint_->Flush();
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Receive() { Receive(*endpoint_); }

  template <typename Sent, typename Received>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Poll(Sent sent, Received received) {
    const int count = queue_->Poll(absl::MakeSpan(completions_));
    const Completion* done = completions_.data();
    for (const Completion* const end = done + count; done != end; ++done) {
      if (done->status != CompletionStatus::kOk) return Failed(*done);
      if (done->kind == OperationKind::kReceive) {
        received();
      } else {
        sent(1);
      }
    }
    if (++polls_ % kPollsPerTurn == 0) reactor_->Poll();
    return true;
  }

 private:
  void FillOptions(transport::ConnectOptions* options) {
    options->send_queue = plan_.send_queue();
    options->receive_queue = kLoopReceives;
    options->max_sges = 1;
    options->inline_bytes = static_cast<uint32_t>(plan_.inline_bytes);
    options->read_depth = plan_.read_depth;
    options->prepare = [this](RdmaEndpoint& endpoint) {
      auto region = endpoint.domain()->Register(
          memory_.sent, 2 * memory_.area,
          Access::kRemoteRead | Access::kRemoteWrite);
      if (!region.ok()) return region.status();
      region_ = *std::move(region);
      for (uint64_t i = 0; i < kLoopReceives; ++i) Receive(endpoint);
      return absl::OkStatus();
    };
  }

  // What is to be done with the connection that is made.
  transport::ConnectCallback Open() {
    return [this](absl::StatusOr<transport::Endpoint> made) {
      if (!made.ok()) Die(made.status().ToString());
      auto* endpoint = std::get_if<std::unique_ptr<RdmaEndpoint>>(&*made);
      if (endpoint == nullptr) Die(absl::StrCat(url_, " has no RDMA"));
      endpoint_ = std::move(*endpoint);
      queue_ = endpoint_->completion_queue();
    };
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Receive(RdmaEndpoint& endpoint) {
    const Sge to = {memory_.received, memory_.area, region_.get()};
    if (endpoint.PostReceive({}, {&to, 1}) == PostResult::kWouldBlock) {
      Die("the receive queue is full");
    }
  }

  bool Posted(PostResult result) {
    if (result == PostResult::kWouldBlock) return false;
    posted_ = true;
    return true;
  }

  bool Failed(const Completion& done) const {
    if (done.status != CompletionStatus::kFlushed) {
      Die(absl::StrCat("an operation failed: ", endpoint_->error().ToString()));
    }
    return false;
  }

  const LoopPlan plan_;
  const LoopMemory memory_;
  const std::string url_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<transport::Listener> listener_;
  std::unique_ptr<transport::ConnectAttempt> attempt_;
  std::unique_ptr<transport::MemoryRegion> region_;
  std::unique_ptr<RdmaEndpoint> endpoint_;
  transport::CompletionQueue* queue_ = nullptr;
  std::array<Completion, kBatch> completions_;
  bool posted_ = false;  // Something to flush.
  uint32_t polls_ = 0;
};

}  // namespace
}  // namespace skiff::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "skiff_loop --url=verbs://192.168.77.1:7481 ...");
  absl::ParseCommandLine(argc, argv);
  skiff::bench::RunLoop<skiff::bench::SkiffWire>();
}
