#include "bench/protocol/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SKIFF_COUNT_BY_HOOK 1
#include <sanitizer/allocator_interface.h>
#endif
#endif

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

#ifdef SKIFF_COUNT_BY_HOOK

// ThreadSanitizer's runtime defines the operators itself, and tells of them.
namespace {

const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) {
      allocations.fetch_add(1, std::memory_order_relaxed);
    },
    [](const volatile void*) {});

}  // namespace

#else

namespace {

void* Count(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return Count(size); }
void* operator new[](std::size_t size) { return Count(size); }
// Also these, which a sanitizer's runtime would take from elsewhere.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return Count(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return Count(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

#endif  // SKIFF_COUNT_BY_HOOK

namespace skiff::protocol {

uint64_t AllocationCount() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace skiff::protocol
