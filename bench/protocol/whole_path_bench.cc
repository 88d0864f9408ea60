// What a command of iSER costs from the initiator to the disk and back, both
// ends in one thread, over the simulated network and over libfabric's provider
// `tcp`; and what is copied and registered for it. Their networks are most of
// the time: see iser_command_path_bench for what the ends take.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/protocol/measure_commands.h"
#include "bench/protocol/whole_path.h"

namespace skiff::protocol {
namespace {

using Network = WholePath::Network;

void Measure(benchmark::State& state, bool write, WholePath::Options options) {
  options.bytes = static_cast<uint32_t>(state.range(0));
  options.queue_depth = static_cast<uint32_t>(state.range(1));
  WholePath path(options);
  MeasureCommands(state, &path, write);
}

void Read(benchmark::State& state, Network network) {
  Measure(state, false, {.network = network});
}
// Data of 4 KiB go with the command, those of 128 KiB are read by the target.
void Write(benchmark::State& state, Network network) {
  Measure(state, true, {.network = network});
}
void WriteNoImmediateData(benchmark::State& state, Network network) {
  Measure(state, true, {.network = network, .immediate_data = false});
}
// libfabric has no memory windows.
void ReadLastingKeys(benchmark::State& state, Network network) {
  Measure(state, false, {.network = network, .lasting_keys = true});
}

// Bytes of a command, queue depth.
#define SKIFF_BENCH_PATH(name, network)              \
  BENCHMARK_CAPTURE(name, network, Network::network) \
      ->ArgsProduct({{4096, 131072}, {1, 32}})
SKIFF_BENCH_PATH(Read, kSimulated);
SKIFF_BENCH_PATH(Write, kSimulated);
SKIFF_BENCH_PATH(WriteNoImmediateData, kSimulated);
SKIFF_BENCH_PATH(Read, kLibfabricTcp);
SKIFF_BENCH_PATH(Write, kLibfabricTcp);
SKIFF_BENCH_PATH(WriteNoImmediateData, kLibfabricTcp);
SKIFF_BENCH_PATH(ReadLastingKeys, kLibfabricTcp);

}  // namespace
}  // namespace skiff::protocol
