// What a command costs on its whole way, without system calls, and how much of
// that is the initiator's.

#include <benchmark/benchmark.h>

#include "bench/protocol/command_path.h"
#include "bench/protocol/count_allocations.h"

namespace skiff::protocol {
namespace {

void Measure(benchmark::State& state, bool write, bool digests) {
  CommandPath::Options options;
  options.bytes = static_cast<uint32_t>(state.range(0));
  options.queue_depth = static_cast<uint32_t>(state.range(1));
  if (digests) {
    options.offer.header_digest = {Digest::kCrc32c};
    options.offer.data_digest = {Digest::kCrc32c};
  }
  CommandPath path(options);
  for (int i = 0; i < 100; ++i) path.RunBatch(write);
  const CommandPath::Times before = path.times();
  const uint64_t allocations = AllocationCount();
  for (auto _ : state) {
    if (path.RunBatch(write)) continue;
    state.SkipWithError(path.failure().c_str());
    return;
  }
  const auto commands =
      static_cast<double>(state.iterations()) * options.queue_depth;
  const CommandPath::Times& after = path.times();
  state.SetItemsProcessed(static_cast<int64_t>(commands));
  state.counters["initiator_ns"] =
      static_cast<double>((after.initiator - before.initiator).count()) /
      commands;
  state.counters["target_ns"] =
      static_cast<double>((after.target - before.target).count()) / commands;
  state.counters["copy_ns"] =
      static_cast<double>((after.network - before.network).count()) / commands;
  state.counters["allocations"] =
      static_cast<double>(AllocationCount() - allocations) / commands;
}

void BmRead(benchmark::State& state) { Measure(state, false, false); }
void BmWrite(benchmark::State& state) { Measure(state, true, false); }
void BmReadDigests(benchmark::State& state) { Measure(state, false, true); }
void BmWriteDigests(benchmark::State& state) { Measure(state, true, true); }

// Bytes of a command, queue depth.
#define SKIFF_BENCH_PATH(name) \
  BENCHMARK(name)->Args({4096, 1})->Args({4096, 32})->Args({131072, 8})
SKIFF_BENCH_PATH(BmRead);
SKIFF_BENCH_PATH(BmWrite);
SKIFF_BENCH_PATH(BmReadDigests);
SKIFF_BENCH_PATH(BmWriteDigests);

}  // namespace
}  // namespace skiff::protocol
