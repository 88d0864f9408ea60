#include "transport/system/spare_memory.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "transport/log/log.h"

namespace skiff::transport {
namespace {

constexpr absl::Duration kLogInterval = absl::Seconds(10);

struct Block {
  Block* next;
};

// Blocks are small, so that the system's allocator keeps them together, and
// joins those that it gets back one after the other.
struct Store {
  std::mutex mutex;
  Block* first = nullptr;
  uint32_t blocks = 0;
  uint32_t least_for_peers = 0;  // What a Watch leaves.
  std::new_handler before = nullptr;
  absl::Time told = absl::InfinitePast();

  bool Add() {
    void* const memory = std::malloc(SpareMemory::kBlockBytes);
    if (memory == nullptr) return false;
    // The system has it only once it was written.
    std::memset(memory, 1, SpareMemory::kBlockBytes);
    first = new (memory) Block{first};
    ++blocks;
    return true;
  }
};

// Never destroyed: destructors of static objects allocate, too.
Store& TheStore() {
  alignas(Store) static unsigned char memory[sizeof(Store)];
  static Store* const kStore = new (memory) Store;
  return *kStore;
}

}  // namespace

std::atomic<uint32_t> SpareMemory::missing_blocks{0};
constinit thread_local uint32_t SpareMemory::used_here = 0;
constinit thread_local uint32_t SpareMemory::watches_here = 0;
constinit thread_local uint32_t SpareMemory::excluded_here = 0;

void SpareMemory::Keep(size_t bytes) {
  Store& store = TheStore();
  const auto wanted = static_cast<uint32_t>(bytes / kBlockBytes);
  {
    const std::lock_guard<std::mutex> lock(store.mutex);
    assert(store.blocks == 0 && missing_blocks == 0);
    store.least_for_peers = wanted / 4;
    while (store.blocks < wanted && store.Add()) {
    }
    missing_blocks = wanted - store.blocks;
  }
  store.before = std::set_new_handler(&SpareMemory::Handle);
}

// [new.handler]: more memory, or std::bad_alloc.
void SpareMemory::Handle() {
  if (Give()) return;
  if (TheStore().before == nullptr) throw std::bad_alloc();
  TheStore().before();
}

bool SpareMemory::Give() {
  if (excluded_here > 0) return false;
  Store& store = TheStore();
  const std::lock_guard<std::mutex> lock(store.mutex);
  const uint32_t kept = watches_here > 0 ? store.least_for_peers : 0;
  if (store.blocks <= kept) return false;
  Block* const block = store.first;
  store.first = block->next;
  --store.blocks;
  std::free(block);
  ++used_here;
  ++missing_blocks;
  return true;
}

void SpareMemory::RefillMissing() {
  Store& store = TheStore();
  uint32_t again = 0;
  bool tell = false;
  uint32_t missing = 0;
  {
    const std::lock_guard<std::mutex> lock(store.mutex);
    while (missing_blocks > 0 && store.Add()) {
      --missing_blocks;
      ++again;
    }
    missing = missing_blocks;
    const absl::Time now = absl::Now();
    tell = again > 0 && now - store.told >= kLogInterval;
    if (tell) store.told = now;
  }
  if (!tell) return;
  LogToProcess(
      LogLevel::kError,
      absl::StrCat(
          "the system had no memory left: what was set aside for that "
          "was used, and connections that asked for more end; ",
          missing == 0 ? "it is there again" : "some of it is still missing"));
}

}  // namespace skiff::transport
