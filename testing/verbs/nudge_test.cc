// What makes Soft-iWARP look at its sockets, on connections that do not need
// it: late_acceptor_test.py has those that do. In a guest.

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/epoll_reactor.h"
#include "transport/libfabric/libfabric_backend.h"
#include "transport/verbs/verbs_backend.h"

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
 protected:
  void Connect(absl::Duration after, absl::Duration limit) {
    const bool verbs = GetParam() == std::string("verbs");
    backend_ =
        verbs ? MakeVerbsBackend(Nudging<VerbsOptions>(after, limit))
              : MakeLibfabricBackend(Nudging<LibfabricOptions>(after, limit));
    const char* const host = std::getenv("SKIFF_VM_IWARP_ADDRESS");
    ASSERT_NE(host, nullptr) << "no device has an address";
    const std::string address = absl::StrCat(GetParam(), "://", host, ":0",
                                             verbs ? "" : "?provider=verbs");
    auto listener = backend_->Listen(
        reactor_.get(), Address::Parse(address).value(), {},
        [this](std::unique_ptr<ConnectionRequest> request) {
          AcceptOptions options;
          options.prepare = Preparing(&server_);
          request->Accept(reactor_.get(), options, Taking(&server_));
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    ConnectOptions options;
    options.prepare = Preparing(&client_);
    auto attempt = backend_->Connect(reactor_.get(), listener_->address(),
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
  static std::function<void(absl::StatusOr<Endpoint>)> Taking(End* end) {
    return [end](absl::StatusOr<Endpoint> made) {
      ASSERT_TRUE(made.ok()) << made.status();
      end->endpoint = std::get<EndpointPtr>(*std::move(made));
    };
  }

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
  std::unique_ptr<Backend> backend_;
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

INSTANTIATE_TEST_SUITE_P(Backends, NudgeTest,
                         ::testing::Values("verbs", "libfabric"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace skiff::transport
