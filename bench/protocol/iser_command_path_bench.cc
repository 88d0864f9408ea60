// What a command of iSER costs on its whole way, without a device, how much of
// that is the initiator's and the target's, and what is copied and registered.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/protocol/iser_command_path.h"
#include "bench/protocol/measure_commands.h"

namespace skiff::protocol {
namespace {

void Measure(benchmark::State& state, bool write, bool immediate_data) {
  SessionPair::Options options;
  options.bytes = static_cast<uint32_t>(state.range(0));
  options.queue_depth = static_cast<uint32_t>(state.range(1));
  options.offer.immediate_data = immediate_data;
  IserCommandPath path(options);
  MeasureShares(state, &path, write);
}

void BmIserRead(benchmark::State& state) { Measure(state, false, true); }
// Data of 4 KiB go with the command, those of 128 KiB are read by the target.
void BmIserWrite(benchmark::State& state) { Measure(state, true, true); }
void BmIserWriteNoImmediateData(benchmark::State& state) {
  Measure(state, true, false);
}

#define SKIFF_BENCH_PATH(function, name) \
  BENCHMARK(function)                    \
      ->Name("iser/" name)               \
      ->ArgNames({"bytes", "depth"})     \
      ->ArgsProduct({{4096, 131072}, {1, 32}})
SKIFF_BENCH_PATH(BmIserRead, "Read");
SKIFF_BENCH_PATH(BmIserWrite, "Write");
SKIFF_BENCH_PATH(BmIserWriteNoImmediateData, "WriteNoImmediateData");

}  // namespace
}  // namespace skiff::protocol
