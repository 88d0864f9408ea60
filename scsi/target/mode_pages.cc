#include "scsi/target/mode_pages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "scsi/endian.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kReadWriteErrorRecovery = 0x01;
constexpr uint8_t kCaching = 0x08;
constexpr uint8_t kControl = 0x0a;
constexpr uint8_t kControlExtension = 0x01;  // A subpage of kControl.
constexpr uint8_t kInformationalExceptions = 0x1c;

constexpr uint8_t kSubpageFormat = 0x40;
constexpr uint8_t kPageCodeMask = 0x3f;

// The Control mode page, SPC-4 section 7.5.8.
constexpr uint8_t kTstPerNexus = 0x20;  // Byte 2: see TaskSet.
constexpr uint8_t kDSense = 0x04;       // Byte 2.
constexpr uint8_t kGltsd = 0x02;        // Byte 2: no log parameters are saved.
constexpr uint8_t kUnrestrictedReordering = 0x10;  // Byte 3.
constexpr uint8_t kWce = 0x04;                     // Byte 2 of Caching.
constexpr uint8_t kSwp = 0x08;                     // Byte 4.
constexpr uint8_t kTas = 0x40;                     // Byte 5.

}  // namespace

ModePages::ModePages(const BackendInfo& info) {
  pages_.reserve(5);
  Page* page = Add(kReadWriteErrorRecovery, 0, 12);
  page->defaults[2] = 0xc0;  // AWRE, ARRE: the medium below does what it can.
  page = Add(kCaching, 0, 20);
  // WCE mirrors what the medium is; it cannot be changed from here.
  if (info.volatile_write_cache) page->defaults[2] = kWce;
  page = Add(kControl, 0, 12);
  page->defaults[2] = kTstPerNexus | kGltsd;
  page->defaults[3] = kUnrestrictedReordering;  // QERR = 00b.
  page->changeable[2] = kDSense;
  page->changeable[4] = kSwp;
  page->changeable[5] = kTas;
  Add(kControl, kControlExtension, 32);
  page = Add(kInformationalExceptions, 0, 12);
  page->defaults[2] = 0x08;  // DEXCPT: none are reported.
  Reset();
}

ModePages::Page* ModePages::Add(uint8_t code, uint8_t subpage, uint8_t length) {
  Page page;
  page.code = code;
  page.subpage = subpage;
  page.length = length;
  for (auto* header : {&page.defaults, &page.changeable}) {
    if (subpage == 0) {
      (*header)[0] = code;
      (*header)[1] = length - 2;
    } else {
      (*header)[0] = code | kSubpageFormat;
      (*header)[1] = subpage;
      StoreBe16(header->data() + 2, length - 4);
    }
  }
  pages_.push_back(page);
  return &pages_.back();
}

size_t ModePages::Read(Values values, uint8_t page, uint8_t subpage,
                       uint8_t* out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t size = 0;
  for (const Page& p : pages_) {
    if (page != kAllPages && page != p.code) continue;
    if (subpage != kAllSubpages && subpage != p.subpage) continue;
    const auto& bytes = values == Values::kCurrent      ? p.current
                        : values == Values::kChangeable ? p.changeable
                                                        : p.defaults;
    std::memcpy(out + size, bytes.data(), p.length);
    size += p.length;
  }
  return size;
}

std::optional<ModePages::SelectError> ModePages::CheckPage(
    absl::Span<const uint8_t> list, size_t offset, size_t* page_index) const {
  const absl::Span<const uint8_t> bytes = list.subspan(offset);
  const auto at = [offset](size_t byte) {
    return static_cast<uint16_t>(offset + byte);
  };
  const bool has_subpage = (bytes[0] & kSubpageFormat) != 0;
  if (bytes.size() < (has_subpage ? 4u : 2u)) {
    return SelectError{AdditionalSense::kParameterListLengthError, 0, {}};
  }
  const uint8_t code = bytes[0] & kPageCodeMask;
  const uint8_t subpage = has_subpage ? bytes[1] : 0;
  const auto page = std::find_if(
      pages_.begin(), pages_.end(),
      [&](const Page& p) { return p.code == code && p.subpage == subpage; });
  if (page == pages_.end() || has_subpage != (page->subpage != 0)) {
    return SelectError{AdditionalSense::kInvalidFieldInParameterList, at(0), 5};
  }
  const size_t length =
      has_subpage ? LoadBe16(&bytes[2]) + size_t{4} : bytes[1] + size_t{2};
  if (length != page->length) {
    return SelectError{AdditionalSense::kInvalidFieldInParameterList,
                       at(has_subpage ? 2 : 1),
                       {}};
  }
  if (bytes.size() < length) {
    return SelectError{AdditionalSense::kParameterListLengthError, 0, {}};
  }
  for (size_t i = has_subpage ? 4 : 2; i < length; ++i) {
    const uint8_t wrong = (bytes[i] ^ page->current[i]) & ~page->changeable[i];
    if (wrong == 0) continue;
    return SelectError{AdditionalSense::kInvalidFieldInParameterList, at(i),
                       static_cast<uint8_t>(std::bit_width(wrong) - 1)};
  }
  *page_index = static_cast<size_t>(page - pages_.begin());
  return std::nullopt;
}

std::optional<ModePages::SelectError> ModePages::Select(
    absl::Span<const uint8_t> list, bool* changed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  *changed = false;
  for (const bool apply : {false, true}) {
    for (size_t offset = 0; offset < list.size();) {
      size_t index = 0;
      if (!apply) {
        auto error = CheckPage(list, offset, &index);
        if (error.has_value()) return error;
      } else {
        // It was checked in the first round; only values differ from then.
        CheckPage(list, offset, &index);
        Page& page = pages_[index];
        const size_t header = page.subpage != 0 ? 4 : 2;
        const auto* from = list.data() + offset;
        if (!std::equal(from + header, from + page.length,
                        page.current.begin() + header)) {
          *changed = true;
          std::copy(from + header, from + page.length,
                    page.current.begin() + header);
        }
      }
      offset += pages_[index].length;
    }
  }
  UpdateFlags();
  return std::nullopt;
}

void ModePages::SetWriteCache(bool enabled) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Page& page : pages_) {
    if (page.code != kCaching) continue;
    page.defaults[2] = page.current[2] = enabled ? kWce : 0;
  }
}

void ModePages::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Page& page : pages_) page.current = page.defaults;
  UpdateFlags();
}

void ModePages::UpdateFlags() {
  for (const Page& page : pages_) {
    if (page.code != kControl || page.subpage != 0) continue;
    uint8_t flags = 0;
    if ((page.current[2] & kDSense) != 0) flags |= kDescriptorSense;
    if ((page.current[4] & kSwp) != 0) flags |= kSoftwareWriteProtect;
    if ((page.current[5] & kTas) != 0) flags |= kTaskAbortedStatus;
    flags_.store(flags, std::memory_order_relaxed);
  }
}

}  // namespace skiff::scsi
