// What a command costs on its whole way, without system calls, and how much of
// that is the initiator's.

#include <benchmark/benchmark.h>

#include "bench/protocol/command_path.h"
#include "bench/protocol/measure_commands.h"

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
  MeasureShares(state, &path, write);
}

void BmRead(benchmark::State& state) { Measure(state, false, false); }
void BmWrite(benchmark::State& state) { Measure(state, true, false); }
void BmReadDigests(benchmark::State& state) { Measure(state, false, true); }
void BmWriteDigests(benchmark::State& state) { Measure(state, true, true); }

#define SKIFF_BENCH_PATH(function, name) \
  BENCHMARK(function)                    \
      ->Name("iscsi/" name)              \
      ->ArgNames({"bytes", "depth"})     \
      ->Args({4096, 1})                  \
      ->Args({4096, 32})                 \
      ->Args({131072, 8})
SKIFF_BENCH_PATH(BmRead, "Read");
SKIFF_BENCH_PATH(BmWrite, "Write");
SKIFF_BENCH_PATH(BmReadDigests, "ReadDigests");
SKIFF_BENCH_PATH(BmWriteDigests, "WriteDigests");

}  // namespace
}  // namespace skiff::protocol
