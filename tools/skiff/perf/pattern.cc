#include "tools/skiff/perf/pattern.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "protocol/codec/digest.h"

namespace skiff::tools {
namespace {

constexpr uint64_t kMagic = 0x3154'4150'4646'4b53;  // "SKFFPAT1" in memory.

// What starts each block. Never leaves the machine that wrote it, but through a
// disk: its bytes are those of this machine.
struct Header {
  uint64_t magic;
  PatternTag tag;
  uint32_t size;
  uint32_t crc;  // Over the block with zero in this place.
};
static_assert(sizeof(Header) == 40);

// SplitMix64's finalizer: a different start for every tag.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint32_t BlockCrc(const Header& header, const uint8_t* block, size_t size) {
  Header without = header;
  without.crc = 0;
  uint32_t state =
      protocol::ExtendDigest(protocol::kDigestInit, &without, sizeof(without));
  state = protocol::ExtendDigest(state, block + sizeof(Header),
                                 size - sizeof(Header));
  return protocol::FinishDigest(state);
}

}  // namespace

void FillPattern(const PatternTag& tag, uint8_t* block, size_t size) {
  assert(size >= kMinPatternBytes && size % sizeof(uint64_t) == 0);
  const uint64_t start = Mix(tag.offset ^ Mix(tag.sequence ^ Mix(tag.run)));
  // An odd step visits 2^64 values before one repeats.
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  const size_t words = (size - sizeof(Header)) / sizeof(uint64_t);
  uint8_t* at = block + sizeof(Header);
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = start + i * kStep;
    std::memcpy(at + i * sizeof(word), &word, sizeof(word));
  }
  Header header = {kMagic, tag, static_cast<uint32_t>(size), 0};
  header.crc = BlockCrc(header, block, size);
  std::memcpy(block, &header, sizeof(header));
}

bool ReadPattern(const uint8_t* block, size_t size, PatternTag* tag) {
  Header header;
  std::memcpy(&header, block, sizeof(header));
  *tag = header.tag;
  return header.magic == kMagic && header.size == size &&
         header.crc == BlockCrc(header, block, size);
}

std::string ExplainPattern(const uint8_t* block, size_t size,
                           const PatternTag& expected, bool exact) {
  const std::string where = absl::StrCat("offset ", expected.offset, ": ");
  Header header;
  std::memcpy(&header, block, sizeof(header));
  if (header.magic != kMagic) {
    const bool zero =
        std::all_of(block, block + size, [](uint8_t b) { return b == 0; });
    return absl::StrCat(where,
                        zero ? "all zeroes" : "not a block written by perf",
                        exact ? "" : "; write the range with --verify first");
  }
  if (header.size != size) {
    return absl::StrCat(where, "written with --bs ", header.size,
                        ", read with ", size);
  }
  if (header.crc != BlockCrc(header, block, size)) {
    return absl::StrCat(
        where, "the checksum is wrong: the block, tagged offset ",
        header.tag.offset, " write ", header.tag.sequence, ", is damaged");
  }
  if (header.tag.offset != expected.offset) {
    return absl::StrCat(where, "holds the block of offset ", header.tag.offset);
  }
  if (exact && header.tag.run != expected.run) {
    return absl::StrCat(where,
                        "holds the block of an earlier run; the write "
                        "was lost");
  }
  if (exact && header.tag.sequence != expected.sequence) {
    return absl::StrCat(where, "holds write ", header.tag.sequence,
                        " instead of write ", expected.sequence);
  }
  return absl::StrCat(where, "intact");
}

}  // namespace skiff::tools
