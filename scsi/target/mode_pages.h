#ifndef SKIFF_SCSI_TARGET_MODE_PAGES_H_
#define SKIFF_SCSI_TARGET_MODE_PAGES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "scsi/backend/backend.h"
#include "scsi/sense.h"

namespace skiff::scsi {

// A logical unit's mode pages (SPC-4 section 7.5, SBC-3 section 6.5), shared by
// all nexuses. Thread-safe. What commands look at is kept in atomics as well.
class ModePages {
 public:
  // PAGE CONTROL of MODE SENSE.
  enum class Values : uint8_t { kCurrent, kChangeable, kDefault, kSaved };
  static constexpr uint8_t kAllPages = 0x3f;
  static constexpr uint8_t kAllSubpages = 0xff;
  // What Read() writes at most.
  static constexpr size_t kMaxBytes = 256;

  explicit ModePages(const BackendInfo& info);

  // D_SENSE, SWP and TAS of the Control mode page.
  bool descriptor_sense() const { return Flag(kDescriptorSense); }
  bool software_write_protect() const { return Flag(kSoftwareWriteProtect); }
  bool task_aborted_status() const { return Flag(kTaskAbortedStatus); }

  // Writes the page, or all of them, ascending; returns the number of bytes.
  // Zero: there is no such page. `values` is not kSaved.
  size_t Read(Values values, uint8_t page, uint8_t subpage, uint8_t* out) const;

  struct SelectError {
    AdditionalSense code;
    uint16_t byte = 0;  // In the span, when `code` has a field pointer.
    std::optional<uint8_t> bit;
  };
  // MODE SELECT with a list of pages: all of them are applied, or none.
  // `*changed` tells whether any value differs from before.
  std::optional<SelectError> Select(absl::Span<const uint8_t> list,
                                    bool* changed);
  // WCE, which is the medium's.
  void SetWriteCache(bool enabled);
  // To the defaults, as a logical unit reset does.
  void Reset();

 private:
  static constexpr uint8_t kDescriptorSense = 1;
  static constexpr uint8_t kSoftwareWriteProtect = 2;
  static constexpr uint8_t kTaskAbortedStatus = 4;

  struct Page {
    uint8_t code = 0;
    uint8_t subpage = 0;
    uint8_t length = 0;  // With its header.
    std::array<uint8_t, 32> defaults = {};
    std::array<uint8_t, 32> changeable = {};
    std::array<uint8_t, 32> current = {};
  };

  bool Flag(uint8_t flag) const {
    return (flags_.load(std::memory_order_relaxed) & flag) != 0;
  }
  Page* Add(uint8_t code, uint8_t subpage, uint8_t length);
  std::optional<SelectError> CheckPage(absl::Span<const uint8_t> list,
                                       size_t offset, size_t* page_index) const;
  void UpdateFlags();

  mutable std::mutex mutex_;
  std::vector<Page> pages_;
  std::atomic<uint8_t> flags_{0};
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_MODE_PAGES_H_
