#ifndef SKIFF_SCSI_TARGET_LOGICAL_UNIT_H_
#define SKIFF_SCSI_TARGET_LOGICAL_UNIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scsi/backend/backend.h"
#include "scsi/sense.h"
#include "scsi/target/command_counters.h"
#include "scsi/target/io_failure.h"
#include "scsi/target/medium.h"
#include "scsi/target/mode_pages.h"
#include "scsi/target/target.h"

namespace skiff::scsi {

// What all nexuses share of a logical unit: a medium under a LUN, with its
// identifiers and mode pages there. Constant after creation, or atomic,
// or locked: used from every reactor.
class LogicalUnit {
 public:
  // Limits reported in the Block Limits VPD page. UNMAP's parameter list fits
  // a small buffer; COMPARE AND WRITE's two halves fit a large one.
  static constexpr uint32_t kMaxUnmapDescriptors = 256;
  static constexpr uint32_t kMaxUnmapBlocks = 1u << 20;
  static constexpr uint32_t kMaxCompareAndWriteBytes = 64u << 10;

  static absl::StatusOr<std::shared_ptr<LogicalUnit>> Create(
      absl::string_view target_name, const std::shared_ptr<Backend>& backend,
      const LogicalUnitOptions& options);
  LogicalUnit(const LogicalUnit&) = delete;
  LogicalUnit& operator=(const LogicalUnit&) = delete;
  // Whoever uses it holds it: nothing is in flight any more.
  ~LogicalUnit();

  // Runs when it is gone. Once, by who removes it and holds it meanwhile.
  void set_on_gone(LogicalUnitRemoved on_gone) {
    on_gone_ = std::move(on_gone);
  }

  uint64_t lun() const { return options_.lun; }
  const LogicalUnitOptions& options() const { return options_; }
  const std::string& serial() const { return serial_; }
  absl::string_view target_name() const { return target_name_; }
  // NAA format 3 (locally assigned), see VPD page 83h.
  uint64_t naa() const { return naa_; }
  Medium& medium() const { return *medium_; }
  Backend& backend() const { return medium_->backend(); }
  uint8_t* memory() const { return medium_->memory(); }
  // Takes a lock.
  BackendInfo info() const { return medium_->info(); }
  bool read_only() const { return medium_->read_only(); }
  bool thin() const { return medium_->thin(); }
  bool volatile_write_cache() const { return medium_->volatile_write_cache(); }
  uint32_t block_size() const { return medium_->block_size(); }
  uint32_t block_shift() const { return medium_->block_shift(); }
  uint64_t block_count() const { return medium_->block_count(); }
  uint32_t max_transfer_blocks() const { return max_transfer_blocks_; }
  uint32_t max_compare_and_write_blocks() const;
  // LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
  uint8_t physical_block_exponent() const;

  // The unit attentions that tell how the medium differs from what they told
  // last, or from what it was at first; of the capacity, if in nothing. Not
  // thread-safe: for the target.
  std::vector<AdditionalSense> TakeChanges();

  FailureCounters& failures() { return failures_; }
  // Of the commands of all nexuses, also of those that have ended.
  CommandTotals& totals() { return totals_; }
  LogicalUnitStatus Status() const;

  ModePages& mode_pages() { return mode_pages_; }
  const ModePages& mode_pages() const { return mode_pages_; }

 private:
  LogicalUnit(absl::string_view target_name, std::shared_ptr<Medium> medium,
              const LogicalUnitOptions& options);

  const std::string target_name_;
  std::shared_ptr<Medium> medium_;  // Constant until the end.
  const LogicalUnitOptions options_;
  const uint32_t max_transfer_blocks_;
  std::string serial_;
  uint64_t naa_ = 0;
  FailureCounters failures_;
  CommandTotals totals_;
  ModePages mode_pages_;
  BackendInfo told_;  // See TakeChanges().
  LogicalUnitRemoved on_gone_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_LOGICAL_UNIT_H_
