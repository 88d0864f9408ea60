#ifndef SKIFF_PROTOCOL_DATAMOVER_TASK_CHUNKS_H_
#define SKIFF_PROTOCOL_DATAMOVER_TASK_CHUNKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "protocol/datamover/datamover.h"
#include "protocol/datamover/memory_budget.h"

namespace skiff::protocol {

// The tasks of a connection by their slots. Grown by chunks, so that an idle
// connection stays small; a peer decides how many there are, so that a lack of
// memory is no more than a refusal. They do not move.
template <typename Task, uint32_t kChunk>
class TaskChunks {
 public:
  void SetMaxTasks(uint32_t max_tasks) {
    chunks_.resize((max_tasks + kChunk - 1) / kChunk);
  }

  // Makes room for the task in `slot`, and its neighbours. False: there is no
  // memory. `budget` only counts that; it may be null.
  [[nodiscard]] bool Reserve(TaskSlot slot, MemoryBudget* budget) {
    std::unique_ptr<Chunk>& chunk = chunks_[slot / kChunk];
    if (chunk != nullptr) [[likely]] {
      return true;
    }
    static_assert(alignof(Chunk) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    void* const memory = MemoryBudget::AllocateOf(budget, sizeof(Chunk));
    if (memory == nullptr) return false;
    chunk.reset(new (memory) Chunk());
    return true;
  }
  bool Has(TaskSlot slot) const { return chunks_[slot / kChunk] != nullptr; }

  // Of a slot that there is room for.
  Task& operator[](TaskSlot slot) {
    return (*chunks_[slot / kChunk])[slot % kChunk];
  }
  const Task& operator[](TaskSlot slot) const {
    return (*chunks_[slot / kChunk])[slot % kChunk];
  }

  // Calls `visit` for each task that there is room for.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (const std::unique_ptr<Chunk>& chunk : chunks_) {
      if (chunk == nullptr) continue;
      for (Task& task : *chunk) visit(&task);
    }
  }

 private:
  using Chunk = std::array<Task, kChunk>;

  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_TASK_CHUNKS_H_
