#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "scsi/initiator/command.h"
#include "scsi/initiator/inquiry_data.h"
#include "scsi/initiator/parameter_data.h"
#include "scsi/initiator/scsi_error.h"

namespace skiff::scsi {
namespace {

// Everything that is parsed out of what a target returns: all parsers see all
// input.
void ParseEverything(absl::Span<const uint8_t> data) {
  (void)ParseInquiry(data);
  (void)ParseSupportedVpdPages(data);
  (void)ParseUnitSerialNumber(data);
  if (const auto designators = ParseDeviceIdentification(data);
      designators.ok()) {
    for (const Designator& designator : *designators) {
      (void)designator.ToString();
    }
    (void)BestLogicalUnitDesignator(*designators);
  }
  (void)ParseBlockLimits(data);
  (void)ParseBlockDeviceCharacteristics(data);
  (void)ParseLogicalBlockProvisioning(data);
  (void)ParseReadCapacity10(data);
  (void)ParseReadCapacity16(data);
  (void)ParseReportLuns(data);
  for (const uint8_t page : {uint8_t{0x08}, uint8_t{0x3f}}) {
    if (const auto mode = ParseModeSense6(data, page); mode.ok()) {
      (void)WriteCacheEnabled(*mode);
    }
    if (const auto mode = ParseModeSense10(data, page); mode.ok()) {
      (void)WriteCacheEnabled(*mode);
    }
  }
  (void)ParseGetLbaStatus(data);
  (void)ParseSupportedOperationCodes(data);

  Command command;
  command.outcome = Command::Outcome::kCompleted;
  command.status = 0x02;
  command.sense_length =
      static_cast<uint8_t>(std::min<size_t>(data.size(), Command::kMaxSense));
  std::copy_n(data.begin(), command.sense_length, command.sense.begin());
  (void)GetScsiError(CommandStatus(command));
}

}  // namespace
}  // namespace skiff::scsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  skiff::scsi::ParseEverything({bytes, size});
  return 0;
}
