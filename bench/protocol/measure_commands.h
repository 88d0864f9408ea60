#ifndef SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_
#define SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_

#include <benchmark/benchmark.h>

#include "bench/protocol/command_batch.h"
#include "bench/protocol/session_pair.h"

namespace skiff::protocol {

// Runs batch after batch, and reports of each command what its datamovers
// copied and registered, and what both ends (and the network) allocated.
void MeasureCommands(benchmark::State& state, CommandRunner* runner,
                     bool write);
// Also how long it kept either side and the network.
void MeasureShares(benchmark::State& state, SessionPair* pair, bool write);

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_
