// BufferPool: initiators that keep buffers waiting.

#include <algorithm>
#include <cstdint>

#include "scsi/target/buffer_pool.h"
#include "scsi/target/give_up_data.h"

namespace skiff::scsi {
namespace {

// The port has the task's data to send, or is to bring them, or the task waits
// for CLEAR ACA, and nothing else is under way.
bool WaitsForInitiator(const Task& task) {
  return task.phase == Task::Phase::kCompleted || task.held ||
         (task.transfers > 0 && task.in_flight == task.transfers);
}

}  // namespace

// All buffers, now and then: nothing is counted per command.
void BufferPool::Look() {
  for (DataBuffer& buffer : buffers_) {
    if (buffer.task != nullptr) LookAt(&buffer);
  }
  // All who want more, though nothing was given back: there are few buffers for
  // many accounts.
  if (waiting_ > 0) {
    looks_ = std::max(looks_, waiting_);
    ServeSoon();
  }
  if (out_ > 0) timer_.ScheduleAfter(patience_ / kLooks);
}

// Late is what was waiting at kLooks looks before and has not got on since.
void BufferPool::LookAt(DataBuffer* buffer) {
  const Task* task = buffer->task;
  const bool waits = WaitsForInitiator(*task);
  if (buffer->seen_uses != buffer->uses) {
    buffer->waits = 0;
    buffer->taken_before = buffer->account->port_->DataInTaken();
  }
  const bool same = waits && buffer->seen_uses == buffer->uses &&
                    buffer->seen_progress == task->progress;
  buffer->seen_uses = buffer->uses;
  buffer->seen_progress = task->progress;
  if (waits) ++buffer->waits;
  if (!same) {
    buffer->looks = 0;
  } else if (buffer->looks < kLooks) {
    ++buffer->looks;
  }
  if (waits) LookAtWaiting(buffer);
}

void BufferPool::LookAtWaiting(DataBuffer* buffer) {
  Task* task = buffer->task;
  if (buffer->looks >= kLooks) {
    buffer->late = true;
    buffer->account->trust_ = 0;
  }
  // Only its owner misses a share.
  if (buffer->own) return;
  TargetPort& port = *buffer->account->port_;
  if (buffer->looks >= kLooks &&
      (classes_[buffer->size_class].waiting_accounts() > 0 ||
       Unreserved(buffer->size_class) == 0) &&
      GiveUpData(port, task)) {
    ++given_up_;
    buffer->waits = 0;  // It has as long again to come back.
    return;
  }
  // The time begins when others lack such a buffer, and goes back as it came
  // where they do not: looks may miss that they do now and then.
  if (!OthersLack(*buffer)) {
    buffer->waits -= std::min<uint32_t>(buffer->waits, 2);
    if (buffer->waits == 0) buffer->taken_before = port.DataInTaken();
    return;
  }
  // The first look may have come at once.
  if (buffer->waits <= kLooks) return;
  if (task->receiving) {
    if (!task->late && !task->terminate) return;
    ++ended_;
    return port.EndNexus(
        "the initiator does not let go of a buffer that others wait for");
  }
  const uint64_t least = static_cast<uint64_t>(
      static_cast<double>(min_read_rate_) *
      absl::ToDoubleSeconds(patience_ / kLooks * (buffer->waits - kLooks - 1)));
  // Nothing of a task that waits for CLEAR ACA is on its way.
  if (!task->held && port.DataInTaken() - buffer->taken_before > least) return;
  ++ended_;
  port.EndNexus(
      "the initiator takes the data of its reads more slowly than "
      "min_read_rate, or leaves an ACA condition, and others wait for the "
      "buffers");
}

// Whether another account waits for such a buffer and there is none.
bool BufferPool::OthersLack(const DataBuffer& buffer) const {
  const SizeClass& size_class = classes_[buffer.size_class];
  const bool waits = buffer.account->queues_[buffer.size_class].ring != nullptr;
  return Unreserved(buffer.size_class) == 0 &&
         size_class.waiting_accounts() > (waits ? 1u : 0u);
}

}  // namespace skiff::scsi
