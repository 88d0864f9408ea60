// LuNexus: how tasks are aborted, and who waits for that.

#include <memory>
#include <utility>
#include <vector>

#include "scsi/target/lu_nexus.h"

namespace skiff::scsi {

void LuNexus::Abort(Task* task, bool respond) {
  if (task->terminate) return;
  task->respond = respond;
  if (task->phase == Task::Phase::kWaitingForBuffer) {
    buffers_->Cancel(home_.account, task);
  }
  if (task->phase == Task::Phase::kWaitingForGuard) {
    lu_worker_->guard().Cancel(&guard_line_, task);
  }
  // At most one I/O is under way, beside transfers.
  if (task->in_flight > task->transfers &&
      lu_worker_->channel()->Cancel(&task->io)) {
    --task->in_flight;
  }
  if (task->in_flight == 0) return FinishAbort(task);
  task->terminate = true;
  ++aborting_;
  if (task->transfers > 0) port_->CancelTransfers(task);
}

void LuNexus::FinishAbort(Task* task) {
  if (task->guarded) LeaveGuard(task);
  if (task->exclusive) ReleaseExclusive(task);
  if (task->buffer != nullptr) buffers_->Release(task);
  task_set_.Remove(task);
  task->phase = Task::Phase::kAborted;
  task->status = ScsiStatus::kTaskAborted;
  counters_.NoteAborted();
  port_->Aborted(task, task->respond);
  if (task_set_.has_dormant()) EnableDormant();
}

bool LuNexus::AbortTask(Task* task) {
  if (task->phase == Task::Phase::kIdle ||
      task->phase == Task::Phase::kCompleted ||
      task->phase == Task::Phase::kAborted) {
    return false;
  }
  Abort(task, /*respond=*/false);
  return true;
}

void LuNexus::AbortAll(bool respond) {
  // Nothing that is dormant may start when what it waits for goes.
  const bool was_enabling = enabling_;
  enabling_ = true;
  while (Task* task = task_set_.first_dormant()) Abort(task, respond);
  // Tasks that something outside still refers to stay in the list. Each abort
  // calls the port, after which the list may be another.
  for (Task* task = task_set_.first_enabled(); task != nullptr;) {
    if (task->terminate) {
      task = task->next;
      continue;
    }
    Abort(task, respond);
    task = task_set_.first_enabled();
  }
  enabling_ = was_enabling;
  EnableDormant();
}

void LuNexus::ClearAca() {
  if (!task_set_.aca()) return;
  for (Task* task = task_set_.first_enabled(); task != nullptr;
       task = task->next) {
    if (task->attribute == Attribute::kAca) {
      Abort(task, /*respond=*/false);
      break;
    }
  }
  task_set_.set_aca(false);
  DeliverHeld();
}

void LuNexus::Reset(bool respond) {
  task_set_.set_aca(false);
  AbortAll(respond);
  Establish(AdditionalSense::kBusDeviceResetFunctionOccurred);
}

void LuNexus::Shut(bool respond) {
  shut_ = true;
  task_set_.set_aca(false);
  AbortAll(respond);
}

void LuNexus::HoldUntilAborted(std::shared_ptr<void> token) {
  if (aborting_ > 0) tokens_.push_back(std::move(token));
}

void LuNexus::DropTokens() {
  if (aborting_ > 0) return;
  std::vector<std::shared_ptr<void>> tokens;
  tokens.swap(tokens_);
}

}  // namespace skiff::scsi
