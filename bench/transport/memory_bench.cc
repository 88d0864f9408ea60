// What registered memory costs above the device: a hit and a miss of the
// registration cache, and a buffer of the pool.
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "bench/transport/null_domain.h"
#include "benchmark/benchmark.h"
#include "transport/memory/buffer_pool.h"
#include "transport/memory/registration_cache.h"

namespace skiff::transport {
namespace {

constexpr size_t kBuffer = 64 << 10;
constexpr size_t kLookups = 4096;

// Which of `regions` buffers are asked for, in an order that repeats.
std::vector<size_t> Order(size_t regions) {
  std::mt19937 random(1);
  std::vector<size_t> order(kLookups);
  for (size_t& index : order) index = random() % regions;
  return order;
}

void Run(benchmark::State& state, size_t max_regions) {
  const auto regions = static_cast<size_t>(state.range(0));
  std::vector<char> memory(regions * kBuffer);
  NullDomain domain;
  RegistrationCacheOptions options;
  options.max_regions = max_regions;
  RegistrationCache cache(&domain, options);
  const std::vector<size_t> order = Order(regions);
  for (size_t i = 0; i < regions; ++i) {
    if (!cache.Get(&memory[i * kBuffer], kBuffer, Access::kLocal).ok()) abort();
  }
  size_t next = 0;
  for (auto _ : state) {
    auto handle = cache.Get(&memory[order[next % kLookups] * kBuffer], kBuffer,
                            Access::kLocal);
    benchmark::DoNotOptimize(handle->region());
    ++next;
  }
  state.counters["misses"] = static_cast<double>(cache.statistics().misses);
}

void RegistrationCacheHit(benchmark::State& state) { Run(state, 1 << 20); }
BENCHMARK(RegistrationCacheHit)->Arg(1)->Arg(16)->Arg(256)->Arg(4096);

void RegistrationCacheMiss(benchmark::State& state) { Run(state, 1); }
BENCHMARK(RegistrationCacheMiss)->Arg(256);

void BufferPoolGetAndPut(benchmark::State& state) {
  NullDomain domain;
  auto pool = BufferPool::Create(&domain, {}).value();
  const auto held = static_cast<size_t>(state.range(0));
  std::vector<BufferPool::Buffer> buffers(held);
  size_t next = 0;
  for (auto _ : state) {
    BufferPool::Buffer& buffer = buffers[next++ % held];
    buffer = pool->Get();
    benchmark::DoNotOptimize(buffer.data());
  }
}
BENCHMARK(BufferPoolGetAndPut)->Arg(1)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace skiff::transport
