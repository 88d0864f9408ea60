#ifndef SKIFF_PROTOCOL_DATAMOVER_BLOCK_POOL_H_
#define SKIFF_PROTOCOL_DATAMOVER_BLOCK_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/datamover/memory_budget.h"

namespace skiff::protocol {

// Memory for data that have to be copied, in sizes of powers of two. Blocks
// that were given back serve again, so that a steady load allocates nothing.
// Bounded is what is kept for that; how much is out at once is its users'
// business, and the budget's. For one thread.
class BlockPool {
 public:
  struct GiveBack {
    BlockPool* pool = nullptr;
    uint8_t size_class = 0;
    void operator()(uint8_t* memory) const { pool->Return(memory, size_class); }
  };
  // Goes back when destroyed, which must be before the pool is.
  using Block = std::unique_ptr<uint8_t[], GiveBack>;

  // `budget` is charged with all that is out or spare. It is not owned and
  // outlives the pool; without one nothing is.
  explicit BlockPool(size_t max_spare_bytes, MemoryBudget* budget = nullptr)
      : max_spare_bytes_(max_spare_bytes), budget_(budget) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // At least `bytes` long, uninitialized. Null: the system has no memory.
  Block Take(size_t bytes) { return Take(bytes, Need::kUrgent); }
  // The same; null also where `bytes` do not fit the budget, or where whoever
  // asks has `held` of it already and not as much is left for others.
  Block TakeOfBudget(size_t bytes, size_t held);

  // Whether so much more may be taken, by the budget, by somebody who has
  // `held` of it. Who has nothing may begin while anything is left. Counts the
  // refusal if not.
  bool HasRoom(size_t bytes, size_t held);

  size_t spare_bytes() const { return spare_bytes_; }
  MemoryBudget* budget() const { return budget_; }

 private:
  static constexpr size_t kMinBytes = 512;
  // Data segments end below 16 MiB (24 bits), AHS and digests come on top.
  static constexpr size_t kClasses = 17;

 public:
  // Of one block.
  static constexpr size_t kMaxBytes = kMinBytes << (kClasses - 1);

 private:
  // What a spare block holds.
  struct Spare {
    Spare* next;
  };
  static constexpr size_t BytesOf(size_t size_class) {
    return kMinBytes << size_class;
  }

  // What goes beyond the budget, to its last part, or no further than it.
  enum class Need : uint8_t { kUrgent, kFirst, kMore };

  Block Take(size_t bytes, Need need);
  static size_t ClassFor(size_t bytes);
  void* Allocate(size_t bytes, Need need);
  void Free(void* memory, size_t bytes);
  void FreeSpares();
  void Return(uint8_t* memory, uint8_t size_class);

  const size_t max_spare_bytes_;
  MemoryBudget* const budget_;
  size_t spare_bytes_ = 0;
  std::array<Spare*, kClasses> spares_ = {};
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_BLOCK_POOL_H_
