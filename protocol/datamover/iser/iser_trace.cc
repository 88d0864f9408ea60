#include "protocol/datamover/iser/iser_trace.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/codec/endian.h"

namespace skiff::protocol {
namespace {

// Fields that all PDUs of one direction have (RFC 7143 sections 11.3 to 11.19).
constexpr uint8_t kFromTarget = 0x20;  // Of the opcode.
constexpr size_t kStatSnOffset = 24;
constexpr size_t kExpStatSnOffset = 28;
constexpr size_t kExpCmdSnOffset = 28;
constexpr size_t kMaxCmdSnOffset = 32;

const uint8_t* Bytes(absl::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// What the iSER header said, for people.
std::string CommentOn(const IserControlHeader& header,
                      const uint32_t* invalidated) {
  std::string comment;
  const auto add = [&comment](absl::string_view what, uint32_t stag) {
    absl::StrAppend(&comment, comment.empty() ? "iSER: " : ", ", what, " 0x",
                    absl::Hex(stag));
  };
  if (header.write_stag_valid) {
    add("Write STag", header.write_stag);
    absl::StrAppend(&comment, " at 0x", absl::Hex(header.write_base_offset));
  }
  if (header.read_stag_valid) {
    add("Read STag", header.read_stag);
    absl::StrAppend(&comment, " at 0x", absl::Hex(header.read_base_offset));
  }
  if (invalidated != nullptr) add("invalidates STag", *invalidated);
  return comment;
}

void Pad(std::string* pdu, size_t data_size) {
  pdu->append(PaddingFor(static_cast<uint32_t>(data_size)), '\0');
}

}  // namespace

void IserTrace::Message(bool sent, absl::Span<const absl::string_view> pieces,
                        const uint32_t* invalidated) {
  std::string message;
  for (const absl::string_view piece : pieces) absl::StrAppend(&message, piece);
  IserMessage parsed;
  const absl::Span<const uint8_t> bytes(Bytes(message), message.size());
  if (!DecodeIserMessage(bytes, &parsed).ok() ||
      parsed.opcode != IserOpcode::kControl) {
    return;
  }
  Note(parsed.bhs);
  // Senders may pad, and need not (protocol/codec/iser_header.h); iSCSI does.
  std::string pdu = message.substr(
      kIserHeaderSize, kBhsSize + parsed.ahs.size() + parsed.data.size());
  Pad(&pdu, parsed.data.size());
  sink_(sent, pdu, CommentOn(parsed.control, invalidated));
}

void IserTrace::Note(const uint8_t* bhs) {
  const BhsFrame frame = DecodeFrame(bhs);
  if ((frame.opcode & kFromTarget) == 0) {
    exp_stat_sn_ = Load32(bhs + kExpStatSnOffset);
  } else {
    stat_sn_ = Load32(bhs + kStatSnOffset);
    exp_cmd_sn_ = Load32(bhs + kExpCmdSnOffset);
    max_cmd_sn_ = Load32(bhs + kMaxCmdSnOffset);
  }
  const auto opcode = static_cast<Opcode>(frame.opcode);
  if (opcode == Opcode::kScsiCommand) {
    ScsiCommandPdu command;
    if (!Decode(bhs, &command).ok()) return;
    if (tasks_.size() >= kMaxTasks) tasks_.clear();
    tasks_[command.initiator_task_tag] = {command.lun, 0, 0};
  } else if (opcode == Opcode::kScsiResponse) {
    tasks_.erase(frame.initiator_task_tag);
  }
}

IserTrace::Task& IserTrace::At(uint32_t tag) {
  if (tasks_.size() >= kMaxTasks) tasks_.clear();
  return tasks_[tag];
}

void IserTrace::Emit(bool sent, const Bhs& bhs, absl::string_view data,
                     absl::string_view how) {
  std::string pdu(reinterpret_cast<const char*>(bhs.data()), bhs.size());
  EncodeLengths(reinterpret_cast<uint8_t*>(pdu.data()), 0,
                static_cast<uint32_t>(data.size()));
  absl::StrAppend(&pdu, data);
  Pad(&pdu, data.size());
  sink_(sent, pdu, absl::StrCat(kReconstructed, ": ", how));
}

void IserTrace::DataIn(bool sent, uint32_t tag, uint32_t offset,
                       absl::string_view data, absl::string_view how) {
  Task& task = At(tag);
  while (!data.empty()) {
    const absl::string_view part = data.substr(0, kMaxData);
    data.remove_prefix(part.size());
    ScsiDataInPdu pdu;
    // An operation is a sequence of its own: nobody knows which is the last.
    pdu.final = data.empty();
    pdu.lun = task.lun;
    pdu.initiator_task_tag = tag;
    pdu.exp_cmd_sn = exp_cmd_sn_;
    pdu.max_cmd_sn = max_cmd_sn_;
    pdu.data_sn = task.data_sn++;
    pdu.buffer_offset = offset;
    offset += static_cast<uint32_t>(part.size());
    Bhs bhs;
    Encode(pdu, bhs.data());
    Emit(sent, bhs, part, how);
  }
}

void IserTrace::R2t(bool sent, uint32_t tag, uint32_t offset, uint32_t length,
                    absl::string_view how) {
  Task& task = At(tag);
  R2tPdu pdu;
  pdu.lun = task.lun;
  pdu.initiator_task_tag = tag;
  // Any will do that tells the R2Ts of the task apart: their offsets do.
  pdu.target_transfer_tag = offset;
  pdu.stat_sn = stat_sn_ + 1;
  pdu.exp_cmd_sn = exp_cmd_sn_;
  pdu.max_cmd_sn = max_cmd_sn_;
  pdu.r2t_sn = task.r2t_sn++;
  pdu.buffer_offset = offset;
  pdu.desired_data_transfer_length = length;
  Bhs bhs;
  Encode(pdu, bhs.data());
  Emit(sent, bhs, {}, how);
}

void IserTrace::DataOut(bool sent, uint32_t tag, uint32_t offset,
                        absl::string_view data, absl::string_view how) {
  const Lun lun = At(tag).lun;
  ScsiDataOutPdu pdu;
  pdu.lun = lun;
  pdu.initiator_task_tag = tag;
  pdu.target_transfer_tag = offset;  // As its R2T.
  pdu.exp_stat_sn = exp_stat_sn_;
  while (!data.empty()) {
    const absl::string_view part = data.substr(0, kMaxData);
    data.remove_prefix(part.size());
    pdu.final = data.empty();
    pdu.buffer_offset = offset;
    offset += static_cast<uint32_t>(part.size());
    Bhs bhs;
    Encode(pdu, bhs.data());
    ++pdu.data_sn;
    Emit(sent, bhs, part, how);
  }
}

}  // namespace skiff::protocol
