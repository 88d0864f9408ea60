#include "tools/clients/libiscsi/inquiry.h"

#include <algorithm>
#include <cstring>

#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

constexpr size_t kVpdHeader = 4;

template <typename T>
T* New(scsi_task* task) {
  return static_cast<T*>(scsi_malloc(task, sizeof(T)));
}

// What of a list is there: it may be cut short.
size_t Present(const Answer& answer, size_t offset, size_t length) {
  if (offset >= answer.size()) return 0;
  return std::min(length, answer.size() - offset);
}

void CopyText(const Answer& answer, size_t offset, size_t length, char* to) {
  const size_t present = Present(answer, offset, length);
  if (present > 0) memcpy(to, answer.at(offset), present);
}

// Zero-terminated, in memory of the task.
char* CopyBytes(scsi_task* task, const Answer& answer, size_t offset,
                size_t length) {
  auto* const bytes = static_cast<char*>(scsi_malloc(task, length + 1));
  if (bytes != nullptr) CopyText(answer, offset, length, bytes);
  return bytes;
}

template <typename Page>
Page* NewPage(scsi_task* task, const Answer& answer) {
  auto* const page = New<Page>(task);
  if (page == nullptr) return nullptr;
  page->qualifier = answer.Bits(0, 5, 7);
  page->device_type = answer.Bits(0, 0, 0x1f);
  page->pagecode = answer.Byte(1);
  return page;
}

// SPC-4 section 6.6.2.
void* Standard(scsi_task* task, const Answer& answer) {
  auto* const data = New<scsi_inquiry_standard>(task);
  if (data == nullptr) return nullptr;
  data->qualifier = answer.Bits(0, 5, 7);
  data->device_type = answer.Bits(0, 0, 0x1f);
  data->rmb = answer.Bit(1, 7);
  data->version = answer.Byte(2);
  data->normaca = answer.Bit(3, 5);
  data->hisup = answer.Bit(3, 4);
  data->response_data_format = answer.Bits(3, 0, 0x0f);
  data->additional_length = answer.Byte(4);
  data->sccs = answer.Bit(5, 7);
  data->acc = answer.Bit(5, 6);
  data->tpgs = answer.Bits(5, 4, 3);
  data->threepc = answer.Bit(5, 3);
  data->protect = answer.Bit(5, 0);
  data->encserv = answer.Bit(6, 6);
  data->multip = answer.Bit(6, 4);
  data->addr16 = answer.Bit(6, 0);
  data->wbus16 = answer.Bit(7, 5);
  data->sync = answer.Bit(7, 4);
  data->cmdque = answer.Bit(7, 1);
  data->clocking = answer.Bits(56, 2, 3);
  data->qas = answer.Bit(56, 1);
  data->ius = answer.Bit(56, 0);
  CopyText(answer, 8, 8, data->vendor_identification);
  CopyText(answer, 16, 16, data->product_identification);
  CopyText(answer, 32, 4, data->product_revision_level);
  for (size_t i = 0; i < 8; ++i) {
    data->version_descriptor[i] = answer.Get<uint16_t>(58 + 2 * i);
  }
  return data;
}

void* SupportedPages(scsi_task* task, const Answer& answer) {
  auto* const page = NewPage<scsi_inquiry_supported_pages>(task, answer);
  if (page == nullptr) return nullptr;
  const size_t count = Present(answer, kVpdHeader, answer.Get<uint16_t>(2));
  page->num_pages = static_cast<int>(count);
  page->pages = reinterpret_cast<unsigned char*>(
      CopyBytes(task, answer, kVpdHeader, count));
  return page->pages == nullptr ? nullptr : page;
}

void* SerialNumber(scsi_task* task, const Answer& answer) {
  auto* const page = NewPage<scsi_inquiry_unit_serial_number>(task, answer);
  if (page == nullptr) return nullptr;
  page->usn = CopyBytes(task, answer, kVpdHeader, answer.Get<uint16_t>(2));
  return page->usn == nullptr ? nullptr : page;
}

