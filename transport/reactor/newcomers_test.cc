#include "transport/reactor/newcomers.h"

#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/manual_reactor.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::transport {
namespace {

class Call final : public Newcomers::Work {
 public:
  explicit Call(std::function<void()> fn) : fn_(std::move(fn)) {}
  bool RunAsNewcomer() override {
    fn_();
    return true;
  }

 private:
  std::function<void()> fn_;
};

// Asks in each turn whether there is something to do, and there never is.
class Mute final : public Newcomers::Work {
 public:
  bool RunAsNewcomer() override {
    ++asked;
    return false;
  }
  int asked = 0;
};

// Somebody who has work in each turn.
class Worker final : public TurnHook {
 public:
  Worker(ManualReactor* reactor, absl::Duration cost)
      : reactor_(reactor), cost_(cost) {}
  ~Worker() override { reactor_->turn_shares().Leave(member_); }
  void OnTurnEnd() override {
    const TurnShares::Grant grant =
        reactor_->turn_shares().Begin(&member_, reactor_->Now());
    reactor_->Pass(cost_);
    reactor_->turn_shares().End(&member_, reactor_->Now(), grant,
                                /*finished=*/true, cost_);
  }

 private:
  ManualReactor* const reactor_;
  const absl::Duration cost_;
  TurnShares::Member member_;
};

class NewcomersTest : public testing::Test {
 protected:
  // So many that cost that much each.
  void Flood(int count, absl::Duration cost) {
    for (int i = 0; i < count; ++i) {
      newcomers_.Add([this, cost] {
        reactor_.Pass(cost);
        ++served_;
      });
    }
  }

  ManualReactor reactor_;
  Newcomers& newcomers_ = reactor_.newcomers();
  int served_ = 0;
};

TEST_F(NewcomersTest, RunInOrderInTheTurnInWhichTheyCome) {
  std::vector<int> ran;
  Call first([&] { ran.push_back(1); });
  Call last([&] { ran.push_back(3); });
  newcomers_.Add(&first);
  newcomers_.Add([&] { ran.push_back(2); });
  newcomers_.Add(&last);
  newcomers_.Add(&first);  // Is there already.
  EXPECT_TRUE(ran.empty());
  reactor_.Turn();
  EXPECT_EQ(ran, std::vector<int>({1, 2, 3}));
  EXPECT_FALSE(reactor_.busy());
  reactor_.Turn();
  EXPECT_EQ(ran.size(), 3u);
}

TEST_F(NewcomersTest, WhoHasNothingToDoTakesNothingFromOthers) {
  Worker worker(&reactor_, absl::Microseconds(10));
  Mute mute;
  for (int i = 0; i < 1000; ++i) {
    newcomers_.Add(&mute);
    reactor_.ScheduleTurnEnd(&worker);
    reactor_.Turn();
    reactor_.Pass(absl::Microseconds(100));
  }
  EXPECT_EQ(mute.asked, 1000);
  EXPECT_FALSE(reactor_.turn_shares().contended());
  newcomers_.Add([] {});
  reactor_.ScheduleTurnEnd(&worker);
  reactor_.Turn();
  EXPECT_TRUE(reactor_.turn_shares().contended());
}

TEST_F(NewcomersTest, WithoutMemoryTheRestIsDone) {
  int ran = 0;
  newcomers_.Add([] { throw std::bad_alloc(); });
  newcomers_.Add([&] { ++ran; });
  reactor_.Turn();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(newcomers_.running());
}

TEST_F(NewcomersTest, WhatComesMeanwhileComesNextTurn) {
  int ran = 0;
  int at_once = 0;
  std::unique_ptr<Call> again;
  again = std::make_unique<Call>([&] {
    if (++ran < 3) newcomers_.Add(again.get());
    EXPECT_TRUE(newcomers_.running());
    newcomers_.RunOrAdd([&at_once] { ++at_once; });
  });
  newcomers_.Add(again.get());
  for (int turn = 1; turn <= 3; ++turn) {
    reactor_.Turn();
    EXPECT_EQ(ran, turn);
    EXPECT_EQ(at_once, turn);
    EXPECT_EQ(reactor_.busy(), turn < 3);
  }
}

TEST_F(NewcomersTest, MayBeTakenBackAndDestroyThemselves) {
  int ran = 0;
  auto gone = std::make_unique<Call>([&] { ++ran; });
  std::unique_ptr<Call> self;
  self = std::make_unique<Call>([&] {
    ++ran;
    self.reset();
  });
  newcomers_.Add(gone.get());
  newcomers_.Add(self.get());
  gone.reset();
  reactor_.Turn();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(self, nullptr);
}

TEST_F(NewcomersTest, WhatIsLeftGoesWithTheReactor) {
  auto held = std::make_shared<int>();
  {
    ManualReactor reactor;
    reactor.newcomers().Add([held] { ADD_FAILURE(); });
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(NewcomersTest, HaveAnIdleReactorForThemselves) {
  Flood(1000, absl::Microseconds(10));
  int turns = 0;
  for (; reactor_.busy() || turns == 0; ++turns) reactor_.Turn();
  EXPECT_EQ(served_, 1000);
  EXPECT_LE(turns, 1000 * absl::Microseconds(10) / TurnShares::kLonePass + 1);
}

// Also where each takes longer than a pass of one who uses more than his part.
TEST_F(NewcomersTest, TakeNoMoreThanWhoWorksBesideThem) {
  for (const int cost : {1, 5, 30, 50, 200}) {
    SCOPED_TRACE(cost);
    const absl::Duration each = absl::Microseconds(cost);
    constexpr absl::Duration kWork = absl::Microseconds(20);
    constexpr int kTurns = 2000;
    ManualReactor reactor;
    Worker worker(&reactor, kWork);
    int served = 0;
    std::function<void()> come = [&] {
      reactor.Pass(each);
      ++served;
      reactor.newcomers().Add(come);
    };
    for (int i = 0; i < 100; ++i) reactor.newcomers().Add(come);
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn == kTurns / 2) served = 0;
      reactor.ScheduleTurnEnd(&worker);
      reactor.Turn();
    }
    const absl::Duration half = kTurns / 2 * kWork;
    EXPECT_LE(served * each, half * 1.2);
    EXPECT_GE(served * each, half * 0.8);
  }
}

TEST_F(NewcomersTest, ComeAfterTheOthersOfTheirTurn) {
  Worker worker(&reactor_, absl::Microseconds(20));
  Flood(100000, absl::Microseconds(5));
  for (int turn = 0; turn < 100; ++turn) {
    reactor_.ScheduleTurnEnd(&worker);
    reactor_.Turn();
  }
  const int before = served_;
  int at_the_end_of_the_others = -1;
  class Hook final : public TurnHook {
   public:
    explicit Hook(std::function<void()> run) : run_(std::move(run)) {}
    void OnTurnEnd() override { run_(); }

   private:
    std::function<void()> run_;
  };
  Hook third([&] { at_the_end_of_the_others = served_; });
  Hook second([&] { reactor_.ScheduleTurnEnd(&third); });
  Hook first([&] { reactor_.ScheduleTurnEnd(&second); });
  reactor_.ScheduleTurnEnd(&first);
  reactor_.ScheduleTurnEnd(&worker);
  reactor_.Turn();
  EXPECT_EQ(at_the_end_of_the_others, before);
}

}  // namespace
}  // namespace skiff::transport
