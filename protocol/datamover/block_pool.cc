#include "protocol/datamover/block_pool.h"

#include <sanitizer/asan_interface.h>

#include <cassert>
#include <new>

namespace skiff::protocol {

// Spare blocks are out of bounds for AddressSanitizer, as freed memory is; but
// for what links them. (Without it the macros are empty.)

BlockPool::~BlockPool() { FreeSpares(); }

void BlockPool::FreeSpares() {
  for (size_t size_class = 0; size_class < kClasses; ++size_class) {
    Spare* spare = spares_[size_class];
    spares_[size_class] = nullptr;
    while (spare != nullptr) {
      Spare* const next = spare->next;
      ASAN_UNPOISON_MEMORY_REGION(spare, BytesOf(size_class));
      Free(spare, BytesOf(size_class));
      spare = next;
    }
  }
  spare_bytes_ = 0;
}

size_t BlockPool::ClassFor(size_t bytes) {
  size_t size_class = 0;
  while (BytesOf(size_class) < bytes) ++size_class;
  assert(size_class < kClasses);
  return size_class;
}

BlockPool::Block BlockPool::TakeOfBudget(size_t bytes, size_t held) {
  if (budget_ != nullptr) {
    const size_t size = BytesOf(ClassFor(bytes));
    if (held > 0 && held + size > budget_->left() + spare_bytes_) {
      budget_->CountRefused();
      return {nullptr, GiveBack{}};
    }
  }
  return Take(bytes, held == 0 ? Need::kFirst : Need::kMore);
}

bool BlockPool::HasRoom(size_t bytes, size_t held) {
  if (budget_ == nullptr) return true;
  const bool room = held == 0 ? budget_->any_left() || spare_bytes_ >= bytes
                              : held + bytes <= budget_->left() + spare_bytes_;
  if (!room) budget_->CountRefused();
  return room;
}

BlockPool::Block BlockPool::Take(size_t bytes, Need need) {
  const auto size_class = static_cast<uint8_t>(ClassFor(bytes));
  void* memory = spares_[size_class];
  if (memory != nullptr) {
    spares_[size_class] = spares_[size_class]->next;
    spare_bytes_ -= BytesOf(size_class);
    ASAN_UNPOISON_MEMORY_REGION(memory, BytesOf(size_class));
  } else {
    memory = Allocate(BytesOf(size_class), need);
  }
  return {static_cast<uint8_t*>(memory), GiveBack{this, size_class}};
}

void* BlockPool::Allocate(size_t bytes, Need need) {
  if (budget_ == nullptr) return MemoryBudget::AllocateOf(nullptr, bytes);
  const bool first = need == Need::kFirst;
  if (need == Need::kUrgent) {
    budget_->ChargeAnyway(bytes);
  } else if (!budget_->Charge(bytes, first)) {
    // Spares of other sizes may be in the way.
    FreeSpares();
    if (!budget_->Charge(bytes, first)) {
      budget_->CountRefused();
      return nullptr;
    }
  }
  void* memory = budget_->Allocate(bytes);
  if (memory == nullptr && spare_bytes_ > 0) {
    FreeSpares();
    memory = budget_->Allocate(bytes);
  }
  if (memory == nullptr) budget_->GiveBack(bytes);
  return memory;
}

void BlockPool::Free(void* memory, size_t bytes) {
  ::operator delete(memory);
  if (budget_ != nullptr) budget_->GiveBack(bytes);
}

void BlockPool::Return(uint8_t* memory, uint8_t size_class) {
  const size_t bytes = BytesOf(size_class);
  if (spare_bytes_ + bytes > max_spare_bytes_) return Free(memory, bytes);
  spares_[size_class] = new (memory) Spare{spares_[size_class]};
  spare_bytes_ += bytes;
  ASAN_POISON_MEMORY_REGION(memory + sizeof(Spare), bytes - sizeof(Spare));
}

}  // namespace skiff::protocol
