#ifndef SKIFF_SCSI_TARGET_UNIT_ATTENTION_H_
#define SKIFF_SCSI_TARGET_UNIT_ATTENTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scsi/sense.h"

namespace skiff::scsi {

// The unit attention conditions pending for one I_T nexus in one logical unit
// (SAM-5 section 5.14). Each code is pending at most once, so the bound is the
// number of codes that this target establishes; reported in order of
// precedence, first established first.
class UnitAttentions {
 public:
  static constexpr size_t kMax = 8;

  bool pending() const { return count_ > 0; }
  size_t size() const { return count_; }

  // A reset makes lesser resets and what they would have told moot
  // (SAM-5 section 5.14.2). Should more than kMax different codes be pending,
  // the one of the lowest precedence is dropped.
  void Establish(AdditionalSense code);
  // The one of the highest precedence, which is cleared.
  AdditionalSense Take();
  // REPORT LUNS tells what REPORTED LUNS DATA HAS CHANGED announces, and clears
  // it (SPC-4 section 6.33).
  void Clear(AdditionalSense code);
  void ClearAll() { count_ = 0; }
  // In the order in which Take() gives them.
  std::vector<uint16_t> Codes() const;

 private:
  void RemoveAt(size_t index);

  std::array<AdditionalSense, kMax> codes_;
  size_t count_ = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_UNIT_ATTENTION_H_
