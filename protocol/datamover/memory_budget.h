#ifndef SKIFF_PROTOCOL_DATAMOVER_MEMORY_BUDGET_H_
#define SKIFF_PROTOCOL_DATAMOVER_MEMORY_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace skiff::protocol {

// How many bytes all connections of a process may make it keep: data that came
// before there was a place for them, above all. Its users (BlockPool) keep what
// they charge for the next time, so that a steady load does not come here.
// Thread-safe; no locks.
class MemoryBudget {
 public:
  // What a budget has handed out, for operators.
  struct Use {
    uint64_t limit = 0;
    uint64_t charged = 0;  // Also what is kept as spare.
    uint64_t refused = 0;  // How often something did not fit.
    uint64_t lacking = 0;  // How often the system had no memory.
  };

  // Of what a process may use, unless it is said otherwise: a sixteenth, but
  // 512 MiB at most and 16 MiB at least.
  static constexpr uint64_t kFraction = 16;
  static constexpr uint64_t kMostByDefault = uint64_t{512} << 20;
  static constexpr uint64_t kLeastByDefault = uint64_t{16} << 20;
  // `usable` is the process's memory in bytes; zero: unknown.
  static uint64_t DefaultLimit(uint64_t usable);

  // `limit` in bytes.
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False: it does not fit any more, and nothing was charged. `first`: whoever
  // asks has nothing yet, and may have of an eighth more that is kept for that.
  bool Charge(uint64_t bytes, bool first = false);
  // For what a connection cannot do without.
  void ChargeAnyway(uint64_t bytes) {
    charged_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Exactly what was charged, once.
  void GiveBack(uint64_t bytes) {
    charged_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  // What may still be charged.
  uint64_t left() const {
    const uint64_t charged = charged_.load(std::memory_order_relaxed);
    return charged < limit_ ? limit_ - charged : 0;
  }
  // Whether there is anything for somebody who has nothing yet.
  bool any_left() const {
    return charged_.load(std::memory_order_relaxed) < limit_ + limit_ / 8;
  }
  // Of now; other threads change it meanwhile.
  Use use() const;

  // Memory of the system, or null when it has none.
  void* Allocate(size_t bytes);
  // The same of `budget`, or without any.
  static void* AllocateOf(MemoryBudget* budget, size_t bytes);
  // For tests: each `n`th Allocate() finds none. Zero: none of them.
  void RefuseEvery(uint32_t n) { refuse_every_ = n; }
  // For users that found out by left() that something does not fit.
  void CountRefused() { refused_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> charged_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> lacking_{0};
  std::atomic<uint32_t> refuse_every_{0};
  std::atomic<uint32_t> allocations_{0};
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_MEMORY_BUDGET_H_
