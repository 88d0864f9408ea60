#include "transport/persistent_listener.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/manual_reactor.h"

namespace skiff::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Notes what becomes of it.
class Request final : public ConnectionRequest {
 public:
  Request(std::string peer, std::vector<std::string>* log)
      : peer_(std::move(peer)), log_(log) {}
  ~Request() override { log_->push_back(absl::StrCat("end of ", peer_)); }
  std::string local_address() const override { return "here"; }
  std::string peer_address() const override { return peer_; }
  absl::Span<const uint8_t> private_data() const override { return {}; }
  void Accept(Reactor*, const AcceptOptions&,
              absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>) override {}
  void Reject(absl::Span<const uint8_t>) override {}

 private:
  const std::string peer_;
  std::vector<std::string>* const log_;
};

// Listens wherever it is asked to; requests come when the test says.
class OneTransport final : public Transport {
 public:
  explicit OneTransport(std::vector<std::string>* log) : log_(log) {}
  absl::string_view scheme() const override { return "one"; }
  Capabilities capabilities() const override { return {}; }
  std::vector<DeviceReport> Devices() const override { return {}; }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor*, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    ++listens;
    on_request_ = std::move(on_request);
    on_failure = options.on_failure;
    return std::make_unique<OneListener>(address, log_);
  }
  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor*, const Address&, const ConnectOptions&,
      ConnectCallback) override {
    return absl::UnimplementedError("it only listens");
  }

  void Come(const std::string& peer) {
    on_request_(std::make_unique<Request>(peer, log_));
  }
  int listens = 0;
  std::function<void(absl::Status)> on_failure;

 private:
  class OneListener final : public Listener {
   public:
    OneListener(Address address, std::vector<std::string>* log)
        : address_(std::move(address)), log_(log) {}
    ~OneListener() override { log_->push_back("end of listening"); }
    Address address() const override { return address_; }

   private:
    const Address address_;
    std::vector<std::string>* const log_;
  };

  std::vector<std::string>* const log_;
  AcceptCallback on_request_;
};

class PersistentListenerTest : public ::testing::Test {
 protected:
  void Listen(Reactor* reactor, int backlog) {
    ListenOptions options;
    options.backlog = backlog;
    options.retry_interval = absl::Nanoseconds(1);
    options.on_change = [](const absl::Status&) {};
    options.on_trouble = [this](const absl::Status& status) {
      log_.emplace_back(status.message());
    };
    listener_ = PersistentListener::Create(
                    &transport_, reactor,
                    Address::Parse("one://here:1").value(), options,
                    [this](std::unique_ptr<ConnectionRequest> request) {
                      log_.push_back(request->peer_address());
                      taken_.push_back(std::move(request));
                    })
                    .value();
  }
  // What happened since the last time.
  std::vector<std::string> Log() { return std::exchange(log_, {}); }

  std::vector<std::string> log_;
  OneTransport transport_{&log_};
  ManualReactor manual_;
  std::unique_ptr<EpollReactor> reactor_;
  std::vector<std::unique_ptr<ConnectionRequest>> taken_;
  std::unique_ptr<PersistentListener> listener_;
};

TEST_F(PersistentListenerTest, RequestsWaitForTheirTurnAndKeepTheirOrder) {
  Listen(&manual_, 10);
  for (const char* peer : {"a", "b", "c"}) transport_.Come(peer);
  EXPECT_THAT(Log(), IsEmpty());
  // One is one piece of work: others have theirs in between.
  manual_.Turn();
  EXPECT_THAT(Log(), ElementsAre("a"));
  manual_.Turn();
  transport_.Come("d");
  EXPECT_THAT(Log(), ElementsAre("b"));
  for (int i = 0; i < 3; ++i) manual_.Turn();
  EXPECT_THAT(Log(), ElementsAre("c", "d"));
  EXPECT_FALSE(manual_.busy());
}

TEST_F(PersistentListenerTest, TransportsThatWaitForTheirTurnAreHeardAtOnce) {
  Listen(&manual_, 10);
  manual_.newcomers().Add([this] {
    transport_.Come("a");
    EXPECT_THAT(log_, ElementsAre("a"));
  });
  manual_.Turn();
  EXPECT_THAT(Log(), ElementsAre("a"));
}

TEST_F(PersistentListenerTest, MoreThanTheBacklogAreRejectedAndThatIsTold) {
  constexpr char kTold[] =
      "2 connections wait to be taken, which is the backlog: more are rejected";
  Listen(&manual_, 2);
  for (const char* peer : {"a", "b", "c", "d"}) transport_.Come(peer);
  EXPECT_THAT(Log(), ElementsAre(kTold, "end of c", "end of d"));
  manual_.Turn();
  transport_.Come("e");
  transport_.Come("f");
  EXPECT_THAT(Log(), ElementsAre("a", "end of f"));
  manual_.Turn();
  manual_.Turn();
  EXPECT_THAT(Log(), ElementsAre("b", "e"));
  // All were taken: the next time is another one.
  for (const char* peer : {"g", "h", "i"}) transport_.Come(peer);
  EXPECT_THAT(Log(), ElementsAre(kTold, "end of i"));
}

TEST_F(PersistentListenerTest, WhatWaitsGoesBeforeTheListener) {
  Listen(&manual_, 10);
  transport_.Come("a");
  listener_.reset();
  EXPECT_THAT(Log(), ElementsAre("end of a", "end of listening"));
  manual_.Turn();
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(PersistentListenerTest, WhatWaitsGoesWithADeviceThatWasRemoved) {
  reactor_ = EpollReactor::Create({}).value();
  Listen(reactor_.get(), 10);
  transport_.Come("a");
  transport_.on_failure(absl::UnavailableError("the device was removed"));
  // A turn's timers come before its newcomers.
  reactor_->Poll();
  EXPECT_EQ(transport_.listens, 2);
  EXPECT_THAT(Log(), ElementsAre("end of a", "end of listening"));
  transport_.Come("b");
  reactor_->Poll();
  EXPECT_THAT(Log(), ElementsAre("b"));
  listener_.reset();
}

}  // namespace
}  // namespace skiff::transport
