// A device that completes work of a queue pair after its RESET, which none
// should: its completions are held back and come then. In a guest.

#include <infiniband/verbs.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_completion_queue.h"
#include "transport/verbs/verbs_domain.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::transport {
namespace {

using EndpointPtr = std::unique_ptr<RdmaEndpoint>;

// Stands between a completion queue and its device.
class HeldCompletions {
 public:
  explicit HeldCompletions(ibv_cq* cq) : cq_(cq) {
    real_ = cq->context->ops.poll_cq;
    Current() = this;
    cq->context->ops.poll_cq = &Poll;
  }
  ~HeldCompletions() {
    cq_->context->ops.poll_cq = real_;
    Current() = nullptr;
  }

  void Hold() { holding_ = true; }
  // How many were held back.
  size_t LetGo() {
    holding_ = false;
    return held_.size();
  }

 private:
  static int Poll(ibv_cq* cq, int count, ibv_wc* out) {
    HeldCompletions& self = *Current();
    if (cq != self.cq_) return self.real_(cq, count, out);
    if (self.holding_) {
      ibv_wc wc;
      while (self.real_(cq, 1, &wc) == 1) self.held_.push_back(wc);
      return 0;
    }
    if (self.held_.empty()) return self.real_(cq, count, out);
    *out = self.held_.front();
    self.held_.erase(self.held_.begin());
    return 1;
  }

  static HeldCompletions*& Current() {
    static HeldCompletions* current = nullptr;
    return current;
  }

