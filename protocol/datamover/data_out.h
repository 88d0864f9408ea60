#ifndef SKIFF_PROTOCOL_DATAMOVER_DATA_OUT_H_
#define SKIFF_PROTOCOL_DATAMOVER_DATA_OUT_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/block_pool.h"
#include "protocol/datamover/target_datamover.h"
#include "protocol/negotiation/parameters.h"

// What both data models of a target have in common of data-out: where a task
// stands, and the rules on immediate and unsolicited data.

namespace skiff::protocol {

// How a command ends whose initiator breaks a rule: the additional sense codes
// are those of RFC 7143 section 11.4.7.2 and SPC-5.
namespace data_fault {

inline constexpr DataFault kImmediateNotAgreed = {
    0x0c, 0x0c, "immediate data although ImmediateData=No"};
inline constexpr DataFault kTooMuchImmediate = {
    0x0c, 0x0d,
    "more immediate data than FirstBurstLength or the command's length"};
inline constexpr DataFault kUnsolicitedNotAgreed = {
    0x0c, 0x0c,
    "unsolicited data announced although InitialR2T=Yes or nothing to write"};
inline constexpr DataFault kUnsolicitedAfterEnd = {
    0x0c, 0x0c, "unsolicited Data-Out after its end"};
inline constexpr DataFault kTooMuchUnsolicited = {
    0x0c, 0x0d,
    "more unsolicited data than FirstBurstLength or the command's length"};
inline constexpr DataFault kTooLittleUnsolicited = {
    0x0c, 0x0d,
    "less unsolicited data than the command without a Write STag needs"};
inline constexpr DataFault kNotWhatR2tAskedFor = {
    0x0c, 0x0d, "the amount of data is not what the R2T asked for"};
inline constexpr DataFault kOutOfSequence = {0x4b, 0x00,
                                             "Data-Out out of sequence"};
inline constexpr DataFault kR2tsOutOfOrder = {
    0x4b, 0x00, "R2Ts were not answered in order"};
inline constexpr DataFault kWrongOffset = {0x4b, 0x05,
                                           "Data-Out with a wrong offset"};
inline constexpr DataFault kDigest = {0x47, 0x05, "data digest error"};

}  // namespace data_fault

// Data-out of a task. They come in ascending order within it, because our
// login insists on DataPDUInOrder and DataSequenceInOrder (RFC 7143 sections
// 13.18, 13.19: OR): all below `received` have come, and all below `placed` are
// where GetData wants them. What is between is in hand, or staged. (Over iSER,
// what is not sent unsolicited is read to its place: `placed` goes on alone.)
struct DataOutState {
  uint32_t data_out_length = 0;
  uint32_t received = 0;
  uint32_t placed = 0;
  bool data_failed = false;          // The rest of the data is not wanted.
  bool unsolicited_open = false;     // More is still to come,
  uint32_t unsolicited_end = 0;      // up to here at the most,
  uint32_t unsolicited_data_sn = 0;  // with this DataSN.

  // GetData.
  bool getting = false;
  uint8_t* to = nullptr;
  uint32_t get_begin = 0;
  uint32_t get_end = 0;

  // What came before GetData said where it goes, by offset: immediate data
  // while they are still where they were received, then all of it.
  const uint8_t* in_hand = nullptr;
  BlockPool::Block staging;
  uint32_t staged = 0;  // What `staging` is counted with.

  // Of a command that was accepted, with so many bytes of immediate data.
  // Returns what is wrong, or null. RFC 7143 sections 13.10, 13.11 and 13.14.
  const DataFault* Begin(const Parameters& parameters, uint32_t length,
                         bool final, size_t immediate) {
    data_out_length = length;
    received = placed = 0;
    data_failed = false;
    unsolicited_open = !final;
    unsolicited_end = std::min(parameters.first_burst_length, length);
    unsolicited_data_sn = 0;
    getting = false;
    in_hand = nullptr;
    if (immediate > 0 && !parameters.immediate_data) {
      return &data_fault::kImmediateNotAgreed;
    }
    if (immediate > unsolicited_end) return &data_fault::kTooMuchImmediate;
    if (unsolicited_open && (parameters.initial_r2t || length == 0)) {
      return &data_fault::kUnsolicitedNotAgreed;
    }
    return nullptr;
  }
  // Immediate data that stay where they are until Staging::Keep().
  void TakeInHand(absl::Span<const uint8_t> immediate) {
    if (data_failed) return;
    in_hand = immediate.data();
    received = static_cast<uint32_t>(immediate.size());
  }