// SPC-4 section 7.8.6. The last designator comes first, as with libiscsi.
void* Identification(scsi_task* task, const Answer& answer) {
  constexpr size_t kHeader = 4;
  auto* const page = NewPage<scsi_inquiry_device_identification>(task, answer);
  if (page == nullptr) return nullptr;
  const size_t end =
      kVpdHeader + Present(answer, kVpdHeader, answer.Get<uint16_t>(2));
  for (size_t at = kVpdHeader; at + kHeader <= end;) {
    const size_t length = answer.Byte(at + 3);
    if (at + kHeader + length > end) break;
    auto* const one = New<scsi_inquiry_device_designator>(task);
    if (one == nullptr) return nullptr;
    one->protocol_identifier = answer.Bits(at, 4, 0x0f);
    one->code_set = answer.Bits(at, 0, 0x0f);
    one->piv = answer.Bit(at + 1, 7);
    one->association = answer.Bits(at + 1, 4, 3);
    one->designator_type = answer.Bits(at + 1, 0, 0x0f);
    one->designator_length = static_cast<int>(length);
    one->designator = CopyBytes(task, answer, at + kHeader, length);
    if (one->designator == nullptr) return nullptr;
    one->next = page->designators;
    page->designators = one;
    at += kHeader + length;
  }
  return page;
}

// SBC-4 section 6.6.4.
void* BlockLimits(scsi_task* task, const Answer& answer) {
  auto* const page = NewPage<scsi_inquiry_block_limits>(task, answer);
  if (page == nullptr) return nullptr;
  page->wsnz = answer.Bit(4, 0);
  page->max_cmp = answer.Byte(5);
  page->opt_gran = answer.Get<uint16_t>(6);
  page->max_xfer_len = answer.Get<uint32_t>(8);
  page->opt_xfer_len = answer.Get<uint32_t>(12);
  page->max_prefetch = answer.Get<uint32_t>(16);
  page->max_unmap = answer.Get<uint32_t>(20);
  page->max_unmap_bdc = answer.Get<uint32_t>(24);
  page->opt_unmap_gran = answer.Get<uint32_t>(28);
  page->ugavalid = answer.Bit(32, 7);
  page->unmap_gran_align = answer.Get<uint32_t>(32) & 0x7fffffff;
  page->max_ws_len = answer.Get<uint64_t>(36);
  page->max_atomic_xfer_len = answer.Get<uint32_t>(44);
  page->atomic_align = answer.Get<uint32_t>(48);
  page->atomic_gran = answer.Get<uint32_t>(52);
  page->max_atomic_tl_with_atomic_boundary = answer.Get<uint32_t>(56);
  page->max_atomic_boundary_size = answer.Get<uint32_t>(60);
  return page;
}

// SBC-4 section 6.6.2.
void* Characteristics(scsi_task* task, const Answer& answer) {
  auto* const page =
      NewPage<scsi_inquiry_block_device_characteristics>(task, answer);
  if (page == nullptr) return nullptr;
  page->medium_rotation_rate = answer.Get<uint16_t>(4);
  page->product_type = answer.Byte(6);
  page->wabereq = answer.Bits(7, 6, 3);
  page->wacereq = answer.Bits(7, 4, 3);
  page->nominal_form_factor = answer.Bits(7, 0, 0x0f);
  page->fuab = answer.Bit(8, 1);
  page->vbuls = answer.Bit(8, 0);
  return page;
}

// SBC-4 section 6.6.6.
void* Provisioning(scsi_task* task, const Answer& answer) {
  auto* const page =
      NewPage<scsi_inquiry_logical_block_provisioning>(task, answer);
  if (page == nullptr) return nullptr;
  page->threshold_exponent = answer.Byte(4);
  page->lbpu = answer.Bit(5, 7);
  page->lbpws = answer.Bit(5, 6);
  page->lbpws10 = answer.Bit(5, 5);
  page->lbprz = answer.Bit(5, 2);
  page->anc_sup = answer.Bit(5, 1);
  page->dp = answer.Bit(5, 0);
  page->provisioning_type = answer.Bits(6, 0, 7);
  return page;
}

}  // namespace

void* UnmarshallInquiry(scsi_task* task, const Answer& answer, bool vpd,
                        int page_code) {
  if (answer.size() < kVpdHeader) return nullptr;
  if (!vpd) return Standard(task, answer);
  switch (page_code) {
    case 0x00:
      return SupportedPages(task, answer);
    case 0x80:
      return SerialNumber(task, answer);
    case 0x83:
      return Identification(task, answer);
    case 0xb0:
      return BlockLimits(task, answer);
    case 0xb1:
      return Characteristics(task, answer);
    case 0xb2:
      return Provisioning(task, answer);
    default:
      return nullptr;
  }
}

}  // namespace skiff::libiscsi
