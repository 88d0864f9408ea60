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

absl::Status CheckOptions(const LogicalUnitOptions& options,
                          const BackendInfo& info) {
  if (options.lun > kMaxLun) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LUN ", options.lun, " is beyond ", kMaxLun, ", the last one"));
  }
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
    absl::string_view target_name, const std::shared_ptr<Backend>& backend,
    const LogicalUnitOptions& options) {
  absl::Status status = CheckOptions(options, backend->info());
  if (!status.ok()) return status;
  auto medium = Medium::Of(backend);
  if (!medium.ok()) {
    return absl::Status(
        medium.status().code(),
        absl::StrCat("LUN ", options.lun, ": ", medium.status().message()));
  }
  return absl::WrapUnique(
      new LogicalUnit(target_name, *std::move(medium), options));
}

LogicalUnit::LogicalUnit(absl::string_view target_name,
                         std::shared_ptr<Medium> medium,
                         const LogicalUnitOptions& options)
    : target_name_(target_name),
      medium_(std::move(medium)),
      options_(options),
      max_transfer_blocks_(options_.max_transfer_bytes >>
                           medium_->block_shift()),
      mode_pages_(medium_->info()),
      told_(medium_->info()) {
  // A serial that was given, and the identity that a medium has, name the
  // medium: the same one behind another target gets the same identifiers, so
  // that multipathing recognizes it.
  if (options_.serial.empty() && !medium_->identity().empty()) {
    serial_ = medium_->identity();
  } else if (options_.serial.empty()) {
    serial_ = absl::StrFormat(
        "%016x", Hash(absl::StrCat(target_name_, ",", options_.lun)));
  } else {
    serial_ = options_.serial;
  }
  naa_ = kNaaLocallyAssigned |
         (Hash(absl::StrCat(options_.vendor, ",", serial_)) >> 4);
}

LogicalUnit::~LogicalUnit() {
  std::shared_ptr<Backend> backend = medium_->shared_backend();
  medium_.reset();  // Backend::Unused() comes before.
  if (on_gone_ != nullptr) on_gone_(std::move(backend));
}

LogicalUnitStatus LogicalUnit::Status() const {
  const BackendInfo info = this->info();
  return {options_.lun,    info.description, info.size_bytes, serial_,
          failures_.Get(), info.data_loss,   totals_.Get()};
}

std::vector<AdditionalSense> LogicalUnit::TakeChanges() {
  BackendInfo now = info();
  std::vector<AdditionalSense> changes;
  if (now.size_bytes != told_.size_bytes) {
    changes.push_back(AdditionalSense::kCapacityDataHasChanged);
  }
  // WCE of the Caching page, and WP of the mode parameter header.
  if (now.volatile_write_cache != told_.volatile_write_cache ||
      now.read_only != told_.read_only) {
    mode_pages_.SetWriteCache(now.volatile_write_cache);
    changes.push_back(AdditionalSense::kModeParametersChanged);
  }
  // VPD pages 86h, B0h, B1h and B2h.
  if (now.volatile_write_cache != told_.volatile_write_cache ||
      now.thin != told_.thin || now.rotational != told_.rotational ||
      now.unmap_granularity_bytes != told_.unmap_granularity_bytes) {
    changes.push_back(AdditionalSense::kInquiryDataHasChanged);
  }
  // Another target with this medium may have had another size shown meanwhile.
  if (changes.empty()) {
    changes.push_back(AdditionalSense::kCapacityDataHasChanged);
  }
  told_ = std::move(now);
  return changes;
}

uint32_t LogicalUnit::max_compare_and_write_blocks() const {
  return std::min(
      {kMaxCompareAndWriteBytes >> block_shift(), max_transfer_blocks_, 255u});
}

uint8_t LogicalUnit::physical_block_exponent() const {
  const uint32_t per_physical = info().physical_block_size >> block_shift();
  return per_physical > 1 ? static_cast<uint8_t>(std::min<int>(
                                std::bit_width(per_physical) - 1, 15))
                          : 0;
}

}  // namespace skiff::scsi
