#ifndef SKIFF_SCSI_INITIATOR_DISK_PROBE_H_
#define SKIFF_SCSI_INITIATOR_DISK_PROBE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scsi/initiator/disk_info.h"
#include "scsi/initiator/inquiry_data.h"
#include "scsi/initiator/retrying_command.h"

namespace skiff::scsi {

// Asks a logical unit what it is, one command after the other.
class DiskProbe {
 public:
  explicit DiskProbe(const RetryingCommand::Environment* environment);

  // `on_done` runs once; with OK, info() is filled.
  void Start(absl::AnyInvocable<void(absl::Status)> on_done);
  void Stop() { command_.Stop(); }
  bool running() const { return static_cast<bool>(on_done_); }
  const DiskInfo& info() const { return info_; }

 private:
  enum class Step : uint8_t {
    kInquiry,
    kReady,
    kVpdPages,
    kSerial,
    kIdentification,
    kBlockLimits,
    kCharacteristics,
    kProvisioning,
    kCapacity16,
    kCapacity10,
    kCachingPage,
    kAllPages,
    kDone,
  };

  void Run(Step step);
  void Next();
  bool Wanted(Step step) const;
  void OnCommandDone();
  // What each step's answer means. An error ends the probe.
  absl::Status Learn(absl::Span<const uint8_t> data);
  absl::Status LearnInquiry(absl::Span<const uint8_t> data);
  absl::Status LearnProvisioning(absl::Span<const uint8_t> data);
  absl::Status LearnCapacity(absl::Span<const uint8_t> data);
  absl::Status LearnMode(absl::Span<const uint8_t> data);
  // Whether the disk may refuse the step's command.
  bool Optional() const;
  void Conclude();
  void Finish(absl::Status status);

  absl::AnyInvocable<void(absl::Status)> on_done_;
  RetryingCommand command_;
  Step step_ = Step::kDone;
  DiskInfo info_;
  std::vector<uint8_t> vpd_pages_;
  BlockLimits limits_;
  bool capacity_known_ = false;
  bool mode_known_ = false;
  std::array<uint8_t, 1024> buffer_;
  iovec element_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_DISK_PROBE_H_
