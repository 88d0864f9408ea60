// Answers in libiscsi's structs. All lengths that a device says are checked
// against what came.
#include <algorithm>
#include <cstdint>

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/inquiry.h"
#include "tools/clients/libiscsi/mode.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

constexpr int kInquiry = 0x12;
constexpr int kModeSense6 = 0x1a;
constexpr int kReadCapacity10 = 0x25;
constexpr int kModeSense10 = 0x5a;
constexpr int kReserveIn = 0x5e;
constexpr int kServiceActionIn = 0x9e;
constexpr int kReportLuns = 0xa0;
constexpr int kMaintenanceIn = 0xa3;
// Service actions.
constexpr int kReadCapacity16 = 0x10;
constexpr int kGetLbaStatus = 0x12;
constexpr int kReadKeys = 0;
constexpr int kReadReservation = 1;
constexpr int kReportCapabilities = 2;
constexpr int kReportOperationCodes = 0x0c;
constexpr size_t kTimeouts = 12;

template <typename T>
T* New(scsi_task* task, size_t more = 0) {
  return static_cast<T*>(scsi_malloc(task, sizeof(T) + more));
}

// How many entries of `entry` bytes from `offset` on are there, of as many as
// `bytes` would have.
size_t Entries(const Answer& answer, size_t offset, size_t bytes,
               size_t entry) {
  if (answer.size() < offset) return 0;
  return std::min(bytes, answer.size() - offset) / entry;
}

void* Capacity10(scsi_task* task, const Answer& answer) {
  auto* const data = New<scsi_readcapacity10>(task);
  if (data == nullptr || answer.size() < 8) return nullptr;
  data->lba = answer.Get<uint32_t>(0);
  data->block_size = answer.Get<uint32_t>(4);
  return data;
}

// SBC-4 section 5.16.2.
void* Capacity16(scsi_task* task, const Answer& answer) {
  auto* const data = New<scsi_readcapacity16>(task);
  if (data == nullptr || answer.size() < 12) return nullptr;
  data->returned_lba = answer.Get<uint64_t>(0);
  data->block_length = answer.Get<uint32_t>(8);
  data->p_type = static_cast<uint8_t>(answer.Bits(12, 1, 7));
  data->prot_en = static_cast<uint8_t>(answer.Bit(12, 0));
  data->p_i_exp = static_cast<uint8_t>(answer.Bits(13, 4, 0x0f));
  data->lbppbe = static_cast<uint8_t>(answer.Bits(13, 0, 0x0f));
  data->lbpme = static_cast<uint8_t>(answer.Bit(14, 7));
  data->lbprz = static_cast<uint8_t>(answer.Bit(14, 6));
  data->lalba = answer.Get<uint16_t>(14) & 0x3fff;
  return data;
}

// SBC-4 section 5.4.2.
void* LbaStatus(scsi_task* task, const Answer& answer) {
  constexpr size_t kHeader = 8;
  constexpr size_t kDescriptor = 16;
  auto* const data = New<scsi_get_lba_status>(task);
  const uint32_t length = answer.Get<uint32_t>(0);  // Of what follows itself.
  if (data == nullptr || length < 4) return nullptr;
  const size_t count = Entries(answer, kHeader, length - 4, kDescriptor);
  data->num_descriptors = static_cast<uint32_t>(count);
  data->descriptors = static_cast<scsi_lba_status_descriptor*>(
      scsi_malloc(task, count * sizeof(scsi_lba_status_descriptor)));
  if (data->descriptors == nullptr) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kHeader + i * kDescriptor;
    data->descriptors[i] = {answer.Get<uint64_t>(at),
                            answer.Get<uint32_t>(at + 8),
                            answer.Bits(at + 12, 0, 0x0f)};
  }
  return data;
}

void* Luns(scsi_task* task, const Answer& answer) {
  constexpr size_t kHeader = 8;
  constexpr size_t kLun = 8;
  if (answer.size() < kHeader) return nullptr;
  const size_t count = Entries(answer, kHeader, answer.Get<uint32_t>(0), kLun);
  auto* const data = New<scsi_reportluns_list>(task, count * sizeof(uint16_t));
  if (data == nullptr) return nullptr;
  data->num = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    data->luns[i] = answer.Get<uint16_t>(kHeader + i * kLun);
  }
  return data;
}

