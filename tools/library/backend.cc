#include "tools/library/backend.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"

namespace skiff::library {

Backend::Backend(std::shared_ptr<Context> context,
                 std::shared_ptr<scsi::Backend> medium,
                 CallbackBackend* callbacks)
    : use_(std::move(context), kKind),
      medium_(std::move(medium)),
      callbacks_(callbacks) {}

std::list<Backend::Unit>::iterator Backend::Find(const scsi::Target* target,
                                                 uint64_t lun, bool removing) {
  return std::find_if(units_.begin(), units_.end(), [&](const Unit& unit) {
    return unit.target.get() == target && unit.lun == lun &&
           unit.removing == removing;
  });
}

int Backend::BeginServing(const std::shared_ptr<scsi::Target>& target,
                          uint64_t lun) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shut_) return Fail(EBADF, "the skiff_backend is being closed");
  units_.push_back({target, lun, false});
  return 0;
}

void Backend::Removing(const scsi::Target* target, uint64_t lun) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = Find(target, lun, /*removing=*/false);
  if (found != units_.end()) found->removing = true;
}

void Backend::Removed(const scsi::Target* target, uint64_t lun) {
  std::list<Unit> gone;  // The target may go with it: without the lock.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = Find(target, lun, /*removing=*/true);
  if (found != units_.end()) gone.splice(gone.end(), units_, found);
}

int Backend::Resize(uint64_t size_bytes) {
  if (callbacks_ == nullptr) {
    return Fail(EOPNOTSUPP,
                "memory and files keep the size that they were made with");
  }
  const std::lock_guard<std::mutex> one(resizing_);
  const absl::Status status = callbacks_->SetSize(size_bytes);
  if (!status.ok()) return Fail(status);
  std::vector<std::pair<std::shared_ptr<scsi::Target>, uint64_t>> to_tell;
  {
    // A target tells of every logical unit of it that has the medium.
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Unit& unit : units_) {
      if (unit.removing) continue;
      const auto same = [&unit](const auto& told) {
        return told.first == unit.target;
      };
      if (std::any_of(to_tell.begin(), to_tell.end(), same)) continue;
      to_tell.emplace_back(unit.target, unit.lun);
    }
  }
  for (const auto& [target, lun] : to_tell) target->NotifyBackendChanged(lun);
  return 0;
}

int Backend::Shut() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shut_) return Fail(EBADF, "the skiff_backend was closed before");
  if (!units_.empty()) {
    const Unit& unit = units_.front();
    const std::string where =
        absl::StrCat("LUN ", unit.lun, " of ", unit.target->name());
    return Fail(
        EBUSY,
        unit.removing
            ? absl::StrCat("the removal of ", where,
                           ", which serves the backend, is not over")
            : absl::StrCat(where, " serves the backend: remove it before"));
  }
  // It is the caller's, and may be freed once the backend is closed.
  if (callbacks_ != nullptr && callbacks_->direct_memory() != nullptr &&
      medium_.use_count() > 1) {
    return Fail(EBUSY,
                "a session over RDMA has registered the memory of the backend, "
                "and keeps it until it ends: drop it before");
  }
  shut_ = true;
  return 0;
}

}  // namespace skiff::library
