#include "scsi/sense.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "scsi/endian.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kFixedCurrent = 0x70;
constexpr uint8_t kFixedDeferred = 0x71;
constexpr uint8_t kDescriptorCurrent = 0x72;
constexpr uint8_t kDescriptorDeferred = 0x73;

constexpr size_t kFixedLength = 18;
constexpr uint8_t kValid = 0x80;

enum DescriptorType : uint8_t {
  kInformationDescriptor = 0x00,
  kCommandSpecificDescriptor = 0x01,
  kSenseKeySpecificDescriptor = 0x02,
};

constexpr uint8_t kSksv = 0x80;  // SENSE KEY SPECIFIC VALID.
constexpr uint8_t kCommandData = 0x40;
constexpr uint8_t kBitPointerValid = 0x08;

// The three bytes SENSE KEY SPECIFIC for ILLEGAL REQUEST.
void EncodeFieldPointer(const FieldPointer& pointer, uint8_t* out) {
  out[0] = kSksv | (pointer.in_cdb ? kCommandData : 0);
  if (pointer.bit.has_value()) out[0] |= kBitPointerValid | (*pointer.bit & 7);
  StoreBe16(out + 1, pointer.byte);
}

std::optional<FieldPointer> DecodeFieldPointer(SenseKey key,
                                               const uint8_t* in) {
  if (key != SenseKey::kIllegalRequest || (in[0] & kSksv) == 0) {
    return std::nullopt;
  }
  FieldPointer pointer;
  pointer.in_cdb = (in[0] & kCommandData) != 0;
  if ((in[0] & kBitPointerValid) != 0) pointer.bit = in[0] & 7;
  pointer.byte = LoadBe16(in + 1);
  return pointer;
}

// SPC-4 section 4.5.3.
size_t EncodeFixed(const SenseData& sense, uint8_t* out) {
  std::memset(out, 0, kFixedLength);
  out[0] = sense.deferred ? kFixedDeferred : kFixedCurrent;
  if (sense.information.has_value() && *sense.information <= UINT32_MAX) {
    out[0] |= kValid;
    StoreBe32(out + 3, static_cast<uint32_t>(*sense.information));
  }
  out[2] = static_cast<uint8_t>(sense.key);
  out[7] = kFixedLength - 8;
  if (sense.command_specific.has_value() &&
      *sense.command_specific <= UINT32_MAX) {
    StoreBe32(out + 8, static_cast<uint32_t>(*sense.command_specific));
  }
  StoreBe16(out + 12, static_cast<uint16_t>(sense.code));
  if (sense.field_pointer.has_value()) {
    EncodeFieldPointer(*sense.field_pointer, out + 15);
  }
  return kFixedLength;
}

// SPC-4 section 4.5.2.
size_t EncodeDescriptor(const SenseData& sense, uint8_t* out) {
  std::memset(out, 0, kMaxEncodedSense);
  out[0] = sense.deferred ? kDescriptorDeferred : kDescriptorCurrent;
  out[1] = static_cast<uint8_t>(sense.key);
  StoreBe16(out + 2, static_cast<uint16_t>(sense.code));
  uint8_t* p = out + 8;
  if (sense.information.has_value()) {
    p[0] = kInformationDescriptor;
    p[1] = 0x0a;
    p[2] = kValid;
    StoreBe64(p + 4, *sense.information);
    p += 12;
  }
  if (sense.command_specific.has_value()) {
    p[0] = kCommandSpecificDescriptor;
    p[1] = 0x0a;
    StoreBe64(p + 4, *sense.command_specific);
    p += 12;
  }
  if (sense.field_pointer.has_value()) {
    p[0] = kSenseKeySpecificDescriptor;
    p[1] = 0x06;
    EncodeFieldPointer(*sense.field_pointer, p + 4);
    p += 8;
  }
  const size_t length = static_cast<size_t>(p - out);
  out[7] = static_cast<uint8_t>(length - 8);
  return length;
}

SenseData DecodeFixed(absl::Span<const uint8_t> bytes) {
  SenseData sense;
  sense.deferred = (bytes[0] & 0x7f) == kFixedDeferred;
  sense.key = static_cast<SenseKey>(bytes[2] & 0x0f);
  if ((bytes[0] & kValid) != 0 && bytes.size() >= 7) {
    sense.information = LoadBe32(&bytes[3]);
  }
  if (bytes.size() < 8) return sense;
  // ADDITIONAL SENSE LENGTH says how much of what follows means something.
  if (bytes.size() > size_t{bytes[7]} + 8) {
    bytes = bytes.first(size_t{bytes[7]} + 8);
  }
  if (bytes.size() >= 12 && LoadBe32(&bytes[8]) != 0) {
    sense.command_specific = LoadBe32(&bytes[8]);
  }
  if (bytes.size() >= 14) {
    sense.code = static_cast<AdditionalSense>(LoadBe16(&bytes[12]));
  }
  if (bytes.size() >= 18) {
    sense.field_pointer = DecodeFieldPointer(sense.key, &bytes[15]);
  }
  return sense;
}

