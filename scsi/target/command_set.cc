#include "scsi/target/command_set.h"

#include <cstring>

namespace skiff::scsi {

const CommandInfo* CommandSet::Find(const uint8_t* cdb,
                                    bool* opcode_known) const {
  const uint8_t first = first_[cdb[0]];
  *opcode_known = first != 0;
  if (first == 0) return nullptr;
  const CommandInfo* info = &commands_[first - 1];
  if (info->service_action == CommandInfo::kNoServiceAction) return info;
  const CommandInfo* const end = commands_.data() + commands_.size();
  for (; info != end && info->opcode == cdb[0]; ++info) {
    if (info->service_action == (cdb[1] & 0x1f)) return info;
  }
  return nullptr;
}

int CommandSet::FirstInvalidBit(const CommandInfo& info,
                                const uint8_t* cdb) const {
  const uint64_t(&invalid)[2] = invalid_[&info - commands_.data()];
  uint64_t words[2];
  std::memcpy(words, cdb, sizeof words);
  if (((words[0] & invalid[0]) | (words[1] & invalid[1])) == 0) [[likely]] {
    return -1;
  }
  // The first byte in error, and the most significant bit in it (SPC-4 section
  // 4.5.2.4.2).
  for (int byte = 0;; ++byte) {
    const uint8_t wrong =
        static_cast<uint8_t>(cdb[byte] & (invalid[byte / 8] >> (byte % 8 * 8)));
    if (wrong != 0) return byte * 8 + std::bit_width(wrong) - 1;
  }
}

}  // namespace skiff::scsi
