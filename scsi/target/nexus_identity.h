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

  // What policies may want to know besides. Neither makes it another nexus: the
  // same port may come by another way.
  //
  // The name whose secret the initiator has shown to know; empty: it was not
  // asked for one.
  std::string authenticated_as = {};
  // Its network address, numeric and without a port: "10.0.0.1", "fe80::1".
  // Empty, or other text: its network has no such addresses.
  std::string address = {};

  // Whether both are one nexus.
  bool operator==(const NexusIdentity& other) const {
    return protocol == other.protocol && initiator == other.initiator &&
           initiator_port == other.initiator_port &&
           target_port == other.target_port &&
           relative_target_port == other.relative_target_port;
  }

  // For logs.
  std::string ToString() const {
    return absl::StrCat(initiator_port, " at ", target_port);
  }
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_NEXUS_IDENTITY_H_
