#ifndef SKIFF_SCSI_TARGET_NEXUS_STATE_H_
#define SKIFF_SCSI_TARGET_NEXUS_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace skiff::scsi {

// What a nexus without tasks is, so that another process goes on with it
// (Nexus::State, Nexus::Restore). Unit attentions are additional sense codes
// with their qualifiers, in the order in which they will be reported.
struct NexusState {
  struct Lu {
    uint64_t seen = 0;   // The LUN that the initiator knows.
    std::string serial;  // Tells whether it is still the same one.
    uint64_t size_bytes = 0;
    uint32_t block_size = 0;
    std::string mode_pages;  // The current values.
    std::vector<uint16_t> unit_attentions;
  };
  std::vector<Lu> lus;
  std::vector<uint16_t> report_luns_unit_attentions;  // Of the well-known LUN.
};

// What all nexuses of a target share, beside the media.
struct TargetState {
  struct Lu {
    uint64_t lun = 0;
    std::string serial;
    std::string mode_pages;  // The current values.
  };
  std::vector<Lu> lus;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_NEXUS_STATE_H_
