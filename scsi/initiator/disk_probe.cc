#include "scsi/initiator/disk_probe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/parameter_data.h"
#include "scsi/initiator/scsi_error.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kDirectAccessBlockDevice = 0x00;
constexpr uint8_t kAllModePages = 0x3f;
constexpr uint8_t kInquiryLength = 96;
constexpr uint8_t kReadCapacity16Length = 32;
constexpr uint8_t kModeLength = 252;

bool IsIllegalRequest(const absl::Status& status) {
  const std::optional<ScsiError> error = GetScsiError(status);
  return error.has_value() && error->sense.has_value() &&
         error->sense->key == SenseKey::kIllegalRequest;
}

// A number of blocks in bytes; what does not fit is no limit.
uint64_t InBytes(uint64_t blocks, uint32_t block_size) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return blocks > kMax / block_size ? kMax : blocks * block_size;
}

uint32_t InBytes32(uint64_t blocks, uint32_t block_size) {
  return static_cast<uint32_t>(std::min<uint64_t>(
      InBytes(blocks, block_size), std::numeric_limits<uint32_t>::max()));
}

}  // namespace

DiskProbe::DiskProbe(const RetryingCommand::Environment* environment)
    : command_(
          environment,
          [](RetryingCommand* command) {
            static_cast<DiskProbe*>(command->context())->OnCommandDone();
          },
          this),
      element_{buffer_.data(), buffer_.size()} {}

void DiskProbe::Start(absl::AnyInvocable<void(absl::Status)> on_done) {
  on_done_ = std::move(on_done);
  info_ = DiskInfo();
  vpd_pages_.clear();
  limits_ = BlockLimits();
  capacity_known_ = false;
  mode_known_ = false;
  Run(Step::kInquiry);
}

void DiskProbe::Run(Step step) {
  step_ = step;
  Cdb cdb;
  uint16_t length = static_cast<uint16_t>(buffer_.size());
  switch (step) {
    case Step::kInquiry:
      length = kInquiryLength;
      cdb = cdb::Inquiry(length);
      break;
    case Step::kReady:
      length = 0;
      cdb = cdb::TestUnitReady();
      break;
    case Step::kVpdPages:
      cdb = cdb::InquiryVpd(kVpdSupportedPages, length);
      break;
    case Step::kSerial:
      cdb = cdb::InquiryVpd(kVpdUnitSerialNumber, length);
      break;
    case Step::kIdentification:
      cdb = cdb::InquiryVpd(kVpdDeviceIdentification, length);
      break;
    case Step::kBlockLimits:
      cdb = cdb::InquiryVpd(kVpdBlockLimits, length);
      break;
    case Step::kCharacteristics:
      cdb = cdb::InquiryVpd(kVpdBlockDeviceCharacteristics, length);
      break;
    case Step::kProvisioning:
      cdb = cdb::InquiryVpd(kVpdLogicalBlockProvisioning, length);
      break;
    case Step::kCapacity16:
      length = kReadCapacity16Length;
      cdb = cdb::ReadCapacity16(length);
      break;
    case Step::kCapacity10:
      length = 8;
      cdb = cdb::ReadCapacity10();
      break;
    case Step::kCachingPage:
      length = kModeLength;
      cdb = cdb::ModeSense6(kCachingModePage, 0, kModeLength);
      break;
    case Step::kAllPages:
      length = kModeLength;
      cdb = cdb::ModeSense6(kAllModePages, 0, kModeLength);
      break;
    case Step::kDone:
      return Conclude();
  }
  command_.Prepare();
  SetCdb(cdb, command_.command());
  element_.iov_len = length;
  command_.command()->data_in = &element_;
  command_.command()->data_in_count = length > 0 ? 1 : 0;
  command_.command()->data_in_length = length;
  command_.Start();
}

bool DiskProbe::Wanted(Step step) const {
  const auto listed = [this](uint8_t page) {
    return std::find(vpd_pages_.begin(), vpd_pages_.end(), page) !=
           vpd_pages_.end();
  };
  switch (step) {
    case Step::kSerial:
      return listed(kVpdUnitSerialNumber);
    case Step::kIdentification:
      return listed(kVpdDeviceIdentification);
    case Step::kBlockLimits:
      return listed(kVpdBlockLimits);
    case Step::kCharacteristics:
      return listed(kVpdBlockDeviceCharacteristics);
    case Step::kProvisioning:
      return listed(kVpdLogicalBlockProvisioning);
    case Step::kCapacity10:
      return !capacity_known_;
    case Step::kAllPages:
      return !mode_known_;
    default:
      return true;
  }
}

void DiskProbe::Next() {
  Step step = step_;
  do {
    step = static_cast<Step>(static_cast<uint8_t>(step) + 1);
  } while (!Wanted(step));
  Run(step);
}

bool DiskProbe::Optional() const {
  return step_ != Step::kInquiry && step_ != Step::kReady &&
         step_ != Step::kCapacity10;
}

void DiskProbe::OnCommandDone() {
  absl::Status status = command_.status();
  if (status.ok()) {
    status = Learn(absl::MakeConstSpan(buffer_.data(), command_.received()));
  } else if (Optional() && IsIllegalRequest(status)) {
    status = absl::OkStatus();
  }
  if (!status.ok()) return Finish(std::move(status));
  Next();
}

