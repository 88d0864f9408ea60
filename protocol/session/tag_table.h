#ifndef SKIFF_PROTOCOL_SESSION_TAG_TABLE_H_
#define SKIFF_PROTOCOL_SESSION_TAG_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/datamover/datamover.h"

namespace skiff::protocol {

// Initiator Task Tag -> task slot, for the live tasks of one session. Open
// addressing over a table that doubles at half full and never shrinks; tags are
// the peer's choice, so the hash is keyed with a secret of ours to keep chains
// short.
class TagTable {
 public:
  explicit TagTable(uint64_t secret)
      : secret_(secret | 1), entries_(kInitialSize) {}

  TaskSlot Find(uint32_t tag) const {
    for (size_t i = Home(tag);; i = Next(i)) {
      if (entries_[i].slot == kNoTask) return kNoTask;
      if (entries_[i].tag == tag) return entries_[i].slot;
    }
  }

  // `tag` must not be in the table.
  void Insert(uint32_t tag, TaskSlot slot) {
    if (++size_ * 2 > mask_) Grow();
    Place(tag, slot);
  }

  // `tag` must be in the table. Shifts the rest of the chain back: no
  // tombstones.
  void Erase(uint32_t tag) {
    size_t hole = Home(tag);
    while (entries_[hole].tag != tag || entries_[hole].slot == kNoTask)
      hole = Next(hole);
    for (size_t i = Next(hole); entries_[i].slot != kNoTask; i = Next(i)) {
      const size_t home = Home(entries_[i].tag);
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole].slot = kNoTask;
    --size_;
  }

  size_t size() const { return size_; }

 private:
  static constexpr size_t kInitialSize = 64;
  struct Entry {
    uint32_t tag = 0;
    TaskSlot slot = kNoTask;
  };

  size_t Home(uint32_t tag) const {
    return static_cast<size_t>((tag * secret_) >> 40) & mask_;
  }
  size_t Next(size_t i) const { return (i + 1) & mask_; }
  void Place(uint32_t tag, TaskSlot slot) {
    size_t i = Home(tag);
    while (entries_[i].slot != kNoTask) i = Next(i);
    entries_[i] = {tag, slot};
  }
  void Grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    mask_ = entries_.size() - 1;
    for (const Entry& entry : old) {
      if (entry.slot != kNoTask) Place(entry.tag, entry.slot);
    }
  }

  const uint64_t secret_;
  std::vector<Entry> entries_;
  size_t mask_ = kInitialSize - 1;  // Of an index: one less than its size.
  size_t size_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TAG_TABLE_H_
