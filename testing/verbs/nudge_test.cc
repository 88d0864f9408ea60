// What makes Soft-iWARP look at its sockets, on connections that need it, and
// on others; late_acceptor_test.py has programs that are not ours. In a guest
// of one processor.

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::transport {
namespace {

using EndpointPtr = std::unique_ptr<RdmaEndpoint>;

template <typename Settings>
Settings Nudging(absl::Duration after, absl::Duration limit) {
  Settings settings;
  settings.soft_iwarp_nudge_after = after;
  settings.soft_iwarp_nudge_limit = limit;
  return settings;
}

// One end, with memory for what comes and for what goes.
struct End {
  EndpointPtr endpoint;
  std::vector<char> memory = std::vector<char>(128, 'a');
  std::unique_ptr<MemoryRegion> region;

  absl::Status Prepare(RdmaEndpoint& made) {
    auto registered =
        made.domain()->Register(memory.data(), memory.size(),
                                Access::kRemoteRead | Access::kRemoteWrite);
    if (!registered.ok()) return registered.status();
    region = *std::move(registered);
    return absl::OkStatus();
  }
  Sge Piece() const { return {region->data(), 64, region.get()}; }
  RemoteBuffer Remote() const {
    return {region->remote_base(), region->remote_key()};
  }
};

// The parameter is the scheme.
class NudgeTest : public ::testing::TestWithParam<const char*> {
 public:
  static std::function<void(absl::StatusOr<Endpoint>)> Taking(End* end) {
    return [end](absl::StatusOr<Endpoint> made) {
      ASSERT_TRUE(made.ok()) << made.status();
      end->endpoint = std::get<EndpointPtr>(*std::move(made));
    };
  }

 protected:
  static std::unique_ptr<Transport> MakeTransport(absl::Duration after,
                                                  absl::Duration limit) {
    return IsVerbs() ? MakeVerbsTransport(Nudging<VerbsOptions>(after, limit))
                     : MakeLibfabricTransport(
                           Nudging<LibfabricOptions>(after, limit));
  }
  static bool IsVerbs() { return GetParam() == std::string("verbs"); }
  static Address AnyPort() {
    const char* const host = std::getenv("SKIFF_VM_IWARP_ADDRESS");
    EXPECT_NE(host, nullptr) << "no device has an address";
    return Address::Parse(absl::StrCat(GetParam(), "://", host, ":0",
                                       IsVerbs() ? "" : "?provider=verbs"))
        .value();
  }

  void Connect(absl::Duration after, absl::Duration limit) {
    transport_ = MakeTransport(after, limit);
    auto listener = transport_->Listen(
        reactor_.get(), AnyPort(), {},
        [this](std::unique_ptr<ConnectionRequest> request) {
          AcceptOptions options;
          options.prepare = Preparing(&server_);
          request->Accept(reactor_.get(), options, Taking(&server_));
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    ConnectOptions options;
    options.prepare = Preparing(&client_);
    auto attempt = transport_->Connect(reactor_.get(), listener_->address(),
                                       options, Taking(&client_));
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    ASSERT_TRUE(RunUntil(
        [this] {
          return client_.endpoint != nullptr && server_.endpoint != nullptr;
        },
        absl::Seconds(20)));
  }
  static std::function<absl::Status(RdmaEndpoint&)> Preparing(End* end) {
    return [end](RdmaEndpoint& made) { return end->Prepare(made); };
  }
  bool IsAnswered(const Address& address, absl::Duration limit);

  bool RunUntil(const std::function<bool()>& done, absl::Duration limit) {
    const absl::Time end = EpollReactor::MonotonicNow() + limit;
    while (!done()) {
      if (EpollReactor::MonotonicNow() >= end) return false;
      reactor_->Poll();
    }
    return true;
  }
  // Until the next timer runs.
  absl::Duration Sleeps() {
    while (reactor_->NextDeadline() <= EpollReactor::MonotonicNow()) {
      reactor_->Poll();
    }
    return reactor_->NextDeadline() - EpollReactor::MonotonicNow();
  }
  Completion Next(const End& end) {
    Completion completion;
    completion.status = CompletionStatus::kTransportError;
    EXPECT_TRUE(RunUntil(
        [&] {
          return end.endpoint->completion_queue()->Poll({&completion, 1}) == 1;
        },
        absl::Seconds(20)))
        << "no completion comes";
    return completion;
  }
  void ExpectNext(const End& end, uint32_t id, OperationKind kind) {
    const Completion completion = Next(end);
    EXPECT_EQ(completion.id.index, id);
    EXPECT_EQ(completion.kind, kind);
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
  }
  // All that `from` can do, as far as it can do it at once.
  void ExpectEverythingWorks(const End& from, const End& to) {
    const Sge there = to.Piece();
    ASSERT_EQ(to.endpoint->PostReceive({1}, {&there, 1}),
              PostResult::kAccepted);
    const Sge here = from.Piece();
    const uint32_t depth = from.endpoint->capabilities().max_read_depth;
    for (uint32_t i = 0; i < depth; ++i) {
      ASSERT_EQ(from.endpoint->PostRead({i}, {&here, 1}, to.Remote()),
                PostResult::kAccepted);
    }
    ASSERT_EQ(from.endpoint->PostWrite({100}, {&here, 1}, to.Remote()),
              PostResult::kAccepted);
    ASSERT_EQ(from.endpoint->PostSend({101}, {&here, 1}),
              PostResult::kAccepted);
    from.endpoint->Flush();
    for (uint32_t i = 0; i < depth; ++i) {
      ExpectNext(from, i, OperationKind::kRead);
    }
    ExpectNext(from, 100, OperationKind::kWrite);
    ExpectNext(from, 101, OperationKind::kSend);
    ExpectNext(to, 1, OperationKind::kReceive);
  }

  const std::unique_ptr<EpollReactor> reactor_ = EpollReactor::Create().value();
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  End client_;
  End server_;
};

TEST_P(NudgeTest, ComesAfterSoLong) {
  ASSERT_NO_FATAL_FAILURE(Connect(absl::Hours(1), absl::Hours(1)));
  const absl::Duration sleeps = Sleeps();
  EXPECT_GT(sleeps, absl::Minutes(30));
  EXPECT_LE(sleeps, absl::Hours(1));
}

TEST_P(NudgeTest, DoesNotComeLaterThanThat) {
  ASSERT_NO_FATAL_FAILURE(Connect(absl::Minutes(20), absl::Minutes(19)));
  EXPECT_GT(Sleeps(), absl::Hours(1));
}

TEST_P(NudgeTest, NobodyHearsOfIt) {
  ASSERT_NO_FATAL_FAILURE(
      Connect(absl::Milliseconds(1), absl::Milliseconds(16)));
  int completions = 0;
  ASSERT_TRUE(RunUntil(
      [&] {
        Completion completion;
        for (const End* end : {&client_, &server_}) {
          completions +=
              end->endpoint->completion_queue()->Poll({&completion, 1});
        }
        // The last wait is over.
        return reactor_->NextDeadline() == absl::InfiniteFuture();
      },
      absl::Seconds(20)));
  EXPECT_EQ(completions, 0);
  ExpectEverythingWorks(server_, client_);
  ExpectEverythingWorks(client_, server_);
}

// A server whose thread runs when nobody else wants to, and which answers a
// message.
class LateServer {
 public:
  LateServer(std::unique_ptr<Transport> transport, const Address& address)
      : transport_(std::move(transport)),
        thread_([this, address] { Serve(address); }) {
    address_.get_future().wait();
  }
  ~LateServer() {
    stop_ = true;
    thread_.join();
  }
  Address address() const { return listener_->address(); }

 private:
  void Serve(const Address& address) {
    const auto reactor = EpollReactor::Create().value();
    listener_ = transport_
                    ->Listen(reactor.get(), address, {},
                             [&](std::unique_ptr<ConnectionRequest> request) {
                               AcceptOptions options;
                               options.prepare = [this](RdmaEndpoint& made) {
                                 return Prepare(made);
                               };
                               request->Accept(reactor.get(), options,
                                               NudgeTest::Taking(&end_));
                             })
                    .value();
    const sched_param none = {};
    EXPECT_EQ(pthread_setschedparam(pthread_self(), SCHED_IDLE, &none), 0);
    address_.set_value();
    while (!stop_) {
      reactor->Poll();
      Completion completion;
      if (end_.endpoint != nullptr &&
          end_.endpoint->completion_queue()->Poll({&completion, 1}) == 1 &&
          completion.kind == OperationKind::kReceive &&
          completion.status == CompletionStatus::kOk) {
        // Behind a READ that may still be under way. Too late, if the peer has
        // given up.
        const Sge piece = end_.Piece();
        if (end_.endpoint->PostSend({2}, {&piece, 1}) ==
            PostResult::kAccepted) {
          end_.endpoint->Flush();
        }
      }
    }
    end_ = {};
    listener_.reset();
  }
  absl::Status Prepare(RdmaEndpoint& made) {
    absl::Status status = end_.Prepare(made);
    if (!status.ok()) return status;
    const Sge piece = end_.Piece();
    return made.PostReceive({1}, {&piece, 1}) == PostResult::kAccepted
               ? absl::OkStatus()
               : absl::InternalError("no RECEIVE");
  }

  const std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  End end_;
  std::promise<void> address_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};
// Connects and sends, and does nothing about what lies.
bool NudgeTest::IsAnswered(const Address& address, absl::Duration limit) {
  const auto transport =
      MakeTransport(absl::ZeroDuration(), absl::ZeroDuration());
  End client;
  ConnectOptions options;
  options.prepare = [&client](RdmaEndpoint& made) {
    absl::Status status = client.Prepare(made);
    const Sge piece = client.Piece();
    if (status.ok() &&
        made.PostReceive({3}, {&piece, 1}) != PostResult::kAccepted) {
      status = absl::InternalError("no RECEIVE");
    }
    return status;
  };
  auto attempt =
      transport->Connect(reactor_.get(), address, options, Taking(&client));
  EXPECT_TRUE(attempt.ok()) << attempt.status();
  if (!attempt.ok()) return false;
  bool sent = false;
  const absl::Time end = EpollReactor::MonotonicNow() + limit;
  while (EpollReactor::MonotonicNow() < end) {
    // The server has the processor meanwhile.
    pollfd p = {reactor_->fd(), POLLIN, 0};
    poll(&p, 1, 2);
    reactor_->Poll();
    if (client.endpoint == nullptr) continue;
    if (!std::exchange(sent, true)) {
      const Sge piece = client.Piece();
      EXPECT_EQ(client.endpoint->PostSend({4}, {&piece, 1}),
                PostResult::kAccepted);
      client.endpoint->Flush();
    }
    Completion completion;
    if (client.endpoint->completion_queue()->Poll({&completion, 1}) == 1 &&
        completion.kind == OperationKind::kReceive) {
      return completion.status == CompletionStatus::kOk;
    }
  }
  return false;
}

// All that the accepting end can do, as nobody else does anything.
TEST_P(NudgeTest, ALateAcceptorGetsItsFirstMessage) {
  ASSERT_EQ(std::system("mountpoint -q /sys/kernel/debug || "
                        "mount -t debugfs none /sys/kernel/debug; "
                        "echo full >/sys/kernel/debug/sched/preempt"),
            0);
  {
    const LateServer server(
        MakeTransport(absl::ZeroDuration(), absl::ZeroDuration()), AnyPort());
    EXPECT_FALSE(IsAnswered(server.address(), absl::Seconds(2)))
        << "this kernel does not let first messages lie: all this is not "
           "needed, and its tests show nothing";
  }
  const LateServer server(
      MakeTransport(absl::Milliseconds(20), absl::Seconds(3)), AnyPort());
  EXPECT_TRUE(IsAnswered(server.address(), absl::Seconds(10)));
}

INSTANTIATE_TEST_SUITE_P(Transports, NudgeTest,
                         ::testing::Values("verbs", "libfabric"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace skiff::transport
