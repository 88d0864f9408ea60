#include "bench/protocol/measure_commands.h"

#include <chrono>
#include <cstdint>

#include "bench/protocol/count_allocations.h"

namespace skiff::protocol {

void MeasureCommands(benchmark::State& state, SessionPair* pair, bool write) {
  for (int i = 0; i < 100; ++i) pair->RunBatch(write);
  const SessionPair::Times times = pair->times();
  const ConnectionCounters initiator = pair->initiator_counters();
  const ConnectionCounters target = pair->target_counters();
  const uint64_t allocations = AllocationCount();
  for (auto _ : state) {
    if (pair->RunBatch(write)) continue;
    state.SkipWithError(pair->failure().c_str());
    return;
  }
  const auto commands =
      static_cast<double>(state.iterations()) * pair->options().queue_depth;
  const auto report = [&state, commands](const char* name, auto sum) {
    state.counters[name] = static_cast<double>(sum) / commands;
  };
  report("allocations", AllocationCount() - allocations);
  const auto report_time = [&report](const char* name,
                                     std::chrono::nanoseconds sum) {
    report(name, sum.count());
  };
  report_time("initiator_ns", pair->times().initiator - times.initiator);
  report_time("target_ns", pair->times().target - times.target);
  report_time("network_ns", pair->times().network - times.network);
  const ConnectionCounters initiator_now = pair->initiator_counters();
  const ConnectionCounters target_now = pair->target_counters();
  report("initiator_copied",
         initiator_now.copied_bytes - initiator.copied_bytes);
  report("target_copied", target_now.copied_bytes - target.copied_bytes);
  report("registrations", initiator_now.registrations -
                              initiator.registrations +
                              target_now.registrations - target.registrations);
  state.SetItemsProcessed(static_cast<int64_t>(commands));
}

}  // namespace skiff::protocol