// SPC-4 section 6.15.
void* Reservations(scsi_task* task, const Answer& answer, int action) {
  constexpr size_t kHeader = 8;
  if (answer.size() < kHeader) return nullptr;
  if (action == kReadKeys) {
    constexpr size_t kKey = 8;
    const size_t count =
        Entries(answer, kHeader, answer.Get<uint32_t>(4), kKey);
    auto* const data =
        New<scsi_persistent_reserve_in_read_keys>(task, count * kKey);
    if (data == nullptr) return nullptr;
    data->prgeneration = answer.Get<uint32_t>(0);
    data->additional_length = answer.Get<uint32_t>(4);
    data->num_keys = static_cast<int>(count);
    for (size_t i = 0; i < count; ++i) {
      data->keys[i] = answer.Get<uint64_t>(kHeader + i * kKey);
    }
    return data;
  }
  if (action == kReadReservation) {
    auto* const data = New<scsi_persistent_reserve_in_read_reservation>(task);
    if (data == nullptr) return nullptr;
    data->prgeneration = answer.Get<uint32_t>(0);
    data->additional_length = answer.Get<uint32_t>(4);
    data->reserved = data->additional_length > 0 ? 1 : 0;
    data->reservation_key = answer.Get<uint64_t>(8);
    data->pr_scope = static_cast<unsigned char>(answer.Bits(21, 4, 0x0f));
    data->pr_type = static_cast<unsigned char>(answer.Bits(21, 0, 0x0f));
    return data;
  }
  if (action != kReportCapabilities) return nullptr;
  auto* const data = New<scsi_persistent_reserve_in_report_capabilities>(task);
  if (data == nullptr) return nullptr;
  data->length = answer.Get<uint16_t>(0);
  data->crh = static_cast<uint8_t>(answer.Bit(2, 4));
  data->sip_c = static_cast<uint8_t>(answer.Bit(2, 3));
  data->atp_c = static_cast<uint8_t>(answer.Bit(2, 2));
  data->ptpl_c = static_cast<uint8_t>(answer.Bit(2, 0));
  data->tmv = static_cast<uint8_t>(answer.Bit(3, 7));
  data->allow_commands = static_cast<uint8_t>(answer.Bits(3, 4, 7));
  data->ptpl_a = static_cast<uint8_t>(answer.Bit(3, 0));
  data->persistent_reservation_type_mask = answer.Get<uint16_t>(4);
  return data;
}

scsi_op_timeout_descriptor Timeouts(const Answer& answer, size_t at) {
  return {answer.Get<uint16_t>(at), answer.Byte(at + 3),
          answer.Get<uint32_t>(at + 4), answer.Get<uint32_t>(at + 8)};
}

// SPC-4 section 6.35.
void* OperationCodes(scsi_task* task, const Answer& answer) {
  constexpr size_t kHeader = 4;
  constexpr size_t kDescriptor = 8;
  const size_t length = answer.Get<uint32_t>(0);
  const size_t most = Entries(answer, kHeader, length, kDescriptor);
  const size_t end = std::min(answer.size(), kHeader + length);
  auto* const data = New<scsi_report_supported_op_codes>(
      task, most * sizeof(scsi_command_descriptor));
  if (data == nullptr) return nullptr;
  for (size_t at = kHeader; at + kDescriptor <= end;) {
    scsi_command_descriptor& one = data->descriptors[data->num_descriptors++];
    one.opcode = answer.Byte(at);
    one.sa = answer.Get<uint16_t>(at + 2);
    one.servactv = static_cast<uint8_t>(answer.Bit(at + 5, 0));
    one.ctdp = static_cast<uint8_t>(answer.Bit(at + 5, 1));
    one.cdb_len = answer.Get<uint16_t>(at + 6);
    at += kDescriptor;
    if (one.ctdp == 0) continue;
    one.to = Timeouts(answer, at);
    at += kTimeouts;
  }
  return data;
}

