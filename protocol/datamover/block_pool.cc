#include "protocol/datamover/block_pool.h"

#include <sanitizer/asan_interface.h>

#include <cassert>
#include <new>

namespace skiff::protocol {

// Spare blocks are out of bounds for AddressSanitizer, as freed memory is; but
// for what links them. (Without it the macros are empty.)

BlockPool::~BlockPool() {
  for (size_t size_class = 0; size_class < kClasses; ++size_class) {
    Spare* spare = spares_[size_class];
    while (spare != nullptr) {
      Spare* const next = spare->next;
      ASAN_UNPOISON_MEMORY_REGION(spare, BytesOf(size_class));
      ::operator delete(spare);
      spare = next;
    }
  }
}

BlockPool::Block BlockPool::Take(size_t bytes) {
  uint8_t size_class = 0;
  while (BytesOf(size_class) < bytes) ++size_class;
  assert(size_class < kClasses);
  Spare*& spare = spares_[size_class];
  void* memory = spare;
  if (memory != nullptr) {
    spare = spare->next;
    spare_bytes_ -= BytesOf(size_class);
    ASAN_UNPOISON_MEMORY_REGION(memory, BytesOf(size_class));
  } else {
    memory = ::operator new(BytesOf(size_class));
  }
  return {static_cast<uint8_t*>(memory), GiveBack{this, size_class}};
}

void BlockPool::Return(uint8_t* memory, uint8_t size_class) {
  const size_t bytes = BytesOf(size_class);
  if (spare_bytes_ + bytes > max_spare_bytes_) {
    ::operator delete(memory);
    return;
  }
  spares_[size_class] = new (memory) Spare{spares_[size_class]};
  spare_bytes_ += bytes;
  ASAN_POISON_MEMORY_REGION(memory + sizeof(Spare), bytes - sizeof(Spare));
}

}  // namespace skiff::protocol
