#include "bench/protocol/measure_commands.h"

#include <chrono>
#include <cstdint>

#include "bench/protocol/count_allocations.h"

namespace skiff::protocol {
namespace {

// Pools and tables have their size then.
void WarmUp(CommandRunner* runner, bool write) {
  for (int i = 0; i < 100; ++i) runner->RunBatch(write);
}

double Commands(const benchmark::State& state, CommandRunner* runner) {
  return static_cast<double>(state.iterations()) * runner->batch().depth();
}

// Reports what MeasureCommands() says. False if it failed.
bool Run(benchmark::State& state, CommandRunner* runner, bool write) {
  if (!runner->failure().empty()) {
    state.SkipWithError(runner->failure().c_str());
    return false;
  }
  const ConnectionCounters initiator = runner->InitiatorCounters();
  const ConnectionCounters target = runner->TargetCounters();
  const uint64_t allocations = AllocationCount();
  for (auto _ : state) {
    if (runner->RunBatch(write)) continue;
    state.SkipWithError(runner->failure().c_str());
    return false;
  }
  const uint64_t allocated = AllocationCount() - allocations;
  const double commands = Commands(state, runner);
  const auto report = [&state, commands](const char* name, uint64_t sum) {
    state.counters[name] = static_cast<double>(sum) / commands;
  };
  const ConnectionCounters initiator_now = runner->InitiatorCounters();
  const ConnectionCounters target_now = runner->TargetCounters();
  report("allocations", allocated);
  report("initiator_copied",
         initiator_now.copied_bytes - initiator.copied_bytes);
  report("target_copied", target_now.copied_bytes - target.copied_bytes);
  report("registrations", initiator_now.registrations -
                              initiator.registrations +
                              target_now.registrations - target.registrations);
  state.SetItemsProcessed(static_cast<int64_t>(commands));
  return true;
}

}  // namespace

void MeasureCommands(benchmark::State& state, CommandRunner* runner,
                     bool write) {
  WarmUp(runner, write);
  Run(state, runner, write);
}

void MeasureShares(benchmark::State& state, SessionPair* pair, bool write) {
  WarmUp(pair, write);
  const SessionPair::Times before = pair->times();
  if (!Run(state, pair, write)) return;
  const double commands = Commands(state, pair);
  const auto report = [&state, commands](const char* name,
                                         std::chrono::nanoseconds sum) {
    state.counters[name] = static_cast<double>(sum.count()) / commands;
  };
  report("initiator_ns", pair->times().initiator - before.initiator);
  report("target_ns", pair->times().target - before.target);
  report("network_ns", pair->times().network - before.network);
}

}  // namespace skiff::protocol
