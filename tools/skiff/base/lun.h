#ifndef SKIFF_TOOLS_SKIFF_BASE_LUN_H_
#define SKIFF_TOOLS_SKIFF_BASE_LUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/disk.h"
#include "scsi/initiator/disk_info.h"
#include "scsi/initiator/inquiry_data.h"
#include "scsi/sense.h"
#include "tools/skiff/base/client.h"

namespace skiff::tools {

// A logical unit of a session, used as a disk.
class Lun {
 public:
  // An error for what is no disk; for a LUN that is not there it names those
  // that are.
  static absl::StatusOr<std::unique_ptr<Lun>> Open(Session* session,
                                                   uint32_t lun);
  Lun(const Lun&) = delete;
  Lun& operator=(const Lun&) = delete;
  ~Lun();  // Only when no I/O is pending.

  Session* session() const { return session_; }
  uint64_t wire() const { return wire_; }  // As in Command::lun.
  const scsi::DiskInfo& info() const { return disk_->info(); }
  // Lives on the session's reactor.
  scsi::Disk* disk() const { return disk_.get(); }
  // Makes acknowledged writes stable. Blocks.
  absl::Status Flush();

 private:
  Lun(Session* session, uint64_t wire) : session_(session), wire_(wire) {}

  void OnRecoveredError(const scsi::SenseData& sense);

  Session* const session_;
  const uint64_t wire_;
  uint64_t recovered_errors_ = 0;  // On the session's reactor.
  std::unique_ptr<scsi::Disk> disk_;
};

// Sends a command that returns data; the data are what arrived, `allocated` at
// most.
absl::StatusOr<std::vector<uint8_t>> Fetch(Session* session, uint64_t wire,
                                           const scsi::Cdb& cdb,
                                           uint32_t allocated);

// An error that names the LUNs that the target has, or the first of them.
absl::Status NoSuchLun(Session* session, uint32_t lun);

absl::StatusOr<scsi::InquiryData> FetchInquiry(Session* session, uint64_t wire);
absl::StatusOr<std::vector<uint64_t>> FetchLuns(Session* session);
// As in Command::lun. There are two ways to write numbers above 255, and
// targets that know one of them only: it is the one that they list.
uint64_t WireLun(Session* session, uint32_t lun);
absl::StatusOr<std::vector<uint8_t>> FetchVpd(Session* session, uint64_t wire,
                                              uint8_t page);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_LUN_H_
