#include "protocol/datamover/memory_budget.h"

#include <algorithm>
#include <new>

#include "transport/system/spare_memory.h"

namespace skiff::protocol {

uint64_t MemoryBudget::DefaultLimit(uint64_t usable) {
  if (usable == 0) return kMostByDefault;
  return std::clamp(usable / kFraction, kLeastByDefault, kMostByDefault);
}

bool MemoryBudget::Charge(uint64_t bytes, bool first) {
  const uint64_t limit = first ? limit_ + limit_ / 8 : limit_;
  const uint64_t before = charged_.fetch_add(bytes, std::memory_order_relaxed);
  if (before < limit && bytes <= limit - before) return true;
  charged_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

MemoryBudget::Use MemoryBudget::use() const {
  return {.limit = limit_,
          .charged = charged_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .lacking = lacking_.load(std::memory_order_relaxed)};
}

void* MemoryBudget::AllocateOf(MemoryBudget* budget, size_t bytes) {
  if (budget != nullptr) return budget->Allocate(bytes);
  const transport::SpareMemory::NotForThis not_for_this;
  return ::operator new(bytes, std::nothrow);
}

void* MemoryBudget::Allocate(size_t bytes) {
  const uint32_t refuse_every = refuse_every_.load(std::memory_order_relaxed);
  const bool refuse =
      refuse_every > 0 &&
      allocations_.fetch_add(1, std::memory_order_relaxed) % refuse_every ==
          refuse_every - 1;
  const transport::SpareMemory::NotForThis not_for_this;
  void* const memory = refuse ? nullptr : ::operator new(bytes, std::nothrow);
  if (memory == nullptr) lacking_.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace skiff::protocol
