#ifndef SKIFF_SCSI_INITIATOR_DISK_INFO_H_
#define SKIFF_SCSI_INITIATOR_DISK_INFO_H_

#include <cstdint>
#include <string>

namespace skiff::scsi {

// What a disk said about itself. Zero limits mean that it named none.
struct DiskInfo {
  std::string vendor;
  std::string product;
  std::string revision;
  std::string serial;      // Empty if there is none.
  std::string identifier;  // "naa.6001405...": unique in the world, or empty.

  uint64_t size_bytes = 0;
  uint32_t block_size = 512;  // All offsets and lengths are multiples.
  uint32_t physical_block_size = 512;
  bool read_only = false;
  bool rotational = false;
  // Acknowledged writes may be lost until flushed. True when it did not say.
  bool volatile_write_cache = true;
  bool dpo_fua = false;  // Knows FUA; otherwise fua means a flush afterwards.

  uint64_t max_transfer_bytes = 0;      // Longer I/O is split.
  uint64_t optimal_transfer_bytes = 0;  // No limit, only a hint.
  bool unmap = false;                   // Unmap works.
  bool unmapped_reads_zeroes = false;
  uint64_t max_unmap_bytes = 0;
  uint32_t unmap_granularity_bytes = 0;
  uint32_t unmap_alignment_bytes = 0;  // Offset of the first aligned granule.
  bool unmap_command = false;          // By UNMAP; else by WRITE SAME.
  bool write_same_unmap = false;       // WRITE SAME (16) may unmap.
  uint64_t max_write_same_bytes = 0;
  uint32_t max_compare_and_write_bytes = 0;  // 0: not supported.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_DISK_INFO_H_
