#include "transport/soft_iwarp/first_message_watch.h"

#include <sys/socket.h>

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/soft_iwarp/tcp_pair_test_util.h"

namespace skiff::transport {
namespace {

using Nothing = FirstMessageWatch::Nothing;

// The first wait begins a little before RunOut().
constexpr absl::Duration kBefore = absl::Milliseconds(1);

class FirstMessageWatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<FirstMessageWatch> Watch(absl::Duration after,
                                           absl::Duration limit) {
    return std::make_unique<FirstMessageWatch>(
        reactor_.get(), FirstMessageWatch::Settings{after, limit},
        FirstMessageWatch::Connection{[this] { return settled_; },
                                      [this](Nothing nothing) {
                                        asked_.push_back(nothing);
                                        return can_send_;
                                      }});
  }
  // Until no timer is left. Returns how long that took.
  absl::Duration RunOut() {
    const absl::Time begin = EpollReactor::MonotonicNow();
    while (reactor_->NextDeadline() != absl::InfiniteFuture()) {
      reactor_->Poll();
    }
    return EpollReactor::MonotonicNow() - begin;
  }

  const std::unique_ptr<EpollReactor> reactor_ = EpollReactor::Create().value();
  const TcpPair pair_{"127.0.0.1"};
  bool settled_ = false;
  bool can_send_ = true;
  std::vector<Nothing> asked_;
};

TEST_F(FirstMessageWatchTest, WritesAreRepeatedUpToTheLimit) {
  const auto watch = Watch(absl::Milliseconds(1), absl::Milliseconds(8));
  watch->StartConnected();
  EXPECT_GE(RunOut(), absl::Milliseconds(1 + 2 + 4 + 8) - kBefore);
  EXPECT_EQ(asked_, std::vector<Nothing>(4, Nothing::kWrite));
}

TEST_F(FirstMessageWatchTest, NothingIsSentOnceTheConnectionIsSettled) {
  const auto watch = Watch(absl::Milliseconds(1), absl::Milliseconds(8));
  settled_ = true;
  watch->StartConnected();
  RunOut();
  EXPECT_TRUE(asked_.empty());
}

TEST_F(FirstMessageWatchTest, AReadIsForWhatLiesUnread) {
  pair_.Send("hello");
  const auto watch = Watch(absl::Milliseconds(1), absl::Milliseconds(8));
  watch->StartAccepted(pair_.local(), pair_.peer());
  // The first wait is there to see that nothing follows.
  EXPECT_GE(RunOut(), absl::Milliseconds(1 + 2) - kBefore);
  EXPECT_EQ(asked_, std::vector<Nothing>{Nothing::kRead});
}

TEST_F(FirstMessageWatchTest, AReadThatCannotBeSentIsTriedAgain) {
  pair_.Send("hello");
  can_send_ = false;
  const auto watch = Watch(absl::Milliseconds(1), absl::Milliseconds(8));
  watch->StartAccepted(pair_.local(), pair_.peer());
  RunOut();
  EXPECT_EQ(asked_, std::vector<Nothing>(3, Nothing::kRead));
}

TEST_F(FirstMessageWatchTest, NoReadIsForASocketWhereNothingLies) {
  const auto watch = Watch(absl::Milliseconds(1), absl::Milliseconds(8));
  watch->StartAccepted(pair_.local(), pair_.peer());
  RunOut();
  EXPECT_TRUE(asked_.empty());
}

TEST_F(FirstMessageWatchTest, NoReadIsSentWhileMoreComes) {
  bool done = false;
  auto watch = std::make_unique<FirstMessageWatch>(
      reactor_.get(),
      FirstMessageWatch::Settings{absl::Milliseconds(1), absl::Milliseconds(8)},
      FirstMessageWatch::Connection{[this, &done] {
                                      pair_.Send("more");
                                      return done;
                                    },
                                    [this](Nothing nothing) {
                                      asked_.push_back(nothing);
                                      return true;
                                    }});
  watch->StartAccepted(pair_.local(), pair_.peer());
  RunOut();
  EXPECT_TRUE(asked_.empty());
}

TEST_F(FirstMessageWatchTest, AConnectionThatIsGoneIsLeftAlone) {
  ::testing::internal::CaptureStderr();
  const SocketAddress nobody = ParseLiteral("127.0.0.1", 1).value();
  const auto watch = Watch(absl::Milliseconds(1), absl::Hours(1));
  watch->StartAccepted(nobody, nobody);
  EXPECT_LT(RunOut(), absl::Seconds(20));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(FirstMessageWatchTest, ZeroIsNever) {
  const auto watch = Watch(absl::ZeroDuration(), absl::Milliseconds(8));
  watch->StartConnected();
  EXPECT_EQ(reactor_->NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace skiff::transport
