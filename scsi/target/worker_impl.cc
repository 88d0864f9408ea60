#include "scsi/target/worker_impl.h"

#include <utility>

namespace skiff::scsi {

LuWorker::LuWorker(WorkerImpl* worker, std::shared_ptr<LogicalUnit> lu)
    : worker_(worker),
      lu_(std::move(lu)),
      guard_(std::make_shared<WriteGuard::Member>(lu_->write_guard(),
                                                  worker->reactor())) {
  OpenChannel();
}

LuWorker::~LuWorker() { worker_->lu_workers_.erase(lu_.get()); }

BackendChannel* LuWorker::OpenChannel() {
  auto channel = lu_->backend().OpenChannel(worker_->reactor());
  if (channel.ok()) channel_ = *std::move(channel);
  return channel_.get();
}

WorkerImpl::WorkerImpl(transport::Reactor* reactor,
                       std::unique_ptr<BufferPool> buffers)
    : reactor_(reactor), buffers_(std::move(buffers)) {}

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
  auto buffers =
      BufferPool::Create(options.buffer_pool_bytes, options.buffer_bytes);
  if (!buffers.ok()) return buffers.status();
  return std::make_unique<WorkerImpl>(reactor, *std::move(buffers));
}

}  // namespace skiff::scsi
