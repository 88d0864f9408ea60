#ifndef SKIFF_TRANSPORT_REACTOR_IDLE_TIME_H_
#define SKIFF_TRANSPORT_REACTOR_IDLE_TIME_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace skiff::transport {

// How long an event loop had nothing to do. One thread writes, any may read.
class IdleTime {
 public:
  IdleTime() = default;
  IdleTime(const IdleTime&) = delete;
  IdleTime& operator=(const IdleTime&) = delete;

  // --- On the one thread.

  // Since Begin(), until End(); InfiniteFuture(): there is something to do.
  absl::Time since() const { return since_; }
  bool idle() const { return since_ != absl::InfiniteFuture(); }
  // Only while it is not idle.
  void Begin(absl::Time now) {
    since_ = now;
    Publish(total_ns_.load(kRelaxed), absl::ToUnixNanos(now));
  }
  // Only while it is.
  void End(absl::Time now) {
    const int64_t more = absl::ToInt64Nanoseconds(now - since_);
    since_ = absl::InfiniteFuture();
    Publish(total_ns_.load(kRelaxed) + std::max<int64_t>(more, 0), kNotIdle);
  }

  // --- On any thread.

  // With what there was until `now`, if it is idle.
  absl::Duration Total(absl::Time now) const {
    while (true) {
      const uint32_t before = version_.load(std::memory_order_acquire);
      const int64_t total = total_ns_.load(kRelaxed);
      const int64_t since = since_ns_.load(kRelaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 != 0 || version_.load(kRelaxed) != before) continue;
      const int64_t last =
          since == kNotIdle
              ? 0
              : std::max<int64_t>(absl::ToUnixNanos(now) - since, 0);
      return absl::Nanoseconds(total + last);
    }
  }

 private:
  static constexpr int64_t kNotIdle = -1;
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  // Both at once: whoever reads tries again while `version_` is odd.
  void Publish(int64_t total, int64_t since) {
    const uint32_t version = version_.load(kRelaxed);
    version_.store(version + 1, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    total_ns_.store(total, kRelaxed);
    since_ns_.store(since, kRelaxed);
    version_.store(version + 2, std::memory_order_release);
  }

  absl::Time since_ = absl::InfiniteFuture();
  std::atomic<uint32_t> version_{0};
  std::atomic<int64_t> total_ns_{0};
  std::atomic<int64_t> since_ns_{kNotIdle};
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_IDLE_TIME_H_
