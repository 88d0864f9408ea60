#ifndef SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_
#define SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_

#include <benchmark/benchmark.h>

#include "bench/protocol/session_pair.h"

namespace skiff::protocol {

// Runs batch after batch, and reports of each command: how long it kept either
// side and the network, what it allocated, and what its datamovers copied and
// registered.
void MeasureCommands(benchmark::State& state, SessionPair* pair, bool write);

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_MEASURE_COMMANDS_H_