void* OneOperationCode(scsi_task* task, const Answer& answer) {
  auto* const data = New<scsi_report_supported_op_codes_one_command>(task);
  if (data == nullptr || answer.size() < 4) return nullptr;
  data->ctdp = static_cast<uint8_t>(answer.Bit(1, 7));
  data->support = static_cast<uint8_t>(answer.Bits(1, 0, 7));
  data->cdb_length = answer.Byte(3);
  const size_t length =
      std::min<size_t>(data->cdb_length, sizeof(data->cdb_usage_data));
  for (size_t i = 0; i < length; ++i) {
    data->cdb_usage_data[i] = answer.Byte(4 + i);
  }
  if (data->ctdp != 0) data->to = Timeouts(answer, 4u + data->cdb_length);
  return data;
}

int ServiceActionSize(const Answer& answer, int action) {
  if (action == kReadCapacity16) return 32;
  if (action != kGetLbaStatus) return -1;
  return static_cast<int>(answer.Get<uint32_t>(0) + 4);
}

int OperationCodesSize(const Answer& answer, int options) {
  if (options == 0) return static_cast<int>(answer.Get<uint32_t>(0) + 4);
  return 4 + answer.Get<uint16_t>(2) +
         (answer.Bit(1, 7) != 0 ? static_cast<int>(kTimeouts) : 0);
}

}  // namespace

// How long the answer would be that the device has. -1: that is not known.
FACE int scsi_datain_getfullsize(scsi_task* task) {
  if (task == nullptr) return -1;
  const Answer answer(task->datain.data, task->datain.size);
  const int action = task->cdb[1] & 0x1f;
  switch (task->cdb[0]) {
    case 0x00:
      return 0;
    case kInquiry:
      return (task->cdb[1] & 1) != 0 ? answer.Get<uint16_t>(2) + 4
                                     : answer.Byte(4) + 5;
    case kModeSense6:
      return ModeSenseSize(answer, true);
    case kModeSense10:
      return ModeSenseSize(answer, false);
    case kReadCapacity10:
      return 8;
    case kReserveIn:
      return action == kReportCapabilities
                 ? answer.Get<uint16_t>(0)
                 : static_cast<int>(answer.Get<uint32_t>(4) + 8);
    case kServiceActionIn:
      return ServiceActionSize(answer, action);
    case kReportLuns:
      return static_cast<int>(answer.Get<uint32_t>(0) + 8);
    case kMaintenanceIn:
      return OperationCodesSize(answer, task->cdb[2] & 7);
    default:
      return -1;
  }
}

// The answer in libiscsi's struct for it, in memory of the task. Null for what
// is cut short, or has no struct.
FACE void* scsi_datain_unmarshall(scsi_task* task) {
  if (task == nullptr || task->datain.data == nullptr ||
      task->datain.size <= 0) {
    return nullptr;
  }
  const Answer answer(task->datain.data, task->datain.size);
  const int action = task->cdb[1] & 0x1f;
  switch (task->cdb[0]) {
    case kInquiry:
      return UnmarshallInquiry(task, answer, (task->cdb[1] & 1) != 0,
                               task->cdb[2]);
    case kModeSense6:
      return UnmarshallModeSense(task, answer, true);
    case kModeSense10:
      return UnmarshallModeSense(task, answer, false);
    case kReadCapacity10:
      return Capacity10(task, answer);
    case kReserveIn:
      return Reservations(task, answer, action);
    case kServiceActionIn:
      if (action == kReadCapacity16) return Capacity16(task, answer);
      return action == kGetLbaStatus ? LbaStatus(task, answer) : nullptr;
    case kReportLuns:
      return Luns(task, answer);
    case kMaintenanceIn:
      if (action != kReportOperationCodes) return nullptr;
      return (task->cdb[2] & 7) == 0 ? OperationCodes(task, answer)
                                     : OneOperationCode(task, answer);
    default:
      return nullptr;
  }
}

}  // namespace skiff::libiscsi
