#ifndef SKIFF_BENCH_PROTOCOL_COUNT_ALLOCATIONS_H_
#define SKIFF_BENCH_PROTOCOL_COUNT_ALLOCATIONS_H_

#include <cstdint>

namespace skiff::protocol {

// Calls of operator new in this program, which count_allocations.cc replaces.
uint64_t AllocationCount();

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_COUNT_ALLOCATIONS_H_
