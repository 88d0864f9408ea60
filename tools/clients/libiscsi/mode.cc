#include "tools/clients/libiscsi/mode.h"

#include <algorithm>

#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

constexpr int kDisconnectReconnect = 0x02;
constexpr int kCaching = 0x08;
constexpr int kControl = 0x0a;
constexpr int kPowerCondition = 0x1a;
constexpr int kInformationalExceptions = 0x1c;
// Of a mode parameter header (SPC-4 section 7.5.5).
constexpr size_t kHeader6 = 4;
constexpr size_t kHeader10 = 8;

// Each field of a page once, for both directions: one class reads, and one
// writes.
class Reader {
 public:
  explicit Reader(const Answer& page) : page_(page) {}
  void Bits(size_t offset, int shift, int mask, int* field) {
    *field = page_.Bits(offset, shift, mask);
  }
  void Number16(size_t offset, int* field) {
    *field = page_.Get<uint16_t>(offset);
  }
  void Number32(size_t offset, uint32_t* field) {
    *field = page_.Get<uint32_t>(offset);
  }
  void Int32(size_t offset, int* field) {
    *field = static_cast<int>(page_.Get<uint32_t>(offset));
  }

 private:
  const Answer page_;
};

class Writer {
 public:
  explicit Writer(unsigned char* page) : page_(page) {}
  void Bits(size_t offset, int shift, int mask, const int* field) {
    page_[offset] |= static_cast<unsigned char>((*field & mask) << shift);
  }
  void Number16(size_t offset, const int* field) {
    StoreBig(static_cast<uint16_t>(*field), page_ + offset);
  }
  void Number32(size_t offset, const uint32_t* field) {
    StoreBig(*field, page_ + offset);
  }
  void Int32(size_t offset, const int* field) {
    StoreBig(static_cast<uint32_t>(*field), page_ + offset);
  }

 private:
  unsigned char* const page_;
};

// SBC-4 section 6.4.6.
template <typename Codec>
void Move(Codec codec, scsi_mode_page_caching* page) {
  codec.Bits(2, 7, 1, &page->ic);
  codec.Bits(2, 6, 1, &page->abpf);
  codec.Bits(2, 5, 1, &page->cap);
  codec.Bits(2, 4, 1, &page->disc);
  codec.Bits(2, 3, 1, &page->size);
  codec.Bits(2, 2, 1, &page->wce);
  codec.Bits(2, 1, 1, &page->mf);
  codec.Bits(2, 0, 1, &page->rcd);
  codec.Bits(3, 4, 0x0f, &page->demand_read_retention_priority);
  codec.Bits(3, 0, 0x0f, &page->write_retention_priority);
  codec.Number16(4, &page->disable_prefetch_transfer_length);
  codec.Number16(6, &page->minimum_prefetch);
  codec.Number16(8, &page->maximum_prefetch);
  codec.Number16(10, &page->maximum_prefetch_ceiling);
  codec.Bits(12, 7, 1, &page->fsw);
  codec.Bits(12, 6, 1, &page->lbcss);
  codec.Bits(12, 5, 1, &page->dra);
  codec.Bits(12, 0, 1, &page->nv_dis);
  codec.Bits(13, 0, 0xff, &page->number_of_cache_segments);
  codec.Number16(14, &page->cache_segment_size);
}

// SPC-4 section 7.5.8.
template <typename Codec>
void Move(Codec codec, scsi_mode_page_control* page) {
  codec.Bits(2, 5, 7, &page->tst);
  codec.Bits(2, 4, 1, &page->tmf_only);
  codec.Bits(2, 3, 1, &page->dpicz);
  codec.Bits(2, 2, 1, &page->d_sense);
  codec.Bits(2, 1, 1, &page->gltsd);
  codec.Bits(2, 0, 1, &page->rlec);
  codec.Bits(3, 4, 0x0f, &page->queue_algorithm_modifier);
  codec.Bits(3, 3, 1, &page->nuar);
  codec.Bits(3, 1, 3, &page->qerr);
  codec.Bits(4, 7, 1, &page->vs);
  codec.Bits(4, 6, 1, &page->rac);
  codec.Bits(4, 4, 3, &page->ua_intlck_ctrl);
  codec.Bits(4, 3, 1, &page->swp);
  codec.Bits(5, 7, 1, &page->ato);
  codec.Bits(5, 6, 1, &page->tas);
  codec.Bits(5, 5, 1, &page->atmpe);
  codec.Bits(5, 4, 1, &page->rwwp);
  codec.Bits(5, 0, 7, &page->autoload_mode);
  codec.Number16(8, &page->busy_timeout_period);
  codec.Number16(10, &page->extended_selftest_completion_time);
}

