#ifndef SKIFF_SCSI_TARGET_NEXUS_IDENTITY_H_
#define SKIFF_SCSI_TARGET_NEXUS_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace skiff::scsi {

// PROTOCOL IDENTIFIER, SPC-4 section 7.6.1. Whoever adds a front end adds its
// protocol.
enum class ProtocolIdentifier : uint8_t { kIscsi = 0x5, kNoSpecific = 0xf };

// Which I_T nexus one is, in the names of SAM-5 section 4.5: what a port says
// of it, and all that device servers and policies know. Two nexuses of one
// target with equal identities never are at once; one that follows another is
// the same initiator port again, also after a restart.
struct NexusIdentity {
  ProtocolIdentifier protocol = ProtocolIdentifier::kNoSpecific;
  std::string initiator = {};  // SCSI initiator device name: "iqn...".
  // SCSI initiator port name: "iqn...,i,0xISID".
  std::string initiator_port = {};
  std::string target_port = {};  // SCSI target port name: "iqn...,t,0xTPGT".
  // RELATIVE TARGET PORT IDENTIFIER, from 1: of the port in its target.
  uint16_t relative_target_port = 1;

  bool operator==(const NexusIdentity&) const = default;

  // For logs.
  std::string ToString() const {
    return absl::StrCat(initiator_port, " at ", target_port);
  }
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_NEXUS_IDENTITY_H_
