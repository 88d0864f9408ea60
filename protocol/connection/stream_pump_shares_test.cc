// How the pumps of a reactor share its time.

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/connection/stream_pump.h"
#include "protocol/connection/stream_pump_test_util.h"
#include "transport/reactor/manual_reactor.h"

namespace skiff::protocol {
namespace {

using transport::ManualReactor;

// A connection whose peer asks, each time with 48 bytes, for what takes time.
class Asker : public PumpClient {
 public:
  static constexpr size_t kRequest = 48;

  Asker(ManualReactor* reactor, absl::Duration cost)
      : pump_(reactor, std::make_unique<FakeStream>(&wire_), &datamover_, {},
              this) {
    datamover_.on_receive = [this, reactor, cost] {
      while (served_ * kRequest + kRequest <= datamover_.received.size()) {
        ++served_;
        reactor->Pass(cost);
        datamover_.queue += "answer";
      }
    };
  }
  void OnProgress() override {}
  void OnClosed(absl::Status) override {}
  void Ask(size_t requests) {
    wire_.input.append(requests * kRequest, 'r');
    wire_.observer->OnReadable();
  }
  size_t served() const { return served_; }
  size_t answered() const { return wire_.output.size() / 6; }
  void ReceiveAtOnce(size_t bytes) { datamover_.capacity = bytes; }
  void SetNewcomer(bool newcomer) { pump_.SetNewcomer(newcomer); }

 private:
  Wire wire_;
  FakeDatamover datamover_;
  StreamPump pump_;
  size_t served_ = 0;
};

// However much of it has been received with one look.
TEST(StreamPumpSharesTest, AFloodIsServedInSmallPiecesBesideAnother) {
  constexpr absl::Duration kCost = absl::Microseconds(1);
  constexpr size_t kFlood = 20000;
  ManualReactor reactor;
  Asker flood(&reactor, kCost);
  Asker other(&reactor, kCost);
  flood.ReceiveAtOnce(size_t{64} << 10);
  other.ReceiveAtOnce(size_t{64} << 10);
  flood.Ask(kFlood);
  size_t most = 0;
  size_t asked = 0;
  for (int turn = 0; turn < 200; ++turn) {
    other.Ask(8);
    asked += 8;
    const size_t before = flood.served();
    reactor.Turn();
    EXPECT_EQ(other.answered(), asked) << "in the turn in which it came";
    EXPECT_TRUE(reactor.busy());
    if (turn >= 20) most = std::max(most, flood.served() - before);
  }
  EXPECT_GT(flood.served(), asked / 2) << "it goes on";
  // What the other has, and one look more.
  EXPECT_LE(most, 8 + transport::TurnShares::kLeastBytes / Asker::kRequest + 1);

  // Whatever it costs, it gets what is left.
  int turns = 0;
  while (flood.served() < kFlood && turns < 2000) {
    reactor.Turn();
    ++turns;
  }
  EXPECT_EQ(flood.served(), kFlood);
  reactor.Turn();
  EXPECT_EQ(flood.answered(), kFlood);
  reactor.Turn();
  EXPECT_FALSE(reactor.busy());
}

// Also where a single request takes longer than a pass.
TEST(StreamPumpSharesTest, AFloodTakesNoMoreThanOneOther) {
  for (const int cost : {1, 5, 30, 50, 200}) {
    SCOPED_TRACE(cost);
    const absl::Duration each = absl::Microseconds(cost);
    constexpr absl::Duration kCost = absl::Microseconds(2);
    constexpr size_t kTurns = 2000;
    ManualReactor reactor;
    Asker flood(&reactor, each);
    Asker other(&reactor, kCost);
    flood.Ask(100000);
    size_t before = 0;
    for (size_t turn = 0; turn < kTurns; ++turn) {
      if (turn == kTurns / 2) before = flood.served();
      other.Ask(8);
      reactor.Turn();
    }
    const absl::Duration half = kTurns / 2 * 8 * kCost;
    const absl::Duration took = (flood.served() - before) * each;
    EXPECT_LE(took, half * 1.2);
    EXPECT_GE(took, half * 0.8);
  }
}

// Each of which has a right to little, but there are many.
TEST(StreamPumpSharesTest, AFloodOfLoginsTakesNoMoreThanOneOther) {
  constexpr absl::Duration kLogin = absl::Microseconds(50);
  constexpr absl::Duration kCost = absl::Microseconds(2);
  constexpr int kLogins = 200;
  constexpr int kTurns = 400;
  ManualReactor reactor;
  Asker other(&reactor, kCost);
  std::vector<std::unique_ptr<Asker>> logins;
  for (int i = 0; i < kLogins; ++i) {
    logins.push_back(std::make_unique<Asker>(&reactor, kLogin));
    logins.back()->SetNewcomer(true);
  }
  size_t asked = 0;
  absl::Duration longest;
  const absl::Time began = reactor.NowInTurn();
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const auto& login : logins) login->Ask(1);
    other.Ask(8);
    asked += 8;
    const absl::Time before = reactor.NowInTurn();
    reactor.Turn();
    EXPECT_EQ(other.answered(), asked) << "in the turn in which it came";
    // At first nobody knows who is active.
    if (turn > 1) {
      longest = std::max(longest, reactor.NowInTurn() - before);
    }
  }
  EXPECT_LE(longest, transport::TurnShares::kLonePass + kLogin + 8 * kCost);
  EXPECT_LE(reactor.NowInTurn() - began, 2.5 * kTurns * 8 * kCost);
  // One after the other, as they came.
  size_t served = 0;
  for (const auto& login : logins) served += login->served() > 0 ? 1 : 0;
  EXPECT_GE(served, kTurns * 8 * kCost / kLogin / 2);

  // Once they are in, they have shares of their own.
  logins.resize(1);
  logins[0]->SetNewcomer(false);
  for (int turn = 0; turn < 2000; ++turn) reactor.Turn();
  EXPECT_FALSE(reactor.busy());
  EXPECT_EQ(logins[0]->answered(), logins[0]->served());
}

TEST(StreamPumpSharesTest, AFloodComesAfterTheOthersOfItsTurn) {
  ManualReactor reactor;
  Asker flood(&reactor, absl::Microseconds(1));
  Asker other(&reactor, absl::Microseconds(1));
  flood.ReceiveAtOnce(4096);
  flood.Ask(20000);
  for (int turn = 0; turn < 100; ++turn) {
    other.Ask(1);
    reactor.Turn();
  }
  const size_t before = flood.served();
  size_t at_others_turn = 0;
  class Hook final : public transport::TurnHook {
   public:
    explicit Hook(std::function<void()> run) : run_(std::move(run)) {}
    void OnTurnEnd() override { run_(); }

   private:
    std::function<void()> run_;
  };
  Hook second([&] { at_others_turn = flood.served(); });
  Hook first([&] { reactor.ScheduleTurnEnd(&second); });
  ASSERT_LT(before, 20000u);
  flood.Ask(1);  // Its hook comes first.
  reactor.ScheduleTurnEnd(&first);
  reactor.Turn();
  EXPECT_EQ(at_others_turn, before);
  EXPECT_GT(flood.served(), before);
}

}  // namespace
}  // namespace skiff::protocol
