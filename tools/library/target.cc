#include "tools/library/target.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"

namespace skiff::library {
namespace {

skiff_latency LatencyOf(const scsi::LatencyCounts& latency) {
  skiff_latency copy = {latency.sum_ns, latency.max_ns, {}};
  static_assert(SKIFF_LATENCY_COUNTS == scsi::LatencyCounts::kBuckets);
  std::copy(latency.buckets.begin(), latency.buckets.end(), copy.counts);
  return copy;
}

}  // namespace

skiff_command_counts CountsOf(const scsi::CommandCounts& counts) {
  return {.reads = counts.reads,
          .writes = counts.writes,
          .others = counts.others,
          .read_bytes = counts.read_bytes,
          .written_bytes = counts.written_bytes,
          .check_conditions = counts.check_conditions,
          .busy = counts.busy,
          .aborted = counts.aborted,
          .in_flight = counts.in_flight,
          .read_latency = LatencyOf(counts.read_latency()),
          .write_latency = LatencyOf(counts.write_latency())};
}

int Target::AddLun(const std::shared_ptr<Backend>& backend,
                   const scsi::LogicalUnitOptions& options) {
  if (backend->context() != context()) {
    return Fail(EINVAL,
                "the skiff_backend belongs to another context than the "
                "skiff_target");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shut_) return Fail(EBADF, "the skiff_target is being closed");
  if (luns_.count(options.lun) != 0) {
    return Fail(EEXIST, absl::StrCat("the target has a LUN ", options.lun));
  }
  if (const int error = backend->BeginServing(target_, options.lun)) {
    return error;
  }
  const absl::Status status =
      target_->AddLogicalUnit(backend->medium(), options);
  if (!status.ok()) {
    backend->Removing(target_.get(), options.lun);
    backend->Removed(target_.get(), options.lun);
    return Fail(status);
  }
  luns_[options.lun] = backend;
  return 0;
}

int Target::RemoveLun(uint64_t lun, Ending::Done done) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = luns_.find(lun);
  if (found == luns_.end()) {
    return Fail(ENOENT, absl::StrCat("the target has no LUN ", lun));
  }
  Remove(found, done);
  return 0;
}

void Target::Remove(std::map<uint64_t, std::shared_ptr<Backend>>::iterator unit,
                    Ending::Done done) {
  const uint64_t lun = unit->first;
  std::shared_ptr<Backend> backend = std::move(unit->second);
  luns_.erase(unit);
  backend->Removing(target_.get(), lun);
  // Whoever is told may close both, and then the context: nothing of them is
  // used any more when he is.
  auto told = [self = shared_from_this(), backend = std::move(backend), lun,
               done](const std::shared_ptr<scsi::Backend>& /*medium*/) mutable {
    const std::shared_ptr<Context> context = self->context();
    context->Post(0, [self = std::move(self), backend = std::move(backend), lun,
                      done]() mutable {
      backend->Removed(self->target_.get(), lun);
      backend.reset();
      self.reset();
      if (done.function != nullptr) done(0, "");
    });
  };
  target_->RemoveLogicalUnit(lun, std::move(told)).IgnoreError();
}

int Target::BeginServing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shut_) return Fail(EBADF, "the skiff_target is being closed");
  ++servers_;
  return 0;
}

void Target::EndServing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --servers_;
}

int Target::Shut() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shut_) return Fail(EBADF, "the skiff_target was closed before");
  if (servers_ > 0) {
    return Fail(EBUSY, absl::StrCat(target_->name(),
                                    " is served: remove it from its server, "
                                    "or close that, before"));
  }
  shut_ = true;
  while (!luns_.empty()) Remove(luns_.begin(), {});
  return 0;
}

}  // namespace skiff::library
