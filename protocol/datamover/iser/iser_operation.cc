#include "protocol/datamover/iser/iser_operation.h"

#include <memory>
#include <new>
#include <utility>

#include "transport/system/spare_memory.h"

namespace skiff::protocol {

// The first of a chunk is used first.
bool IserOperationPool::Grow() {
  const auto first = static_cast<uint32_t>(size_);
  std::unique_ptr<Chunk> memory;
  {
    const transport::SpareMemory::NotForThis not_for_this;
    memory.reset(new (std::nothrow) Chunk());
  }
  if (memory == nullptr) return false;
  chunks_.push_back(std::move(memory));
  size_ += kChunk;
  Chunk& chunk = *chunks_.back();
  for (uint32_t i = kChunk; i-- > 0;) {
    chunk[i].id.index = first + i;
    chunk[i].next = free_;
    free_ = &chunk[i];
  }
  return true;
}

}  // namespace skiff::protocol
