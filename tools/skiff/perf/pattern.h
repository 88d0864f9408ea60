#ifndef SKIFF_TOOLS_SKIFF_PERF_PATTERN_H_
#define SKIFF_TOOLS_SKIFF_PERF_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace skiff::tools {

// Blocks that prove themselves: each says where it belongs, which write it came
// from, and carries a CRC32C over all of it. No two blocks, and no two places
// in a block, have equal contents, so a piece that is lost, swapped, shifted,
// torn or stale is found.
struct PatternTag {
  uint64_t offset = 0;    // In bytes, in the logical unit.
  uint64_t sequence = 0;  // Counts the writes of a run.
  uint64_t run = 0;       // Tells runs apart.

  friend bool operator==(const PatternTag& a, const PatternTag& b) {
    return a.offset == b.offset && a.sequence == b.sequence && a.run == b.run;
  }
};

inline constexpr size_t kMinPatternBytes = 512;

// Fills a block; `size` is a multiple of 8, at least kMinPatternBytes.
void FillPattern(const PatternTag& tag, uint8_t* block, size_t size);

// True when the block is intact; `*tag` is then the one it was filled with.
bool ReadPattern(const uint8_t* block, size_t size, PatternTag* tag);

// Why a block is not the one that was expected, for people. `expected` names at
// least the offset; without `exact`, any run and sequence will do.
std::string ExplainPattern(const uint8_t* block, size_t size,
                           const PatternTag& expected, bool exact);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PERF_PATTERN_H_
