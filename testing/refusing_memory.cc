#include "testing/refusing_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

using Where = bool (*)();

std::atomic<uint32_t> refuse_every{0};
std::atomic<Where> refuse_where{nullptr};  // Null: those with std::nothrow.
std::atomic<uint32_t> asked{0};
std::atomic<uint64_t> refused{0};

bool Refuse(bool nothrow) {
  const uint32_t n = refuse_every.load(std::memory_order_relaxed);
  if (n == 0) return false;
  const Where where = refuse_where;
  if (where == nullptr ? !nothrow : !where()) return false;
  if (asked.fetch_add(1, std::memory_order_relaxed) % n != n - 1) return false;
  refused.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* Allocate(std::size_t size, std::size_t alignment) {
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    return std::malloc(size != 0 ? size : 1);
  }
  return std::aligned_alloc(alignment,
                            (size + alignment - 1) / alignment * alignment);
}

// After a handler that returns, there is memory.
void* AllocateOrThrow(std::size_t size, std::size_t alignment) {
  bool none = Refuse(/*nothrow=*/false);
  for (;;) {
    void* const memory = none ? nullptr : Allocate(size, alignment);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
    none = false;
  }
}

void* AllocateOrNull(std::size_t size, std::size_t alignment) noexcept {
  return Refuse(/*nothrow=*/true) ? nullptr : Allocate(size, alignment);
}

constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
std::size_t Of(std::align_val_t alignment) {
  return static_cast<std::size_t>(alignment);
}

}  // namespace

void* operator new(std::size_t size) { return AllocateOrThrow(size, kUsual); }
void* operator new[](std::size_t size) { return AllocateOrThrow(size, kUsual); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, Of(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, Of(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return AllocateOrNull(size, kUsual);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return AllocateOrNull(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return AllocateOrNull(size, Of(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace skiff::testing {

void RefuseEvery(uint32_t n) { RefuseAllEvery(n, nullptr); }

void RefuseAllEvery(uint32_t n, bool (*where)()) {
  asked = 0;
  refuse_where = where;
  refuse_every = n;
}

uint64_t RefusedAllocations() { return refused; }

}  // namespace skiff::testing
