#include "scsi/target/medium.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

absl::Status Check(const BackendInfo& info) {
  if (info.block_size != 512 && info.block_size != 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat(info.description, " has blocks of ", info.block_size,
                     " bytes; use 512 or 4096"));
  }
  if (info.size_bytes == 0 || info.size_bytes % info.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        info.description, " has ", info.size_bytes,
        " bytes, which is not a positive multiple of its block size ",
        info.block_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Medium>> Medium::Of(
    const std::shared_ptr<Backend>& backend) {
  const std::lock_guard<std::mutex> lock(backend->medium_mutex_);
  std::shared_ptr<Medium> medium = backend->medium_.lock();
  if (medium == nullptr) {
    BackendInfo info = backend->info();
    if (absl::Status valid = Check(info); !valid.ok()) return valid;
    medium = std::make_shared<Medium>(Key(), backend, std::move(info));
    ++backend->media_;
    backend->medium_ = medium;
  }
  return medium;
}

Medium::Medium(Key /*key*/, std::shared_ptr<Backend> backend, BackendInfo info)
    : backend_(std::move(backend)),
      identity_(info.identity),
      // What may be lost is not to be read past the channel that says so.
      memory_(info.data_loss.empty() ? backend_->direct_memory() : nullptr),
      block_shift_(static_cast<uint32_t>(std::countr_zero(info.block_size))),
      guard_(std::make_shared<WriteGuard>(
          std::max(1u, info.physical_block_size >> block_shift_))) {
  Take(std::move(info));
}

// Under the mutex, so that who serves it next does so after that.
Medium::~Medium() {
  const std::lock_guard<std::mutex> lock(backend_->medium_mutex_);
  if (--backend_->media_ == 0) backend_->Unused();
}

void Medium::Take(BackendInfo info) {
  block_count_.store(info.size_bytes >> block_shift_,
                     std::memory_order_relaxed);
  flags_.store((info.read_only ? kReadOnly : 0) | (info.thin ? kThin : 0) |
                   (info.volatile_write_cache ? kWriteCache : 0),
               std::memory_order_relaxed);
  info_ = std::move(info);
}

void Medium::Refresh() {
  // Whoever is the last to ask is the last to store.
  const std::lock_guard<std::mutex> lock(mutex_);
  BackendInfo info = backend_->info();
  info.block_size = info_.block_size;
  info.physical_block_size = info_.physical_block_size;
  info.buffer_alignment = info_.buffer_alignment;
  info.identity = info_.identity;
  info.data_loss = info_.data_loss;
  Take(std::move(info));
}

}  // namespace skiff::scsi
