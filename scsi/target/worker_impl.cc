#include "scsi/target/worker_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/target/lost_data_channel.h"

namespace skiff::scsi {

LuWorker::LuWorker(WorkerImpl* worker, std::shared_ptr<LogicalUnit> lu)
    : worker_(worker),
      lu_(std::move(lu)),
      guard_(std::make_shared<WriteGuard::Member>(lu_->medium().write_guard(),
                                                  worker->reactor(), this,
                                                  worker->data_patience())) {
  OpenChannel();
}

LuWorker::~LuWorker() {
  guard_->Detach();
  worker_->lu_workers_.erase(lu_.get());
}

void LuWorker::Remove(WriteGuard::Member::Writes* nexus) {
  nexuses_.erase(std::find(nexuses_.begin(), nexuses_.end(), nexus));
}

void LuWorker::ForEachGuarded(Visitor visit) {
  for (WriteGuard::Member::Writes* nexus : nexuses_) {
    nexus->ForEachGuarded(visit);
  }
}

BackendChannel* LuWorker::OpenChannel() {
  if (!lu_->info().data_loss.empty()) {
    channel_ = std::make_unique<LostDataChannel>();
    return channel_.get();
  }
  auto channel = lu_->backend().OpenChannel(worker_->reactor());
  if (channel.ok()) {
    channel_ = *std::move(channel);
  } else {
    worker_->log_.Log(transport::LogLevel::kError, Name(), [&] {
      return Text("the medium cannot be used: ", channel.status().message());
    });
  }
  return channel_.get();
}

std::string LuWorker::Name() const {
  return absl::StrCat(lu_->target_name(), " LUN ", lu_->lun());
}

transport::LogText LuWorker::Text(absl::string_view what,
                                  absl::string_view reason) const {
  return {absl::StrCat(Name(), ": ", what, reason),
          {{transport::kLogTarget, std::string(lu_->target_name())},
           {transport::kLogLun, absl::StrCat(lu_->lun())},
           {transport::kLogReason, std::string(reason)}}};
}

void LuWorker::NoteFailure(const IoRequest& request) {
  if (!IsFailure(request)) return;
  const uint64_t count = lu_->failures().Count(request.op);
  // Each operation has lines of its own: many failed reads hide no flush.
  worker_->log_.Log(
      transport::LogLevel::kError,
      absl::StrCat(Name(), " ", static_cast<int>(request.op)), [&] {
        transport::LogText text = Text("", DescribeFailure(request));
        absl::StrAppend(&text.message, " (failure ", count, " of this LUN)");
        return text;
      });
}

void LuWorker::NoteDenial(const NexusIdentity& nexus, absl::string_view what) {
  worker_->log_.Log(transport::LogLevel::kWarning, nexus.initiator_port, [&] {
    transport::LogText text =
        Text("", absl::StrCat(nexus.initiator_port, " has no right to ", what));
    text.fields.push_back({transport::kLogInitiator, nexus.initiator});
    return text;
  });
}

WorkerImpl::WorkerImpl(transport::Reactor* reactor,
                       std::unique_ptr<BufferPool> buffers,
                       const WorkerOptions& options)
    : reactor_(reactor),
      buffers_(std::move(buffers)),
      data_patience_(options.data_patience),
      log_(reactor, options.log, options.log_limits) {}

std::shared_ptr<LuWorker> WorkerImpl::Attach(
    const std::shared_ptr<LogicalUnit>& lu) {
  std::weak_ptr<LuWorker>& known = lu_workers_[lu.get()];
  std::shared_ptr<LuWorker> lu_worker = known.lock();
  if (lu_worker == nullptr) {
    lu_worker = std::make_shared<LuWorker>(this, lu);
    known = lu_worker;
  }
  return lu_worker;
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(
    transport::Reactor* reactor, const WorkerOptions& options) {
  if (options.data_patience <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WorkerOptions::data_patience is ",
        absl::FormatDuration(options.data_patience), ": it must be positive"));
  }
  if (options.min_read_rate == 0) {
    return absl::InvalidArgumentError(
        "WorkerOptions::min_read_rate is 0: it must be positive");
  }
  auto buffers = BufferPool::Create(reactor, options.buffer_pool_bytes,
                                    options.buffer_bytes, options.data_patience,
                                    options.min_read_rate);
  if (!buffers.ok()) return buffers.status();
  return std::make_unique<WorkerImpl>(reactor, *std::move(buffers), options);
}

}  // namespace skiff::scsi
