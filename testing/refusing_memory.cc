#include "testing/refusing_memory.h"

#include <atomic>
#include <cstddef>
#include <new>

namespace {

std::atomic<uint32_t> refuse_every{0};
std::atomic<uint32_t> asked{0};
std::atomic<uint64_t> refused{0};

bool Refuse() {
  const uint32_t n = refuse_every.load(std::memory_order_relaxed);
  if (n == 0 || asked.fetch_add(1, std::memory_order_relaxed) % n != n - 1) {
    return false;
  }
  refused.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace

void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Refuse() ? nullptr : ::operator new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Refuse() ? nullptr : ::operator new[](size);
}
void* operator new(std::size_t size, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return Refuse() ? nullptr : ::operator new(size, alignment);
}

namespace skiff::testing {

void RefuseEvery(uint32_t n) {
  asked = 0;
  refuse_every = n;
}

uint64_t RefusedAllocations() { return refused; }

}  // namespace skiff::testing
