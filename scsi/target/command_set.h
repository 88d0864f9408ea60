#ifndef SKIFF_SCSI_TARGET_COMMAND_SET_H_
#define SKIFF_SCSI_TARGET_COMMAND_SET_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "scsi/target/access_policy.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// One command, or one service action of one. The same table dispatches, checks
// CDBs, and answers REPORT SUPPORTED OPERATION CODES.
struct CommandInfo {
  enum Flag : uint8_t {
    kNone = 0,
    // Implemented by the REPORT LUNS well-known logical unit too.
    kWellKnown = 1,
    // Answered although no logical unit is there.
    kAnyLun = 2,
    // Not terminated by a pending unit attention (SPC-4 section 5.x, SAM-5
    // section 5.14.1).
    kIgnoresUnitAttention = 4,
    // Only on thin provisioned media.
    kThin = 8,
    // Counted as reads, or writes (CommandCounts).
    kReads = 16,
    kWrites = 32,
  };
  static constexpr int kNoServiceAction = -1;

  uint8_t opcode;
  int service_action;
  uint8_t length;  // Of the CDB.
  uint8_t flags;
  AccessClass access;
  // CDB USAGE DATA (SPC-4 section 6.35.3): the bits that are looked at. Any
  // other bit set makes the CDB invalid, unless it is in `ignored`.
  std::array<uint8_t, 16> usage;
  // Bits that are accepted and change nothing: retired ones, which senders of
  // old still set, and those that ask for, or allow, what is not done here.
  std::array<uint8_t, 16> ignored;
  void (*start)(LuNexus& lu, Task* task);

  Task::Kind kind() const {
    static_assert(static_cast<int>(Task::Kind::kRead) == kReads >> 4 &&
                  static_cast<int>(Task::Kind::kWrite) == kWrites >> 4);
    return static_cast<Task::Kind>(flags >> 4);
  }
};

// The commands of a target's logical units, and what dispatch and validation
// read for each. The device server gets them from whoever makes the target: it
// knows no command by name.
class CommandSet {
 public:
  // Ordered by operation code and service action. Must outlive the set.
  constexpr explicit CommandSet(absl::Span<const CommandInfo> commands)
      : commands_(commands) {
    static_assert(std::endian::native == std::endian::little);
    for (size_t i = 0; i < commands.size(); ++i) {
      const CommandInfo& c = commands[i];
      if (c.usage[0] != c.opcode) UsageDoesNotBeginWithTheOpcode();
      if (i > 0 && !IsBefore(commands[i - 1], c)) RowsAreOutOfOrder();
      if (first_[c.opcode] == 0) {
        first_[c.opcode] = static_cast<uint8_t>(i + 1);
      }
      for (size_t byte = 0; byte < c.length; ++byte) {
        const uint8_t invalid =
            static_cast<uint8_t>(~(c.usage[byte] | c.ignored[byte]));
        invalid_[i][byte / 8] |= uint64_t{invalid} << (byte % 8 * 8);
      }
    }
  }

  absl::Span<const CommandInfo> all() const { return commands_; }

  // The command for a CDB; null when there is none. `*opcode_known` tells
  // whether only the service action is unknown.
  const CommandInfo* Find(const uint8_t* cdb, bool* opcode_known) const;

  // The first bit of the CDB that must not be set, as byte * 8 + bit; -1: none.
  // `info` is one of the set.
  int FirstInvalidBit(const CommandInfo& info, const uint8_t* cdb) const;

 private:
  static constexpr size_t kMaxCommands = 64;

  static constexpr bool IsBefore(const CommandInfo& a, const CommandInfo& b) {
    return a.opcode != b.opcode ? a.opcode < b.opcode
                                : a.service_action < b.service_action;
  }
  // Reached while compiling, where neither can be called: the error names it.
  static void RowsAreOutOfOrder() {}
  static void UsageDoesNotBeginWithTheOpcode() {}

  const absl::Span<const CommandInfo> commands_;
  // The index of the first with the operation code, plus one.
  uint8_t first_[256] = {};
  // The bits that must not be set, as two machine words.
  uint64_t invalid_[kMaxCommands][2] = {};
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMAND_SET_H_
