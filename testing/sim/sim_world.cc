#include "testing/sim/sim_world.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_reactor.h"

namespace skiff::testing {
namespace {

// FNV-1a.
constexpr uint64_t kHashBasis = 0xcbf29ce484222325u;
constexpr uint64_t kHashPrime = 0x100000001b3u;

// Simulated descriptors start where no real one is.
constexpr int kFirstSourceFd = 1 << 24;

// Steps without time moving on that mean two parties keep waking each other.
constexpr uint64_t kLivelockSteps = 5'000'000;

}  // namespace

SimWorld::SimWorld(uint64_t seed)
    : seed_(seed),
      seed_in_failures_(
          __FILE__, __LINE__,
          absl::StrCat("simulated; SKIFF_SIM_SEED=", seed, " replays this")),
      random_(seed),
      now_(absl::UnixEpoch() + absl::Hours(1)),
      network_(std::make_unique<SimNetwork>(this)),
      next_source_fd_(kFirstSourceFd),
      trace_hash_(kHashBasis) {}

SimWorld::~SimWorld() {
  // Events and posted functions hold connections, and connections hold
  // reactors, links and further events.
  network_->DropParcels();
  DropEvents();
  reactors_.clear();
  network_->DropParcels();
  DropEvents();
}

void SimWorld::DropEvents() {
  while (!events_.empty()) {
    auto doomed = std::move(events_);
    events_.clear();
  }
}

uint64_t SimWorld::SeedFromEnvironment(uint64_t fallback) {
  const char* text = std::getenv("SKIFF_SIM_SEED");
  uint64_t seed = 0;
  if (text != nullptr && absl::SimpleAtoi(text, &seed)) return seed;
  return fallback;
}

SimReactor* SimWorld::AddReactor(absl::string_view host) {
  reactors_.push_back(std::make_unique<SimReactor>(this, std::string(host)));
  return reactors_.back().get();
}

void SimWorld::RemoveReactor(SimReactor* reactor) {
  for (auto it = reactors_.begin(); it != reactors_.end(); ++it) {
    if (it->get() != reactor) continue;
    std::unique_ptr<SimReactor> doomed = std::move(*it);
    reactors_.erase(it);
    return;
  }
}

SimWorld::EventId SimWorld::At(absl::Time when, absl::AnyInvocable<void()> fn) {
  const EventId id = {std::max(when, now_), next_event_++};
  events_.emplace(id, std::move(fn));
  return id;
}

absl::Time SimWorld::NextTime(bool* is_event) const {
  absl::Time reactors = absl::InfiniteFuture();
  for (const auto& reactor : reactors_) {
    reactors = std::min(reactors, reactor->WakeTime());
  }
  const absl::Time events =
      events_.empty() ? absl::InfiniteFuture() : events_.begin()->first.first;
  *is_event = events <= reactors;
  return std::max(now_, std::min(events, reactors));
}

void SimWorld::AdvanceTo(absl::Time when) {
  if (when <= now_) return;
  now_ = when;
  steps_at_this_instant_ = 0;
}

bool SimWorld::Step() {
  bool is_event = false;
  const absl::Time when = NextTime(&is_event);
  if (when == absl::InfiniteFuture()) return false;
  AdvanceTo(when);
  ++steps_at_this_instant_;
  if (is_event) {
    auto fn = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    fn();
    return true;
  }
  std::vector<SimReactor*> due;
  for (const auto& reactor : reactors_) {
    if (reactor->WakeTime() <= now_) due.push_back(reactor.get());
  }
  const size_t chosen = due.size() > 1 ? random_.Below(due.size()) : 0;
  due[chosen]->Turn();
  return true;
}

bool SimWorld::Livelocked() {
  if (steps_at_this_instant_ < kLivelockSteps) return false;
  ADD_FAILURE() << "livelock: " << steps_at_this_instant_
                << " steps without time moving on from "
                << absl::FormatTime(now_, absl::UTCTimeZone());
  steps_at_this_instant_ = 0;
  return true;
}

bool SimWorld::RunUntil(const std::function<bool()>& done,
                        absl::Duration limit) {
  const absl::Time end = now_ + limit;
  while (!done()) {
    bool is_event = false;
    if (NextTime(&is_event) > end) {
      AdvanceTo(end);
      return done();
    }
    if (!Step() || Livelocked()) return done();
  }
  return true;
}

void SimWorld::RunFor(absl::Duration duration) {
  const absl::Time end = now_ + duration;
  RunUntil([] { return false; }, duration);
  AdvanceTo(end);
}

void SimWorld::Fold(uint64_t value) {
  for (int i = 0; i < 8; ++i) {
    trace_hash_ = (trace_hash_ ^ (value & 0xff)) * kHashPrime;
    value >>= 8;
  }
}

void SimWorld::Trace(absl::string_view what, uint64_t a, uint64_t b) {
  for (char c : what) Fold(static_cast<unsigned char>(c));
  Fold(static_cast<uint64_t>(absl::ToUnixNanos(now_)));
  Fold(a);
  Fold(b);
}

int SimWorld::Keep(KeptStream stream) {
  kept_[next_kept_] = std::move(stream);
  return next_kept_++;
}

SimWorld::KeptStream SimWorld::TakeKept(int descriptor) {
  const auto found = kept_.find(descriptor);
  if (found == kept_.end()) return {};
  KeptStream stream = std::move(found->second);
  kept_.erase(found);
  return stream;
}

}  // namespace skiff::testing
