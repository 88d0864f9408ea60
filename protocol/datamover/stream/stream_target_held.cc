// What the target does while another process is about to go on with the
// connection.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "protocol/codec/digest.h"
#include "protocol/datamover/stream/stream_target_datamover.h"

namespace skiff::protocol {
namespace {

void AppendDigest(uint32_t state, std::string* to) {
  uint8_t digest[kDigestSize];
  StoreDigest(FinishDigest(state), digest);
  to->append(reinterpret_cast<const char*>(digest), sizeof(digest));
}

}  // namespace

bool StreamTargetDatamover::HasTasks() const {
  for (TaskSlot slot = 0; slot < max_tasks_; ++slot) {
    if (tasks_.Has(slot) && tasks_[slot].live) return true;
  }
  return false;
}

// What comes besides is better left to the system.
bool StreamTargetDatamover::AwaitsData() const {
  if (receiver_.discarding() || incoming_.task != kNoTask) return true;
  for (TaskSlot slot = 0; slot < max_tasks_; ++slot) {
    if (!tasks_.Has(slot)) continue;
    const Task& task = tasks_[slot];
    if (task.live && !task.deallocated &&
        (task.getting || task.unsolicited_open || task.burst_count > 0)) {
      return true;
    }
  }
  return false;
}

// A Data-Out that nobody asked for may be that of a command that is held; the
// others are of tasks that are here, or that ended early.
bool StreamTargetDatamover::BelongsToTask(const StreamReceiver::Pdu& pdu) {
  if (pdu.frame.opcode != static_cast<uint8_t>(Opcode::kScsiDataOut)) {
    return false;
  }
  ScsiDataOutPdu data_out;
  // What is malformed ends the connection.
  if (!Decode(pdu.bhs, &data_out).ok()) return true;
  return data_out.target_transfer_tag != kReservedTag ||
         client_->FindTask(data_out.initiator_task_tag) != kNoTask;
}

void StreamTargetDatamover::Hold(const StreamReceiver::Pdu& pdu,
                                 absl::Span<const uint8_t> data) {
  if (held_too_much_ || held_.size() + data.size() > kMaxHeldBytes) {
    held_too_much_ = true;
    held_.clear();
    return;
  }
  const size_t header = kBhsSize + pdu.frame.ahs_bytes;
  held_.append(reinterpret_cast<const char*>(pdu.bhs), kBhsSize);
  held_.append(reinterpret_cast<const char*>(pdu.ahs.data()), pdu.ahs.size());
  if (parameters_.header_digest == Digest::kCrc32c) {
    AppendDigest(ExtendDigest(kDigestInit,
                              reinterpret_cast<const uint8_t*>(held_.data()) +
                                  held_.size() - header,
                              header),
                 &held_);
  }
  if (data.empty()) return;
  // The digest is of what came with the padding; that is not kept.
  const size_t padded = data.size() + PaddingFor(data.size());
  held_.append(reinterpret_cast<const char*>(data.data()), data.size());
  held_.append(padded - data.size(), '\0');
  if (parameters_.data_digest == Digest::kCrc32c) {
    AppendDigest(ExtendDigest(kDigestInit,
                              reinterpret_cast<const uint8_t*>(held_.data()) +
                                  held_.size() - padded,
                              padded),
                 &held_);
  }
}

absl::StatusOr<std::string> StreamTargetDatamover::TakeUnread() {
  assert(quiet());
  std::string unread = std::move(held_);
  receiver_.AppendUnread(&unread);
  receiver_.Stop();
  if (held_too_much_ || unread.size() > kMaxHeldBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has sent more than ", kMaxHeldBytes,
                     " bytes ahead of what could be served"));
  }
  return unread;
}

}  // namespace skiff::protocol
