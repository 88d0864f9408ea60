#ifndef SKIFF_TOOLS_SKIFF_VPD_FACTS_H_
#define SKIFF_TOOLS_SKIFF_VPD_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scsi/initiator/disk_info.h"
#include "scsi/initiator/inquiry_data.h"
#include "tools/skiff/base/report.h"

namespace skiff::tools {

// Page codes as people write them: "0x80", "83h", "b0" or "all". An empty
// result means all.
absl::StatusOr<std::vector<uint8_t>> ParseVpdPages(
    const std::vector<std::string>& pages);

FactsReport::Section InquirySection(const scsi::InquiryData& inquiry);
// A page that nothing here decodes is shown as hexadecimal bytes.
absl::StatusOr<FactsReport::Section> VpdSection(uint8_t page,
                                                absl::Span<const uint8_t> data);
FactsReport::Section CapacitySection(const scsi::DiskInfo& info);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_VPD_FACTS_H_