  ibv_cq* const cq_;
  int (*real_)(ibv_cq*, int, ibv_wc*);
  bool holding_ = false;
  std::vector<ibv_wc> held_;
};

class LateCompletionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    VerbsOptions settings;
    settings.drain_timeout = absl::Milliseconds(100);
    transport_ = MakeVerbsTransport(settings);
    const std::string host = std::getenv("SKIFF_VM_ADDRESS");
    auto listener = transport_->Listen(
        reactor_.get(), Address::Parse("verbs://" + host + ":3260").value(), {},
        [this](std::unique_ptr<ConnectionRequest> request) {
          AcceptOptions accept;
          accept.prepare = [this](RdmaEndpoint& endpoint) {
            return PrepareServer(&endpoint);
          };
          request->Accept(reactor_.get(), accept, [this](auto endpoint) {
            Take(std::move(endpoint), &server_);
          });
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  static void Take(absl::StatusOr<Endpoint> from, EndpointPtr* to) {
    ASSERT_TRUE(from.ok()) << from.status();
    *to = std::get<EndpointPtr>(*std::move(from));
  }
  static Sge Piece(MemoryRegion* region, size_t offset) {
    return {static_cast<char*>(region->data()) + offset, 8, region};
  }
  absl::Status Register(MemoryDomain* domain,
                        std::unique_ptr<MemoryRegion>* out) {
    auto region =
        domain->Register(memory_.data(), memory_.size(), Access::kLocal);
    if (!region.ok()) return region.status();
    *out = *std::move(region);
    return absl::OkStatus();
  }
  absl::Status PrepareServer(RdmaEndpoint* endpoint) {
    absl::Status status = Register(endpoint->domain(), &region_);
    const Sge piece = Piece(region_.get(), 64);
    if (status.ok() && server_receives_ &&
        endpoint->PostReceive({100}, {&piece, 1}) != PostResult::kAccepted) {
      status = absl::InternalError("no RECEIVE");
    }
    return status;
  }

  bool RunUntil(const std::function<bool()>& done) {
    const absl::Time end = EpollReactor::MonotonicNow() + absl::Seconds(20);
    while (!done()) {
      if (EpollReactor::MonotonicNow() > end) return false;
      reactor_->Poll();
      PollClient();
    }
    return true;
  }
  void PollClient() {
    Completion completion;
    while (queue_ != nullptr && queue_->Poll({&completion, 1}) == 1) {
      completions_.push_back(completion);
    }
  }

  // The client's completion queue outlives it.
  void Connect(bool shared_receives) {
    ConnectOptions connect;
    connect.resources =
        [&](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
      if (queue_ == nullptr) {
        auto made = domain.CreateCompletionQueue(reactor_.get(), 1024);
        if (!made.ok()) return made.status();
        queue_ = *std::move(made);
      }
      EndpointResources resources;
      resources.completion_queue = queue_.get();
      if (shared_receives) {
        auto made = domain.CreateSharedReceiveQueue(reactor_.get(), 16, 1);
        if (!made.ok()) return made.status();
        shared_receive_queue_ = *std::move(made);
        resources.shared_receive_queue = shared_receive_queue_.get();
      }
      return resources;
    };
    auto attempt =
        transport_->Connect(reactor_.get(), listener_->address(), connect,
                            [this](absl::StatusOr<Endpoint> endpoint) {
                              Take(std::move(endpoint), &client_);
                            });
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    ASSERT_TRUE(
        RunUntil([&] { return client_ != nullptr && server_ != nullptr; }));
  }
  VerbsCompletionQueue* queue() {
    return static_cast<VerbsCompletionQueue*>(queue_.get());
  }
  // Every object of connections before is destroyed, and what was kept for
  // them goes with the next connection.
  void ExpectNothingKept() {
    auto* domain = static_cast<VerbsDomain*>(client_domain_);
    EXPECT_TRUE(RunUntil([&] { return domain->destroying() == 0; }));
    EXPECT_GT(queue()->buried(), 0u);
    server_.reset();
    server_receives_ = true;
    Connect(/*shared_receives=*/false);
    ASSERT_NE(client_, nullptr);
    EXPECT_EQ(queue()->buried(), 0u);
    const Sge piece = Piece(region_.get(), 0);
    completions_.clear();
    ASSERT_EQ(client_->PostSend({9}, {&piece, 1}), PostResult::kAccepted);
    client_->Flush();
    ASSERT_TRUE(RunUntil([&] { return !completions_.empty(); }));
    EXPECT_EQ(completions_[0].status, CompletionStatus::kOk);
  }

  std::vector<char> memory_ = std::vector<char>(4096);
  const std::unique_ptr<EpollReactor> reactor_ = EpollReactor::Create().value();
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<MemoryRegion> region_;
  std::shared_ptr<CompletionQueue> queue_;
  std::shared_ptr<SharedReceiveQueue> shared_receive_queue_;
  EndpointPtr client_;
  EndpointPtr server_;
  MemoryDomain* client_domain_ = nullptr;
  bool server_receives_ = false;
  std::vector<Completion> completions_;
};

TEST_F(LateCompletionsTest, OfAQueuePairAreDropped) {
  Connect(/*shared_receives=*/false);
  ASSERT_NE(client_, nullptr);
  client_domain_ = client_->domain();
  HeldCompletions device(queue()->cq());
  device.Hold();
  const Sge piece = Piece(region_.get(), 0);
  for (uint32_t i = 1; i <= 4; ++i) {
    ASSERT_EQ(client_->PostReceive({i}, {&piece, 1}), PostResult::kAccepted);
  }
  // Nobody receives these.
  for (uint32_t i = 5; i <= 6; ++i) {
    ASSERT_EQ(client_->PostSend({i}, {&piece, 1}), PostResult::kAccepted);
  }
  client_->Flush();
  client_.reset();
  ASSERT_TRUE(RunUntil([&] { return completions_.size() == 6; }));
  EXPECT_EQ(queue()->buried(), 1u);
  for (const Completion& completion : completions_) {
    EXPECT_EQ(completion.status, CompletionStatus::kFlushed);
  }
  // The four RECEIVEs and at least a SEND.
  EXPECT_GE(device.LetGo(), 5u);
  reactor_->Poll();
  PollClient();
  EXPECT_EQ(completions_.size(), 6u);
  EXPECT_EQ(device.LetGo(), 0u) << "they did not come";
  ExpectNothingKept();
}

// What was staged when the connection ended is reported with what the device
// did complete, and does not wait for the drain's time to be up.
TEST_F(LateCompletionsTest, WhatWasStagedComesWithWhatWentWell) {
  server_receives_ = true;
  Connect(/*shared_receives=*/false);
  ASSERT_NE(client_, nullptr);
  const Sge piece = Piece(region_.get(), 0);
  ASSERT_EQ(client_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
  client_->Flush();
  // The completion is there by then, and left where it is.
  absl::SleepFor(absl::Milliseconds(300));
  ASSERT_EQ(client_->PostSend({2}, {&piece, 1}), PostResult::kAccepted);
  client_->Disconnect();
  PollClient();
  ASSERT_EQ(completions_.size(), 2u);
  EXPECT_EQ(completions_[0].status, CompletionStatus::kOk);
  EXPECT_EQ(completions_[1].status, CompletionStatus::kFlushed);
}

TEST_F(LateCompletionsTest, OfASharedReceiveQueueAreDropped) {
  Connect(/*shared_receives=*/true);
  ASSERT_NE(client_, nullptr);
  client_domain_ = client_->domain();
  const Sge piece = Piece(region_.get(), 0);
  for (uint32_t i = 1; i <= 4; ++i) {
    ASSERT_EQ(shared_receive_queue_->PostReceive({i}, {&piece, 1}),
              PostResult::kAccepted);
  }
  HeldCompletions device(queue()->cq());
  device.Hold();
  ASSERT_EQ(server_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
  server_->Flush();
  Completion sent;
  ASSERT_TRUE(RunUntil([&] {
    return server_->completion_queue()->Poll({&sent, 1}) == 1;
  }));
  EXPECT_EQ(sent.status, CompletionStatus::kOk);
  client_.reset();
  // Its queue pair is gone.
  for (int i = 0; i < 10; ++i) {
    reactor_->Poll();
    PollClient();
  }
  shared_receive_queue_.reset();
  ASSERT_TRUE(RunUntil([&] { return completions_.size() == 4; }));
  EXPECT_EQ(device.LetGo(), 1u);
  reactor_->Poll();
  PollClient();
  EXPECT_EQ(completions_.size(), 4u);
  EXPECT_EQ(device.LetGo(), 0u) << "it did not come";
  ExpectNothingKept();
}

}  // namespace
}  // namespace skiff::transport