SenseData DecodeDescriptor(absl::Span<const uint8_t> bytes) {
  SenseData sense;
  sense.deferred = (bytes[0] & 0x7f) == kDescriptorDeferred;
  sense.key = static_cast<SenseKey>(bytes[1] & 0x0f);
  if (bytes.size() >= 4) {
    sense.code = static_cast<AdditionalSense>(LoadBe16(&bytes[2]));
  }
  if (bytes.size() < 8) return sense;
  if (bytes.size() > size_t{bytes[7]} + 8) {
    bytes = bytes.first(size_t{bytes[7]} + 8);
  }
  bytes.remove_prefix(8);
  while (bytes.size() >= 2) {
    const size_t length = size_t{bytes[1]} + 2;
    if (length > bytes.size()) break;
    if (bytes[0] == kInformationDescriptor && length >= 12 &&
        (bytes[2] & kValid) != 0) {
      sense.information = LoadBe64(&bytes[4]);
    } else if (bytes[0] == kCommandSpecificDescriptor && length >= 12) {
      sense.command_specific = LoadBe64(&bytes[4]);
    } else if (bytes[0] == kSenseKeySpecificDescriptor && length >= 7) {
      sense.field_pointer = DecodeFieldPointer(sense.key, &bytes[4]);
    }
    bytes.remove_prefix(length);
  }
  return sense;
}

}  // namespace

size_t EncodeSense(const SenseData& sense, SenseFormat format, uint8_t* out) {
  return format == SenseFormat::kFixed ? EncodeFixed(sense, out)
                                       : EncodeDescriptor(sense, out);
}

std::optional<SenseData> DecodeSense(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return std::nullopt;
  switch (bytes[0] & 0x7f) {
    case kFixedCurrent:
    case kFixedDeferred:
      if (bytes.size() < 3) return std::nullopt;
      return DecodeFixed(bytes);
    case kDescriptorCurrent:
    case kDescriptorDeferred:
      if (bytes.size() < 2) return std::nullopt;
      return DecodeDescriptor(bytes);
    default:
      return std::nullopt;
  }
}

absl::string_view SenseKeyName(SenseKey key) {
  static constexpr absl::string_view kNames[16] = {
      "NO SENSE",       "RECOVERED ERROR", "NOT READY",      "MEDIUM ERROR",
      "HARDWARE ERROR", "ILLEGAL REQUEST", "UNIT ATTENTION", "DATA PROTECT",
      "BLANK CHECK",    "VENDOR SPECIFIC", "COPY ABORTED",   "ABORTED COMMAND",
      "RESERVED",       "VOLUME OVERFLOW", "MISCOMPARE",     "COMPLETED"};
  return kNames[static_cast<uint8_t>(key) & 0x0f];
}

