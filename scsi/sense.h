#ifndef SKIFF_SCSI_SENSE_H_
#define SKIFF_SCSI_SENSE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace skiff::scsi {

// SPC-4 section 4.5.6.
enum class SenseKey : uint8_t {
  kNoSense = 0x0,
  kRecoveredError = 0x1,
  kNotReady = 0x2,
  kMediumError = 0x3,
  kHardwareError = 0x4,
  kIllegalRequest = 0x5,
  kUnitAttention = 0x6,
  kDataProtect = 0x7,
  kBlankCheck = 0x8,
  kVendorSpecific = 0x9,
  kCopyAborted = 0xa,
  kAbortedCommand = 0xb,
  kVolumeOverflow = 0xd,
  kMiscompare = 0xe,
  kCompleted = 0xf,
};

// ADDITIONAL SENSE CODE << 8 | ADDITIONAL SENSE CODE QUALIFIER (SPC-4
// section 4.5.6 and annex D): those that Skiff sends or looks at. A value read
// from a peer may be none of these.
enum class AdditionalSense : uint16_t {
  kNone = 0x0000,
  kNotReadyCauseNotReportable = 0x0400,
  kNotReadyBecomingReady = 0x0401,
  kNotReadyAccessTransition = 0x040a,
  kWriteError = 0x0c00,
  kUnexpectedUnsolicitedData = 0x0c0c,
  kNotEnoughUnsolicitedData = 0x0c0d,
  kInvalidFieldInCommandInformationUnit = 0x0e03,
  kUnrecoveredReadError = 0x1100,
  kParameterListLengthError = 0x1a00,
  kMiscompareDuringVerify = 0x1d00,
  kInvalidCommandOperationCode = 0x2000,
  kNoAccessRights = 0x2002,
  kLbaOutOfRange = 0x2100,
  kInvalidFieldInCdb = 0x2400,
  kLogicalUnitNotSupported = 0x2500,
  kInvalidFieldInParameterList = 0x2600,
  kWriteProtected = 0x2700,
  kLogicalUnitSoftwareWriteProtected = 0x2702,
  kSpaceAllocationFailedWriteProtect = 0x2707,
  kPowerOnResetOrBusDeviceReset = 0x2900,
  kPowerOn = 0x2901,
  kScsiBusReset = 0x2902,
  kBusDeviceResetFunctionOccurred = 0x2903,
  kITNexusLoss = 0x2907,
  kModeParametersChanged = 0x2a01,
  kCapacityDataHasChanged = 0x2a09,
  kCommandsClearedByAnotherInitiator = 0x2f00,
  kSavingParametersNotSupported = 0x3900,
  kMediumNotPresent = 0x3a00,
  kLogicalUnitFailedSelfTest = 0x3e03,
  kInquiryDataHasChanged = 0x3f03,
  kReportedLunsDataHasChanged = 0x3f0e,
  kInternalTargetFailure = 0x4400,
  kProtocolServiceCrcError = 0x4705,
  kInvalidMessageError = 0x4900,
  kDataPhaseError = 0x4b00,
  kInitiatorResponseTimeout = 0x4b06,
  kOverlappedCommands = 0x4e00,
  kInsufficientResources = 0x5503,
};

// Where the error is, for ILLEGAL REQUEST (SPC-4 section 4.5.2.4.2).
struct FieldPointer {
  bool in_cdb = true;  // Else in the parameter list.
  uint16_t byte = 0;
  std::optional<uint8_t> bit = {};  // The most significant bit in error.
};

// What a sense says, in either format.
struct SenseData {
  SenseKey key = SenseKey::kNoSense;
  AdditionalSense code = AdditionalSense::kNone;
  bool deferred = false;
  std::optional<uint64_t> information = {};
  std::optional<uint64_t> command_specific = {};
  std::optional<FieldPointer> field_pointer = {};
};

// SPC-4 sections 4.5.2 (descriptor) and 4.5.3 (fixed).
enum class SenseFormat : uint8_t { kFixed, kDescriptor };

// The longest that EncodeSense writes.
inline constexpr size_t kMaxEncodedSense = 40;

// Writes `sense` and returns its length; `out` has room for kMaxEncodedSense
// bytes. The fixed format has 32 bits for INFORMATION and COMMAND-SPECIFIC
// INFORMATION: a value that does not fit is left out, as SPC-4 section 4.5.3
// asks.
size_t EncodeSense(const SenseData& sense, SenseFormat format, uint8_t* out);

// Reads either format, as much as is there. Nothing if it is too short for a
// sense key, or of an unknown response code.
std::optional<SenseData> DecodeSense(absl::Span<const uint8_t> bytes);

// "ILLEGAL REQUEST".
absl::string_view SenseKeyName(SenseKey key);
// "INVALID FIELD IN CDB"; empty when the code has no name here.
absl::string_view AdditionalSenseName(AdditionalSense code);
// "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 1 bit 4".
std::string DescribeSense(const SenseData& sense);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_SENSE_H_
