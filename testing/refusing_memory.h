#ifndef SKIFF_TESTING_REFUSING_MEMORY_H_
#define SKIFF_TESTING_REFUSING_MEMORY_H_

#include <cstdint>

namespace skiff::testing {

// A system that runs out of memory: the library replaces `operator new` in the
// program that links it. A refusal is what the standard says: the new-handler
// is called if there is one, and else std::bad_alloc thrown. With std::nothrow
// it is a null pointer.

// For what asks in a way that may be refused, which is all of what peers can
// make large: from now on each `n`th of the allocations with std::nothrow finds
// none. Zero: none of them.
void RefuseEvery(uint32_t n);
// The same for all allocations, of whatever kind, while `where` says so; it may
// not allocate.
void RefuseAllEvery(uint32_t n, bool (*where)());
// How many were refused so far.
uint64_t RefusedAllocations();

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_REFUSING_MEMORY_H_