// SPC-4 section 7.5.11.
template <typename Codec>
void Move(Codec codec, scsi_mode_page_disconnect_reconnect* page) {
  codec.Bits(2, 0, 0xff, &page->buffer_full_ratio);
  codec.Bits(3, 0, 0xff, &page->buffer_empty_ratio);
  codec.Number16(4, &page->bus_inactivity_limit);
  codec.Number16(6, &page->disconnect_time_limit);
  codec.Number16(8, &page->connect_time_limit);
  codec.Number16(10, &page->maximum_burst_size);
  codec.Bits(12, 7, 1, &page->emdp);
  codec.Bits(12, 4, 7, &page->fair_arbitration);
  codec.Bits(12, 3, 1, &page->dimm);
  codec.Bits(12, 0, 7, &page->dtdc);
  codec.Number16(14, &page->first_burst_size);
}

// SPC-4 section 7.5.12.
template <typename Codec>
void Move(Codec codec, scsi_mode_page_informational_exceptions_control* page) {
  codec.Bits(2, 7, 1, &page->perf);
  codec.Bits(2, 5, 1, &page->ebf);
  codec.Bits(2, 4, 1, &page->ewasc);
  codec.Bits(2, 3, 1, &page->dexcpt);
  codec.Bits(2, 2, 1, &page->test);
  codec.Bits(2, 1, 1, &page->ebackerr);
  codec.Bits(2, 0, 1, &page->logerr);
  codec.Bits(3, 0, 0x0f, &page->mrie);
  codec.Int32(4, &page->interval_timer);
  codec.Int32(8, &page->report_count);
}

// SPC-4 section 7.5.13.
template <typename Codec>
void Move(Codec codec, scsi_mode_page_power_condition* page) {
  codec.Bits(2, 6, 3, &page->pm_bg_precedence);
  codec.Bits(2, 0, 1, &page->standby_y);
  codec.Bits(3, 3, 1, &page->idle_c);
  codec.Bits(3, 2, 1, &page->idle_b);
  codec.Bits(3, 1, 1, &page->idle_a);
  codec.Bits(3, 0, 1, &page->standby_z);
  codec.Number32(4, &page->idle_a_condition_timer);
  codec.Number32(8, &page->standby_z_condition_timer);
  codec.Number32(12, &page->idle_b_condition_timer);
  codec.Number32(16, &page->idle_c_condition_timer);
  codec.Number32(20, &page->standby_y_condition_timer);
  codec.Bits(39, 6, 3, &page->ccf_idle);
  codec.Bits(39, 4, 3, &page->ccf_standby);
  codec.Bits(39, 2, 3, &page->ccf_stopped);
}

// False for a page that libiscsi does not know either.
template <typename Codec>
bool MovePage(Codec codec, scsi_mode_page* page) {
  if (page->spf != 0) return false;
  switch (page->page_code) {
    case kCaching:
      Move(codec, &page->caching);
      return true;
    case kControl:
      Move(codec, &page->control);
      return true;
    case kDisconnectReconnect:
      Move(codec, &page->disconnect_reconnect);
      return true;
    case kInformationalExceptions:
      Move(codec, &page->iec);
      return true;
    case kPowerCondition:
      Move(codec, &page->power_condition);
      return true;
    default:
      return false;
  }
}