absl::string_view AdditionalSenseName(AdditionalSense code) {
  switch (code) {
    case AdditionalSense::kNone:
      return "NO ADDITIONAL SENSE INFORMATION";
    case AdditionalSense::kNotReadyCauseNotReportable:
      return "LOGICAL UNIT NOT READY, CAUSE NOT REPORTABLE";
    case AdditionalSense::kNotReadyBecomingReady:
      return "LOGICAL UNIT IS IN PROCESS OF BECOMING READY";
    case AdditionalSense::kNotReadyAccessTransition:
      return "LOGICAL UNIT NOT ACCESSIBLE, ASYMMETRIC ACCESS STATE TRANSITION";
    case AdditionalSense::kWriteError:
      return "WRITE ERROR";
    case AdditionalSense::kUnexpectedUnsolicitedData:
      return "WRITE ERROR - UNEXPECTED UNSOLICITED DATA";
    case AdditionalSense::kNotEnoughUnsolicitedData:
      return "WRITE ERROR - NOT ENOUGH UNSOLICITED DATA";
    case AdditionalSense::kInvalidFieldInCommandInformationUnit:
      return "INVALID FIELD IN COMMAND INFORMATION UNIT";
    case AdditionalSense::kUnrecoveredReadError:
      return "UNRECOVERED READ ERROR";
    case AdditionalSense::kParameterListLengthError:
      return "PARAMETER LIST LENGTH ERROR";
    case AdditionalSense::kMiscompareDuringVerify:
      return "MISCOMPARE DURING VERIFY OPERATION";
    case AdditionalSense::kInvalidCommandOperationCode:
      return "INVALID COMMAND OPERATION CODE";
    case AdditionalSense::kNoAccessRights:
      return "ACCESS DENIED - NO ACCESS RIGHTS";
    case AdditionalSense::kLbaOutOfRange:
      return "LOGICAL BLOCK ADDRESS OUT OF RANGE";
    case AdditionalSense::kInvalidFieldInCdb:
      return "INVALID FIELD IN CDB";
    case AdditionalSense::kLogicalUnitNotSupported:
      return "LOGICAL UNIT NOT SUPPORTED";
    case AdditionalSense::kInvalidFieldInParameterList:
      return "INVALID FIELD IN PARAMETER LIST";
    case AdditionalSense::kWriteProtected:
      return "WRITE PROTECTED";
    case AdditionalSense::kLogicalUnitSoftwareWriteProtected:
      return "LOGICAL UNIT SOFTWARE WRITE PROTECTED";
    case AdditionalSense::kSpaceAllocationFailedWriteProtect:
      return "SPACE ALLOCATION FAILED WRITE PROTECT";
    case AdditionalSense::kPowerOnResetOrBusDeviceReset:
      return "POWER ON, RESET, OR BUS DEVICE RESET OCCURRED";
    case AdditionalSense::kPowerOn:
      return "POWER ON OCCURRED";
    case AdditionalSense::kScsiBusReset:
      return "SCSI BUS RESET OCCURRED";
    case AdditionalSense::kBusDeviceResetFunctionOccurred:
      return "BUS DEVICE RESET FUNCTION OCCURRED";
    case AdditionalSense::kITNexusLoss:
      return "I_T NEXUS LOSS OCCURRED";
    case AdditionalSense::kModeParametersChanged:
      return "MODE PARAMETERS CHANGED";
    case AdditionalSense::kCapacityDataHasChanged:
      return "CAPACITY DATA HAS CHANGED";
    case AdditionalSense::kCommandsClearedByAnotherInitiator:
      return "COMMANDS CLEARED BY ANOTHER INITIATOR";
    case AdditionalSense::kSavingParametersNotSupported:
      return "SAVING PARAMETERS NOT SUPPORTED";
    case AdditionalSense::kMediumNotPresent:
      return "MEDIUM NOT PRESENT";
    case AdditionalSense::kLogicalUnitFailedSelfTest:
      return "LOGICAL UNIT FAILED SELF-TEST";
    case AdditionalSense::kInquiryDataHasChanged:
      return "INQUIRY DATA HAS CHANGED";
    case AdditionalSense::kReportedLunsDataHasChanged:
      return "REPORTED LUNS DATA HAS CHANGED";
    case AdditionalSense::kInternalTargetFailure:
      return "INTERNAL TARGET FAILURE";
    case AdditionalSense::kProtocolServiceCrcError:
      return "PROTOCOL SERVICE CRC ERROR";
    case AdditionalSense::kInvalidMessageError:
      return "INVALID MESSAGE ERROR";
    case AdditionalSense::kDataPhaseError:
      return "DATA PHASE ERROR";
    case AdditionalSense::kInitiatorResponseTimeout:
      return "INITIATOR RESPONSE TIMEOUT";
    case AdditionalSense::kOverlappedCommands:
      return "OVERLAPPED COMMANDS ATTEMPTED";
    case AdditionalSense::kInsufficientResources:
      return "INSUFFICIENT RESOURCES";
  }
  return "";
}

std::string DescribeSense(const SenseData& sense) {
  const uint16_t code = static_cast<uint16_t>(sense.code);
  const absl::string_view name = AdditionalSenseName(sense.code);
  std::string text(SenseKeyName(sense.key));
  if (!name.empty()) absl::StrAppend(&text, ", ", name);
  absl::StrAppendFormat(&text, " (%02Xh/%02Xh)", code >> 8, code & 0xff);
  if (sense.deferred) absl::StrAppend(&text, ", deferred");
  if (sense.field_pointer.has_value()) {
    absl::StrAppend(&text,
                    sense.field_pointer->in_cdb ? ", CDB" : ", parameter list",
                    " byte ", sense.field_pointer->byte);
    if (sense.field_pointer->bit.has_value()) {
      absl::StrAppend(&text, " bit ", int{*sense.field_pointer->bit});
    }
  }
  if (sense.information.has_value()) {
    absl::StrAppend(&text, ", information ", *sense.information);
  }
  if (sense.command_specific.has_value()) {
    absl::StrAppend(&text, ", command-specific information ",
                    *sense.command_specific);
  }
  return text;
}

}  // namespace skiff::scsi
