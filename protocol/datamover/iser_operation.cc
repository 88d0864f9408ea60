#include "protocol/datamover/iser_operation.h"

namespace skiff::protocol {

// The first of a chunk is used first.
void IserOperationPool::Grow() {
  const auto first = static_cast<uint32_t>(chunks_.size() * kChunk);
  chunks_.push_back(std::make_unique<Chunk>());
  Chunk& chunk = *chunks_.back();
  for (uint32_t i = kChunk; i-- > 0;) {
    chunk[i].id.index = first + i;
    chunk[i].next = free_;
    free_ = &chunk[i];
  }
}

}  // namespace skiff::protocol
