#ifndef SKIFF_TESTING_REFUSING_MEMORY_H_
#define SKIFF_TESTING_REFUSING_MEMORY_H_

#include <cstdint>

namespace skiff::testing {

// A system that runs out of memory, for whatever asks in a way that may be
// refused: the library replaces `operator new` with std::nothrow in the program
// that links it. That is all of what peers can make large.

// From now on each `n`th of these allocations finds none. Zero: none of them.
void RefuseEvery(uint32_t n);
// How many were refused so far.
uint64_t RefusedAllocations();

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_REFUSING_MEMORY_H_
