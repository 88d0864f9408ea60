#include "scsi/target/logical_unit.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace skiff::scsi {
namespace {

constexpr uint64_t kMaxLun = 16383;
constexpr uint64_t kNaaLocallyAssigned = uint64_t{3} << 60;

// FNV-1a: the identifiers must be the same in every run and on every machine.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

// SPC-4 section 4.4.1: left-aligned ASCII data is 20h to 7Eh.
absl::Status CheckText(uint64_t lun, absl::string_view what,
                       absl::string_view text, size_t max_length) {
  if (text.size() > max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN ", lun, ": ", what, " \"", text, "\" has more than ",
                     max_length, " characters"));
  }
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) {
      return absl::InvalidArgumentError(
          absl::StrCat("LUN ", lun, ": ", what,
                       " has a character outside of ASCII 20h-7Eh"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMedium(uint64_t lun, const BackendInfo& info) {
  if (info.block_size != 512 && info.block_size != 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN ", lun, ": ", info.description, " has blocks of ",
                     info.block_size, " bytes; use 512 or 4096"));
  }
  if (info.size_bytes == 0 || info.size_bytes % info.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LUN ", lun, ": ", info.description, " has ", info.size_bytes,
        " bytes, which is not a positive multiple of its block size ",
        info.block_size));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const LogicalUnitOptions& options,
                          const BackendInfo& info) {
  if (options.lun > kMaxLun) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LUN ", options.lun, " is beyond ", kMaxLun, ", the last one"));
  }
  if (absl::Status s = CheckMedium(options.lun, info); !s.ok()) return s;
  const struct {
    absl::string_view what, text;
    size_t max_length;
  } texts[] = {{"vendor", options.vendor, 8},
               {"product", options.product, 16},
               {"revision", options.revision, 4},
               {"serial", options.serial, 64},
               {"identity of the medium", info.identity, 64}};
  for (const auto& t : texts) {
    absl::Status s = CheckText(options.lun, t.what, t.text, t.max_length);
    if (!s.ok()) return s;
  }
  if (options.max_transfer_bytes < info.block_size || options.max_tasks == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN ", options.lun,
                     ": max_transfer_bytes must hold a block, and max_tasks "
                     "must be positive"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<LogicalUnit>> LogicalUnit::Create(
    absl::string_view target_name, std::shared_ptr<Backend> backend,
    const LogicalUnitOptions& options) {
  absl::Status status = CheckOptions(options, backend->info());
  if (!status.ok()) return status;
  return absl::WrapUnique(
      new LogicalUnit(target_name, std::move(backend), options));
}

LogicalUnit::LogicalUnit(absl::string_view target_name,
                         std::shared_ptr<Backend> backend,
                         const LogicalUnitOptions& options)
    : target_name_(target_name),
      backend_(std::move(backend)),
      options_(options),
      info_(backend_->info()),
      // What may be lost is not to be read past the channel that says so.
      memory_(info_.data_loss.empty() ? backend_->direct_memory() : nullptr),
      mode_pages_(info_) {
  block_shift_ = static_cast<uint32_t>(std::countr_zero(info_.block_size));
  max_transfer_blocks_ = options_.max_transfer_bytes >> block_shift_;
  // A serial that was given, and the identity that a medium has, name the
  // medium: the same one behind another target gets the same identifiers, so
  // that multipathing recognizes it.
  if (options_.serial.empty() && !info_.identity.empty()) {
    serial_ = info_.identity;
  } else if (options_.serial.empty()) {
    serial_ = absl::StrFormat(
        "%016x", Hash(absl::StrCat(target_name_, ",", options_.lun)));
  } else {
    serial_ = options_.serial;
  }
  naa_ = kNaaLocallyAssigned |
         (Hash(absl::StrCat(options_.vendor, ",", serial_)) >> 4);
  guard_ = std::make_shared<WriteGuard>(
      std::max(1u, info_.physical_block_size >> block_shift_));
  RefreshCapacity();
}

void LogicalUnit::RefreshCapacity() {
  block_count_.store(backend_->info().size_bytes >> block_shift_,
                     std::memory_order_relaxed);
}

LogicalUnitStatus LogicalUnit::Status() const {
  return {options_.lun, info_.description, block_count() << block_shift_,
          serial_,      failures_.Get(),   info_.data_loss};
}

uint32_t LogicalUnit::max_compare_and_write_blocks() const {
  return std::min(
      {kMaxCompareAndWriteBytes >> block_shift_, max_transfer_blocks_, 255u});
}

uint8_t LogicalUnit::physical_block_exponent() const {
  const uint32_t per_physical = info_.physical_block_size >> block_shift_;
  return per_physical > 1 ? static_cast<uint8_t>(std::min<int>(
                                std::bit_width(per_physical) - 1, 15))
                          : 0;
}

}  // namespace skiff::scsi
