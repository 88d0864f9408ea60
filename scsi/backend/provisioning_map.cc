#include "scsi/backend/provisioning_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace skiff::scsi {

ProvisioningMap::~ProvisioningMap() {
  if (words_ != nullptr) munmap(words_, bytes_);
}

absl::Status ProvisioningMap::Init(uint64_t granules) {
  assert(words_ == nullptr);
  const size_t bytes =
      (granules + kWordBits - 1) / kWordBits * sizeof(uint64_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot map ", bytes,
                            " bytes for the provisioning map of a medium"));
  }
  words_ = static_cast<uint64_t*>(memory);
  bytes_ = bytes;
  granules_ = granules;
  return absl::OkStatus();
}

template <typename Update>
void ProvisioningMap::ForEachWord(uint64_t first, uint64_t count,
                                  Update update) {
  assert(first <= granules_ && count <= granules_ - first);
  while (count > 0) {
    const uint64_t bit = first % kWordBits;
    const uint64_t bits = std::min(count, kWordBits - bit);
    const uint64_t mask = (~uint64_t{0} >> (kWordBits - bits)) << bit;
    update(Word(first / kWordBits), mask);
    first += bits;
    count -= bits;
  }
}

void ProvisioningMap::Set(uint64_t first, uint64_t count) {
  ForEachWord(first, count, [](std::atomic_ref<uint64_t> word, uint64_t mask) {
    if ((word.load(std::memory_order_relaxed) & mask) == mask) return;
    word.fetch_or(mask, std::memory_order_relaxed);
  });
}

void ProvisioningMap::Clear(uint64_t first, uint64_t count) {
  ForEachWord(first, count, [](std::atomic_ref<uint64_t> word, uint64_t mask) {
    if ((word.load(std::memory_order_relaxed) & mask) == 0) return;
    word.fetch_and(~mask, std::memory_order_relaxed);
  });
}

bool ProvisioningMap::IsSet(uint64_t granule) const {
  assert(granule < granules_);
  return (Word(granule / kWordBits).load(std::memory_order_relaxed) >>
          (granule % kWordBits)) &
         1;
}

uint64_t ProvisioningMap::RunLength(uint64_t first, uint64_t limit) const {
  assert(first < granules_);
  limit = std::min(limit, granules_ - first);
  const uint64_t same = IsSet(first) ? ~uint64_t{0} : 0;
  uint64_t run = 0;
  while (run < limit) {
    const uint64_t at = first + run;
    const uint64_t bit = at % kWordBits;
    // Ones where the state differs from that of `first`.
    const uint64_t differs =
        (Word(at / kWordBits).load(std::memory_order_relaxed) ^ same) >> bit;
    if (differs != 0) {
      return std::min<uint64_t>(run + std::countr_zero(differs), limit);
    }
    run += kWordBits - bit;
  }
  return limit;
}

}  // namespace skiff::scsi
