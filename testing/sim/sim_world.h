#ifndef SKIFF_TESTING_SIM_SIM_WORLD_H_
#define SKIFF_TESTING_SIM_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_random.h"

namespace skiff::testing {

class SimEventSource;
class SimNetwork;
class SimReactor;
class SimStreamWire;

// A world in virtual time: hosts with their reactors, a network between them,
// and one seed from which every random choice comes. The same seed and the same
// program give the same run. Time jumps from one event to the next, so that a
// timeout of a minute costs nothing.
//
// Single-threaded. It must outlive everything that its transport made. While it
// lives, every failure that GoogleTest reports carries the seed.
class SimWorld {
 public:
  // What one event can be cancelled by.
  using EventId = std::pair<absl::Time, uint64_t>;

  explicit SimWorld(uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // `fallback`, unless the environment variable SKIFF_SIM_SEED has a seed to
  // replay.
  static uint64_t SeedFromEnvironment(uint64_t fallback);

  uint64_t seed() const { return seed_; }
  absl::Time now() const { return now_; }
  SimRandom& random() { return random_; }
  SimNetwork& network() { return *network_; }

  // A new reactor on the host of that name; a host may have many. Owned by the
  // world, unless RemoveReactor() destroys it earlier.
  SimReactor* AddReactor(absl::string_view host);
  void RemoveReactor(SimReactor* reactor);

  // Runs `fn` when the clock reaches `when` (now, if that is past), before any
  // reactor's turn of that instant. Events of one instant run in order of
  // creation.
  EventId At(absl::Time when, absl::AnyInvocable<void()> fn);
  EventId After(absl::Duration delay, absl::AnyInvocable<void()> fn) {
    return At(now_ + delay, std::move(fn));
  }
  // Does nothing if the event ran already.
  void Cancel(const EventId& id) { events_.erase(id); }

  // A side of a byte stream that nobody has for now, under a number that stands
  // for a descriptor.
  struct KeptStream {
    std::shared_ptr<SimStreamWire> wire;  // Null: none has the number.
    int side = 0;
  };
  int Keep(KeptStream stream);
  KeptStream TakeKept(int descriptor);

  // Lets the next thing happen: an event, or the turn of one of the reactors
  // that are due (by chance, if several are). Returns false if nothing will
  // ever happen by itself any more.
  bool Step();
  // Steps until `done` holds; false if `limit` passes, or nothing happens,
  // before.
  bool RunUntil(const std::function<bool()>& done,
                absl::Duration limit = absl::Minutes(10));
  void RunFor(absl::Duration duration);

  // Adds to the fingerprint of this run.
  void Trace(absl::string_view what, uint64_t a = 0, uint64_t b = 0);
  uint64_t trace_hash() const { return trace_hash_; }

 private:
  // Beyond what a process can have open: closing one does nothing.
  static constexpr int kFirstKept = 1 << 30;

  friend class SimEventSource;
  friend class SimReactor;

  // When something happens next, and whether it is an event.
  absl::Time NextTime(bool* is_event) const;
  void AdvanceTo(absl::Time when);
  void DropEvents();
  bool Livelocked();
  void Fold(uint64_t value);

  const uint64_t seed_;
  ::testing::ScopedTrace seed_in_failures_;
  SimRandom random_;
  absl::Time now_;
  uint64_t next_event_ = 0;
  std::map<EventId, absl::AnyInvocable<void()>> events_;
  std::vector<std::unique_ptr<SimReactor>> reactors_;
  std::unique_ptr<SimNetwork> network_;
  std::map<int, SimEventSource*> sources_;
  int next_source_fd_;
  uint64_t trace_hash_;
  uint64_t steps_at_this_instant_ = 0;
  int next_kept_ = kFirstKept;
  std::map<int, KeptStream> kept_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_WORLD_H_
