#ifndef SKIFF_SCSI_TARGET_WORKER_IMPL_H_
#define SKIFF_SCSI_TARGET_WORKER_IMPL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scsi/target/buffer_pool.h"
#include "scsi/target/logical_unit.h"
#include "scsi/target/target.h"
#include "scsi/target/write_guard.h"

namespace skiff::scsi {

class WorkerImpl;

// A logical unit as one worker sees it: shared by the worker's nexuses, used
// and destroyed on its reactor.
class LuWorker : public WriteGuard::Member::Writes {
 public:
  LuWorker(WorkerImpl* worker, std::shared_ptr<LogicalUnit> lu);
  LuWorker(const LuWorker&) = delete;
  LuWorker& operator=(const LuWorker&) = delete;
  ~LuWorker() override;

  // The worker's nexuses of the logical unit, which list themselves.
  void Add(WriteGuard::Member::Writes* nexus) { nexuses_.push_back(nexus); }
  void Remove(WriteGuard::Member::Writes* nexus);

  LogicalUnit& lu() const { return *lu_; }
  const std::shared_ptr<LogicalUnit>& shared_lu() const { return lu_; }
  WriteGuard::Member& guard() const { return *guard_; }
  // Opened at the first use that finds it closed; null while the backend
  // refuses, and the logical unit is then not ready.
  BackendChannel* channel() {
    return channel_ != nullptr ? channel_.get() : OpenChannel();
  }
  // Of a request that did not end with kOk: counts and logs it, if the medium
  // failed.
  void NoteFailure(const IoRequest& request);
  // Logs a command that the access policy did not allow.
  // `what` the nexus has no right to.
  void NoteDenial(const NexusIdentity& nexus, absl::string_view what);

 private:
  BackendChannel* OpenChannel();
  std::string Name() const;
  // For the log. The reason is also a field of its own.
  transport::LogText Text(absl::string_view what,
                          absl::string_view reason) const;
  void ForEachGuarded(Visitor visit) override;

  WorkerImpl* const worker_;
  const std::shared_ptr<LogicalUnit> lu_;
  const std::shared_ptr<WriteGuard::Member> guard_;
  std::unique_ptr<BackendChannel> channel_;
  std::vector<WriteGuard::Member::Writes*> nexuses_;
};

class WorkerImpl : public Worker {
 public:
  WorkerImpl(transport::Reactor* reactor, std::unique_ptr<BufferPool> buffers,
             const WorkerOptions& options);

  transport::Reactor* reactor() const override { return reactor_; }
  absl::Span<uint8_t> buffer_memory() const override {
    return buffers_->memory();
  }
  BufferUse buffer_use() const override { return buffers_->use(); }
  BufferPool& buffers() const { return *buffers_; }
  absl::Duration data_patience() const { return data_patience_; }

  // The worker's one LuWorker for `lu`.
  std::shared_ptr<LuWorker> Attach(const std::shared_ptr<LogicalUnit>& lu);

 private:
  friend class LuWorker;

  transport::Reactor* const reactor_;
  const std::unique_ptr<BufferPool> buffers_;
  const absl::Duration data_patience_;
  transport::LimitedLog log_;
  absl::flat_hash_map<const LogicalUnit*, std::weak_ptr<LuWorker>> lu_workers_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_WORKER_IMPL_H_