absl::Status DiskProbe::Learn(absl::Span<const uint8_t> data) {
  switch (step_) {
    case Step::kInquiry:
      return LearnInquiry(data);
    case Step::kVpdPages: {
      auto pages = ParseSupportedVpdPages(data);
      if (!pages.ok()) return pages.status();
      vpd_pages_ = *std::move(pages);
      return absl::OkStatus();
    }
    // Names are good to have, but many a disk works well with odd ones.
    case Step::kSerial:
      info_.serial = ParseUnitSerialNumber(data).value_or("");
      return absl::OkStatus();
    case Step::kIdentification: {
      const auto designators = ParseDeviceIdentification(data);
      if (!designators.ok()) return absl::OkStatus();
      const Designator* best = BestLogicalUnitDesignator(*designators);
      if (best != nullptr) info_.identifier = best->ToString();
      return absl::OkStatus();
    }
    case Step::kBlockLimits: {
      const auto limits = ParseBlockLimits(data);
      if (limits.ok()) limits_ = *limits;
      return limits.status();
    }
    case Step::kCharacteristics: {
      const auto characteristics = ParseBlockDeviceCharacteristics(data);
      if (!characteristics.ok()) return characteristics.status();
      info_.rotational = characteristics->rotation_rate > 1;
      return absl::OkStatus();
    }
    case Step::kProvisioning:
      return LearnProvisioning(data);
    case Step::kCapacity16:
    case Step::kCapacity10:
      return LearnCapacity(data);
    case Step::kCachingPage:
    case Step::kAllPages:
      return LearnMode(data);
    case Step::kReady:
    case Step::kDone:
      break;
  }
  return absl::OkStatus();
}

absl::Status DiskProbe::LearnInquiry(absl::Span<const uint8_t> data) {
  absl::StatusOr<InquiryData> inquiry = ParseInquiry(data);
  if (!inquiry.ok()) return inquiry.status();
  if (inquiry->peripheral_qualifier != 0) {
    return absl::NotFoundError(
        absl::StrCat("the target has no logical unit ",
                     absl::Hex(command_.command()->lun, absl::kZeroPad16),
                     "h (REPORT LUNS lists those that it has)"));
  }
  if (inquiry->device_type != kDirectAccessBlockDevice) {
    return absl::FailedPreconditionError(
        absl::StrCat("the logical unit is no disk but of device type ",
                     absl::Hex(inquiry->device_type, absl::kZeroPad2), "h"));
  }
  info_.vendor = std::move(inquiry->vendor);
  info_.product = std::move(inquiry->product);
  info_.revision = std::move(inquiry->revision);
  return absl::OkStatus();
}

absl::Status DiskProbe::LearnProvisioning(absl::Span<const uint8_t> data) {
  const auto provisioning = ParseLogicalBlockProvisioning(data);
  if (!provisioning.ok()) return provisioning.status();
  info_.unmap_command = provisioning->unmap &&
                        limits_.max_unmap_lba_count > 0 &&
                        limits_.max_unmap_descriptor_count > 0;
  info_.write_same_unmap = provisioning->write_same_16;
  info_.unmap = info_.unmap_command || info_.write_same_unmap;
  return absl::OkStatus();
}

absl::Status DiskProbe::LearnCapacity(absl::Span<const uint8_t> data) {
  const absl::StatusOr<Capacity> capacity = step_ == Step::kCapacity16
                                                ? ParseReadCapacity16(data)
                                                : ParseReadCapacity10(data);
  if (!capacity.ok()) return capacity.status();
  // Of a disk with protection information, commands without RDPROTECT and
  // WRPROTECT see the data alone (SBC-3 section 4.22): it is one like others.
  capacity_known_ = true;
  info_.block_size = capacity->block_size;
  info_.size_bytes = capacity->block_count * capacity->block_size;
  info_.physical_block_size =
      InBytes32(capacity->blocks_per_physical_block, capacity->block_size);
  info_.unmapped_reads_zeroes = capacity->unmapped_reads_zeroes;
  return absl::OkStatus();
}

absl::Status DiskProbe::LearnMode(absl::Span<const uint8_t> data) {
  const auto mode = ParseModeSense6(data, kCachingModePage);
  if (!mode.ok()) return mode.status();
  mode_known_ = true;
  info_.read_only = mode->write_protected;
  info_.dpo_fua = mode->dpo_fua;
  info_.volatile_write_cache = WriteCacheEnabled(*mode);
  return absl::OkStatus();
}

// The limits are in blocks, whose size comes only later.
void DiskProbe::Conclude() {
  const uint32_t block = info_.block_size;
  info_.max_transfer_bytes = InBytes(limits_.max_transfer_length, block);
  info_.optimal_transfer_bytes =
      InBytes(limits_.optimal_transfer_length, block);
  info_.max_unmap_bytes = InBytes(limits_.max_unmap_lba_count, block);
  info_.unmap_granularity_bytes =
      InBytes32(limits_.optimal_unmap_granularity, block);
  info_.unmap_alignment_bytes =
      InBytes32(limits_.unmap_granularity_alignment, block);
  info_.max_write_same_bytes = InBytes(limits_.max_write_same_length, block);
  info_.max_compare_and_write_bytes =
      limits_.max_compare_and_write_length * block;
  Finish(absl::OkStatus());
}

void DiskProbe::Finish(absl::Status status) {
  // The callback may start the next probe.
  auto on_done = std::exchange(on_done_, nullptr);
  on_done(std::move(status));
}

}  // namespace skiff::scsi
