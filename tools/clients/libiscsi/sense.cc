#include "tools/clients/libiscsi/sense.h"

#include <cstdio>

#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/names.h"

namespace skiff::libiscsi {
namespace {

constexpr unsigned char kDescriptorFormat = 0x72;
constexpr unsigned char kSenseKeySpecific = 0x02;

// Three bytes (SPC-4 section 4.5.2.4.2).
void ParseFieldPointer(const unsigned char* bytes, scsi_sense* sense) {
  sense->sense_specific = (bytes[0] & 0x80) != 0;
  sense->ill_param_in_cdb = (bytes[0] & 0x40) != 0;
  sense->bit_pointer_valid = (bytes[0] & 0x08) != 0;
  sense->bit_pointer = bytes[0] & 0x07;
  sense->field_pointer = static_cast<uint16_t>(bytes[1] << 8 | bytes[2]);
}

}  // namespace

scsi_sense ParseSense(const unsigned char* bytes) {
  scsi_sense sense = {};
  sense.error_type = bytes[0] & 0x7f;
  if ((sense.error_type & 0x7e) == kDescriptorFormat) {
    sense.key = bytes[1] & 0x0f;
    sense.ascq = bytes[2] << 8 | bytes[3];
    // The first descriptor, if it is that one: 8 bytes.
    if (bytes[7] >= 8 && bytes[8] == kSenseKeySpecific) {
      ParseFieldPointer(bytes + 12, &sense);
    }
  } else {
    sense.key = bytes[2] & 0x0f;
    sense.ascq = bytes[12] << 8 | bytes[13];
    // A short one ends before.
    if (bytes[7] >= 10) ParseFieldPointer(bytes + 15, &sense);
  }
  return sense;
}

std::string DescribeSense(const scsi_sense& sense) {
  const std::string key = scsi_sense_key_str(sense.key);
  const std::string code = scsi_sense_ascq_str(sense.ascq);
  char ascq[8];
  snprintf(ascq, sizeof(ascq), "0x%04x", sense.ascq & 0xffff);
  return "SENSE KEY:" + key + "(" + std::to_string(sense.key) +
         ") ASCQ:" + code + "(" + ascq + ")";
}

FACE void scsi_parse_sense_data(scsi_sense* sense, const uint8_t* bytes) {
  if (sense != nullptr && bytes != nullptr) *sense = ParseSense(bytes);
}

}  // namespace skiff::libiscsi