  // A Data-Out with `size` bytes: what is wrong with it, or null, and it is
  // counted in.
  const DataFault* TakeUnsolicited(const ScsiDataOutPdu& pdu, size_t size) {
    if (!unsolicited_open) return &data_fault::kUnsolicitedAfterEnd;
    const DataFault* const fault = CheckOrder(pdu, unsolicited_data_sn);
    if (fault != nullptr) return fault;
    const uint64_t end = uint64_t{pdu.buffer_offset} + size;
    if (end > unsolicited_end || (end == unsolicited_end && !pdu.final)) {
      return &data_fault::kTooMuchUnsolicited;
    }
    ++unsolicited_data_sn;
    if (pdu.final) unsolicited_open = false;
    return nullptr;
  }
  // What is wrong with a Data-Out that is not the next one; else null.
  const DataFault* CheckOrder(const ScsiDataOutPdu& pdu,
                              uint32_t data_sn) const {
    if (pdu.data_sn != data_sn) return &data_fault::kOutOfSequence;
    if (pdu.buffer_offset != received) return &data_fault::kWrongOffset;
    return nullptr;
  }

  void BeginGet(uint32_t offset, absl::Span<uint8_t> where) {
    assert(!getting && offset == placed);
    assert(uint64_t{offset} + where.size() <= data_out_length);
    getting = true;
    to = where.data();
    get_begin = offset;
    get_end = offset + static_cast<uint32_t>(where.size());
  }
  // Where the next `length` bytes to come are wanted; null if that is not known
  // of all of them.
  uint8_t* PlaceOfNext(size_t length) const {
    return getting && placed == received && received + length <= get_end
               ? to + (received - get_begin)
               : nullptr;
  }
  // Copies what has come to where it is wanted. Returns how much that was.
  uint32_t PlaceReceived() {
    const uint32_t end = std::min(received, get_end);
    if (placed >= end) return 0;
    const uint32_t bytes = end - placed;
    const uint8_t* const from = in_hand != nullptr ? in_hand : staging.get();
    std::memcpy(to + (placed - get_begin), from + placed, bytes);
    placed = end;
    return bytes;
  }
};

// The staged data of all tasks of a target's connection.
class Staging {
 public:
  explicit Staging(BlockPool* blocks) : blocks_(blocks) {}

  // A place for the task's data, which FirstBurstLength bounds. False: the
  // budget has none left. The task has failed, and the client was told.
  bool Begin(TaskSlot slot, DataOutState* task, TargetDatamoverClient* client) {
    if (task->staging != nullptr) return true;
    task->staging = blocks_->TakeOfBudget(task->unsolicited_end, bytes_);
    if (task->staging == nullptr) {
      task->data_failed = true;
      task->unsolicited_open = false;
      client->TaskRefused(slot);
      return false;
    }
    task->staged = task->unsolicited_end;
    bytes_ += task->staged;
    return true;
  }
  void End(DataOutState* task) {
    if (task->staging == nullptr) return;
    task->staging.reset();
    bytes_ -= task->staged;
  }
  // Stages what is left in hand. Returns how many bytes were copied. Without
  // memory as Begin().
  uint32_t Keep(TaskSlot slot, DataOutState* task,
                TargetDatamoverClient* client) {
    const uint8_t* const from = std::exchange(task->in_hand, nullptr);
    if (from == nullptr || task->data_failed ||
        task->placed >= task->received || !Begin(slot, task, client)) {
      return 0;
    }
    const uint32_t bytes = task->received - task->placed;
    std::memcpy(task->staging.get() + task->placed, from + task->placed, bytes);
    return bytes;
  }

  BlockPool* blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }

 private:
  BlockPool* const blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_DATA_OUT_H_
