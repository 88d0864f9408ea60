#include "tools/clients/libiscsi/names.h"

#include <cstddef>

#include "tools/clients/libiscsi/export.h"

// Words for numbers. Programs print them, so they are those of libiscsi where
// it has some.
namespace skiff::libiscsi {
namespace {

struct Name {
  int number;
  const char* text;
};

template <size_t kCount>
const char* Find(const Name (&names)[kCount], int number) {
  for (const Name& name : names) {
    if (name.number == number) return name.text;
  }
  return "unknown";
}

}  // namespace

FACE const char* scsi_sense_key_str(int key) {
  static constexpr Name kNames[] = {
      {0x0, "NO SENSE"},        {0x1, "RECOVERED ERROR"},
      {0x2, "NOT READY"},       {0x3, "MEDIUM ERROR"},
      {0x4, "HARDWARE_ERROR"},  {0x5, "ILLEGAL_REQUEST"},
      {0x6, "UNIT_ATTENTION"},  {0x7, "DATA PROTECTION"},
      {0x8, "BLANK CHECK"},     {0x9, "VENDOR SPECIFIC"},
      {0xa, "COPY ABORTED"},    {0xb, "COMMAND ABORTED"},
      {0xd, "VOLUME OVERFLOW"}, {0xe, "MISCOMPARE"},
  };
  return Find(kNames, key);
}

FACE const char* scsi_sense_ascq_str(int ascq) {
  static constexpr Name kNames[] = {
      {0x0000, "NO ADDITIONAL SENSE"},
      {0x041b, "SANITIZE_IN_PROGRESS"},
      {0x0c00, "WRITE_ERROR"},
      {0x1100, "UNRECOVERED_READ_ERROR"},
      {0x1115, "WRITE_AFTER_SANITIZE_REQUIRED"},
      {0x1a00, "PARAMETER_LIST_LENGTH_ERROR"},
      {0x1d00, "MISCOMPARE_DURING_VERIFY"},
      {0x1d01, "MISCOMPARE_VERIFY_OF_UNMAPPED_LBA"},
      {0x2000, "INVALID_OPERATION_CODE"},
      {0x2100, "LBA_OUT_OF_RANGE"},
      {0x2400, "INVALID_FIELD_IN_CDB"},
      {0x2500, "LOGICAL_UNIT_NOT_SUPPORTED"},
      {0x2600, "INVALID_FIELD_IN_PARAMETER_LIST"},
      {0x2700, "WRITE_PROTECTED"},
      {0x2701, "HARDWARE_WRITE_PROTECTED"},
      {0x2702, "SOFTWARE_WRITE_PROTECTED"},
      {0x2900, "BUS_RESET"},
      {0x2901, "POWER_ON_OCCURED"},
      {0x2902, "SCSI_BUS_RESET_OCCURED"},
      {0x2903, "BUS_DEVICE_RESET_FUNCTION_OCCURED"},
      {0x2904, "DEVICE_INTERNAL_RESET"},
      {0x2907, "I_T NEXUS LOSS OCCURRED"},
      {0x2a01, "MODE PARAMETERS CHANGED"},
      {0x2a09, "CAPACITY_DATA_HAS_CHANGED"},
      {0x3807, "THIN PROVISIONING SOFT THRESHOLD REACHED"},
      {0x3a00, "MEDIUM_NOT_PRESENT"},
      {0x3a01, "MEDIUM_NOT_PRESENT-TRAY_CLOSED"},
      {0x3a02, "MEDIUM_NOT_PRESENT-TRAY_OPEN"},
      {0x3f03, "INQUIRY DATA HAS CHANGED"},
      {0x3f0e, "REPORTED LUNS DATA HAS CHANGED"},
      {0x4400, "INTERNAL_TARGET_FAILURE"},
      {0x5300, "MEDIUM_LOAD_OR_EJECT_FAILED"},
      {0x5302, "MEDIUM_REMOVAL_PREVENTED"},
  };
  return Find(kNames, ascq);
}

FACE const char* scsi_pr_type_str(int type) {
  static constexpr Name kNames[] = {
      {1, "Write Exclusive"},
      {3, "Exclusive Access"},
      {5, "Write Exclusive, Registrants Only"},
      {6, "Exclusive Access Registrants Only"},
      {7, "Write Exclusive, All Registrants"},
      {8, "Exclusive Access, All Registrants"},
  };
  return Find(kNames, type);
}

FACE const char* scsi_devtype_to_str(int type) {
  static constexpr Name kNames[] = {
      {0x00, "DIRECT_ACCESS"},
      {0x01, "SEQUENTIAL_ACCESS"},
      {0x02, "PRINTER"},
      {0x03, "PROCESSOR"},
      {0x04, "WRITE_ONCE"},
      {0x05, "MMC"},
      {0x06, "SCANNER"},
      {0x07, "OPTICAL_MEMORY"},
      {0x08, "MEDIA_CHANGER"},
      {0x09, "COMMUNICATIONS"},
      {0x0c, "STORAGE_ARRAY_CONTROLLER"},
      {0x0d, "ENCLOSURE_SERVICES"},
      {0x0e, "SIMPLIFIED_DIRECT_ACCESS"},
      {0x0f, "OPTICAL_CARD_READER"},
      {0x10, "BRIDGE_CONTROLLER"},
      {0x11, "OSD"},
      {0x12, "AUTOMATION"},
      {0x13, "SEQURITY_MANAGER"},
      {0x1e, "WELL_KNOWN_LUN"},
      {0x1f, "UNKNOWN"},
  };
  return Find(kNames, type);
}

FACE const char* scsi_devqualifier_to_str(int qualifier) {
  static constexpr Name kNames[] = {
      {0, "CONNECTED"},
      {1, "DISCONNECTED"},
      {3, "NOT_SUPPORTED"},
  };
  return Find(kNames, qualifier);
}

FACE const char* scsi_version_to_str(int version) {
  static constexpr Name kNames[] = {
      {3, "ANSI INCITS 301-1997 (SPC)"},
      {4, "ANSI INCITS 351-2001 (SPC-2)"},
      {5, "ANSI INCITS 408-2005 (SPC-3)"},
  };
  return Find(kNames, version);
}

// SPC-4 annex E.
FACE const char* scsi_version_descriptor_to_str(int descriptor) {
  static constexpr Name kNames[] = {
      {0x0120, "SPC"},
      {0x013b, "SPC T10/0995-D revision 11a"},
      {0x013c, "SPC ANSI INCITS 301-1997"},
      {0x0180, "SBC"},
      {0x019b, "SBC T10/0996-D revision 08c"},
      {0x019c, "SBC ANSI INCITS 306-1998"},
      {0x0200, "SSC"},
      {0x0260, "SPC-2"},
      {0x0276, "SPC-2 T10/1236-D revision 20"},
      {0x0277, "SPC-2 ANSI INCITS 351-2001"},
      {0x0278, "SPC-2 ISO.IEC 14776-452"},
      {0x0300, "SPC-3"},
      {0x0312, "SPC-3 T10/1416-D revision 23"},
      {0x0314, "SPC-3 ANSI INCITS 408-2005"},
      {0x0316, "SPC-3 ISO/IEC 14776-453"},
      {0x0320, "SBC-2"},
      {0x033b, "SBC-2 T10/1417-D revision 16"},
      {0x033d, "SBC-2 ANSI INCITS 405-2005"},
      {0x033e, "SBC-2 ISO/IEC 14776-322"},
      {0x0460, "SPC-4"},
      {0x0463, "SPC-4 T10/1731-D revision 23"},
      {0x04c0, "SBC-3"},
      {0x0960, "iSCSI"},
      {0x1747, "UAS T10/2095-D revision 04"},
  };
  return Find(kNames, descriptor);
}

FACE const char* scsi_inquiry_pagecode_to_str(int page_code) {
  static constexpr Name kNames[] = {
      {0x00, "SUPPORTED_VPD_PAGES"},
      {0x80, "UNIT_SERIAL_NUMBER"},
      {0x83, "DEVICE_IDENTIFICATION"},
      {0xb0, "BLOCK_LIMITS"},
      {0xb1, "BLOCK_DEVICE_CHARACTERISTICS"},
      {0xb2, "LOGICAL_BLOCK_PROVISIONING"},
  };
  return Find(kNames, page_code);
}

FACE const char* scsi_protocol_identifier_to_str(int identifier) {
  static constexpr Name kNames[] = {
      {0, "FIBRE_CHANNEL"}, {1, "PARALLEL_SCSI"}, {2, "SSA"},
      {3, "IEEE_1394"},     {4, "RDMA"},          {5, "ISCSI"},
      {6, "SAS"},           {7, "ADT"},           {8, "ATA"},
  };
  return Find(kNames, identifier);
}

FACE const char* scsi_codeset_to_str(int code_set) {
  static constexpr Name kNames[] = {{1, "BINARY"}, {2, "ASCII"}, {3, "UTF8"}};
  return Find(kNames, code_set);
}

FACE const char* scsi_association_to_str(int association) {
  static constexpr Name kNames[] = {
      {0, "LOGICAL_UNIT"},
      {1, "TARGET_PORT"},
      {2, "TARGET_DEVICE"},
  };
  return Find(kNames, association);
}

FACE const char* scsi_designator_type_to_str(int type) {
  static constexpr Name kNames[] = {
      {0, "VENDOR_SPECIFIC"},
      {1, "T10_VENDORT_ID"},
      {2, "EUI_64"},
      {3, "NAA"},
      {4, "RELATIVE_TARGET_PORT"},
      {5, "TARGET_PORT_GROUP"},
      {6, "LOGICAL_UNIT_GROUP"},
      {7, "MD5_LOGICAL_UNIT_IDENTIFIER"},
      {8, "SCSI_NAME_STRING"},
  };
  return Find(kNames, type);
}

}  // namespace skiff::libiscsi
