#ifndef SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

// The Datamover Interface of RFC 5047: sessions say *what* moves, a datamover
// knows *how*. Over a byte stream, GetData becomes R2T and Data-Out, PutData
// becomes Data-In; over RDMA they become one-sided reads and writes. A session
// never asks which one it has. Sans-IO: no sockets, threads or clocks; one
// reactor.
//
// Each role has an interface (initiator_datamover.h, target_datamover.h), so
// that no call exists that a role may not make. Here are the words of both.
//
// Tasks are named by slot: a small dense index that the session chose and that
// stays taken until the datamover has no use for it any more (TaskDone). On the
// initiator the Initiator Task Tag is made by MakeTag(slot, generation).

namespace skiff::protocol {

using TaskSlot = uint32_t;
inline constexpr TaskSlot kNoTask = ~TaskSlot{0};
// Slots fit 16 bits; a tag is generation << 16 | slot and is never
// kReservedTag.
inline constexpr uint32_t kMaxTaskSlots = 0x8000;
inline constexpr uint32_t MakeTag(TaskSlot slot, uint16_t generation) {
  return static_cast<uint32_t>(generation) << 16 | slot;
}
inline constexpr TaskSlot SlotOfTag(uint32_t tag) { return tag & 0xffffu; }

// Of what was asked for, at the end of the call.
enum class Progress : uint8_t {
  kDone,
  kPending,  // A notification follows, later.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_
