#include "transport/libfabric/fabric/queue_pair_life.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

std::string PhaseOf(const QueuePairLife& life) {
  EXPECT_LE(int{life.probing()} + int{life.connected()} + int{life.ended()}, 1);
  if (life.probing()) return "probing";
  if (life.connected()) return "connected";
  if (life.closing()) return "closing";
  return life.ended() ? "closed" : "opening";
}

QueuePairLife In(const std::string& phase) {
  QueuePairLife life;
  if (phase == "opening") return life;
  life.Probing();
  if (phase == "probing") return life;
  life.Connected();
  if (phase == "connected") return life;
  life.End(absl::UnavailableError("over"));
  if (phase == "closed") return life;
  life.Linger();
  return life;
}

struct Call {
  const char* name;
  std::function<void(QueuePairLife*)> make;
  // What follows in each of kPhases.
  std::vector<std::string> then;
};

TEST(QueuePairLifeTest, EveryCallInEveryPhaseIsAsTheTableSays) {
  const std::vector<std::string> phases = {"opening", "probing", "connected",
                                           "closing", "closed"};
  const std::vector<Call> calls = {
      {"Probing",
       [](QueuePairLife* life) { life->Probing(); },
       {"probing", "probing", "connected", "closing", "closed"}},
      {"Connected",
       [](QueuePairLife* life) { life->Connected(); },
       {"connected", "connected", "connected", "closing", "closed"}},
      {"Linger",
       [](QueuePairLife* life) { life->Linger(); },
       {"opening", "probing", "connected", "closing", "closing"}},
      {"Closed",
       [](QueuePairLife* life) { life->Closed(); },
       {"opening", "probing", "connected", "closed", "closed"}},
      {"Stop",
       [](QueuePairLife* life) { life->Stop(); },
       {"opening", "probing", "connected", "closing", "closed"}},
  };
  for (const Call& call : calls) {
    for (size_t i = 0; i < phases.size(); ++i) {
      QueuePairLife life = In(phases[i]);
      ASSERT_EQ(PhaseOf(life), phases[i]);
      call.make(&life);
      EXPECT_EQ(PhaseOf(life), call.then[i])
          << call.name << " while " << phases[i];
    }
  }
}

TEST(QueuePairLifeTest, TheEndIsTheUsersOnlyIfItWasConnected) {
  for (const char* phase : {"opening", "probing", "connected"}) {
    QueuePairLife life = In(phase);
    EXPECT_TRUE(life.error().ok());
    EXPECT_EQ(life.End(absl::AbortedError("why")),
              std::string(phase) == "connected");
    EXPECT_EQ(PhaseOf(life), "closed");
    EXPECT_EQ(life.error(), absl::AbortedError("why"));
  }
}

TEST(QueuePairLifeTest, TheFirstReasonToStopCounts) {
  QueuePairLife life;
  EXPECT_FALSE(life.stopped());
  life.Stop();
  EXPECT_TRUE(life.stopped());
  EXPECT_TRUE(life.break_reason().ok());
  life.StopBecause(absl::AbortedError("first"));
  life.StopBecause(absl::AbortedError("second"));
  EXPECT_EQ(life.break_reason(), absl::AbortedError("first"));
}

}  // namespace
}  // namespace skiff::transport