// How long a page is, with its own header; 0 if it is not known.
int PageSize(const scsi_mode_page& page) {
  switch (page.page_code) {
    case kCaching:
      return 20;
    case kControl:
    case kInformationalExceptions:
      return 12;
    case kDisconnectReconnect:
      return 16;
    case kPowerCondition:
      return 40;
    default:
      return 0;
  }
}

}  // namespace

int ModeSenseSize(const Answer& answer, bool six) {
  return six ? answer.Byte(0) + 1 : answer.Get<uint16_t>(0) + 2;
}

scsi_mode_sense* UnmarshallModeSense(scsi_task* task, const Answer& answer,
                                     bool six) {
  const size_t header = six ? kHeader6 : kHeader10;
  if (answer.size() < header) return nullptr;
  auto* const sense =
      static_cast<scsi_mode_sense*>(scsi_malloc(task, sizeof(scsi_mode_sense)));
  if (sense == nullptr) return nullptr;
  if (six) {
    sense->mode_data_length = answer.Byte(0);
    sense->medium_type = answer.Byte(1);
    sense->device_specific_parameter = answer.Byte(2);
    sense->block_descriptor_length = answer.Byte(3);
  } else {
    sense->mode_data_length = answer.Get<uint16_t>(0);
    sense->medium_type = answer.Byte(2);
    sense->device_specific_parameter = answer.Byte(3);
    sense->longlba = answer.Byte(4) & 1;
    sense->block_descriptor_length =
        static_cast<uint8_t>(answer.Get<uint16_t>(6));
  }
  const size_t descriptors = six ? answer.Byte(3) : answer.Get<uint16_t>(6);
  const size_t end = std::min<size_t>(
      answer.size(), static_cast<size_t>(ModeSenseSize(answer, six)));
  for (size_t at = header + descriptors; at + 2 <= end;) {
    auto* const page =
        static_cast<scsi_mode_page*>(scsi_malloc(task, sizeof(scsi_mode_page)));
    if (page == nullptr) return nullptr;
    page->ps = answer.Bit(at, 7);
    page->spf = answer.Bit(at, 6);
    page->page_code = answer.Bits(at, 0, 0x3f);
    page->subpage_code = page->spf != 0 ? answer.Byte(at + 1) : 0;
    page->len =
        page->spf != 0 ? answer.Get<uint16_t>(at + 2) : answer.Byte(at + 1);
    const size_t size =
        static_cast<size_t>(page->len) + (page->spf != 0 ? 4 : 2);
    if (at + size > end) break;  // Cut short.
    MovePage(Reader(Answer(answer.at(at), static_cast<int>(size))), page);
    page->next = sense->pages;
    sense->pages = page;
    at += size;
  }
  return sense;
}

FACE scsi_mode_page* scsi_modesense_get_page(scsi_mode_sense* sense,
                                             int page_code, int subpage_code) {
  if (sense == nullptr) return nullptr;
  scsi_mode_page* page = sense->pages;
  while (page != nullptr &&
         (page->page_code != page_code || page->subpage_code != subpage_code)) {
    page = page->next;
  }
  return page;
}

FACE scsi_data* scsi_modesense_dataout_marshall(scsi_task* task,
                                                scsi_mode_page* page,
                                                int is_modeselect6) {
  if (task == nullptr || page == nullptr) return nullptr;
  const int page_size = PageSize(*page);
  if (page_size == 0 || page->spf != 0) return nullptr;
  const size_t header = is_modeselect6 != 0 ? kHeader6 : kHeader10;
  const size_t size = header + static_cast<size_t>(page_size);
  auto* const data =
      static_cast<scsi_data*>(scsi_malloc(task, sizeof(scsi_data)));
  auto* const bytes = static_cast<unsigned char*>(scsi_malloc(task, size));
  if (data == nullptr || bytes == nullptr) return nullptr;
  bytes[header] = static_cast<unsigned char>((page->ps != 0 ? 0x80 : 0) |
                                             (page->page_code & 0x3f));
  bytes[header + 1] = static_cast<unsigned char>(page_size - 2);
  MovePage(Writer(bytes + header), page);
  *data = {static_cast<int>(size), bytes};
  return data;
}

}  // namespace skiff::libiscsi
