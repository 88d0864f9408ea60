#ifndef SKIFF_PROTOCOL_SESSION_INITIATOR_TASK_TABLE_H_
#define SKIFF_PROTOCOL_SESSION_INITIATOR_TASK_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "protocol/datamover/datamover.h"
#include "scsi/initiator/command.h"

namespace skiff::protocol {

// One SCSI command that was handed to the datamover.
struct InitiatorTask {
  enum class State : uint8_t {
    kFree,
    kActive,    // The target owes a response.
    kFinished,  // `command` has its result; its memory is the datamover's yet.
  };
  // How far ending it by task management has come.
  enum class Abort : uint8_t {
    kNone,
    kWanted,       // ABORT TASK is to be sent.
    kSent,         // ABORT TASK is on its way.
    kResetWanted,  // It did not help: LOGICAL UNIT RESET is to be sent.
    kResetSent,
  };
  scsi::Command* command = nullptr;
  State state = State::kFree;
  Abort abort = Abort::kNone;
  // What becomes of the command if the session is lost: kPending is "retry".
  scsi::Command::Outcome fate = scsi::Command::Outcome::kPending;
  uint16_t generation = 0;
  uint32_t tag = 0;
  // Of the last task in this slot that a task management function ended.
  uint32_t concluded_tag = kReservedTag;
  uint32_t cmd_sn = 0;
  absl::Time issued;
  TaskSlot previous = kNoTask;  // In order of issue.
  TaskSlot next = kNoTask;      // Also of the free ones.
};

// The tasks of a session: a fixed number of slots, allocated once. A slot's tag
// changes with every use, so a late PDU never meets the next task.
class InitiatorTaskTable {
 public:
  explicit InitiatorTaskTable(uint32_t slots) : tasks_(slots) {
    for (uint32_t i = slots; i > 0; --i) {
      tasks_[i - 1].next = free_;
      free_ = i - 1;
    }
  }

  bool full() const { return free_ == kNoTask; }
  bool empty() const { return oldest_ == kNoTask; }
  uint32_t size() const { return size_; }

  InitiatorTask& operator[](TaskSlot slot) { return tasks_[slot]; }
  const InitiatorTask& operator[](TaskSlot slot) const { return tasks_[slot]; }

  // The slots in use from the one taken first to the last, by `next`.
  TaskSlot oldest() const { return oldest_; }

  // The table must not be full. The task is kActive, youngest, with a new tag.
  TaskSlot Take(scsi::Command* command) {
    const TaskSlot slot = free_;
    InitiatorTask& task = tasks_[slot];
    free_ = task.next;
    ++size_;
    task.command = command;
    task.state = InitiatorTask::State::kActive;
    task.abort = InitiatorTask::Abort::kNone;
    task.fate = scsi::Command::Outcome::kPending;
    task.tag = MakeTag(slot, ++task.generation);
    task.previous = youngest_;
    task.next = kNoTask;
    (youngest_ != kNoTask ? tasks_[youngest_].next : oldest_) = slot;
    youngest_ = slot;
    return slot;
  }

  void Release(TaskSlot slot) {
    InitiatorTask& task = tasks_[slot];
    (task.previous != kNoTask ? tasks_[task.previous].next : oldest_) =
        task.next;
    (task.next != kNoTask ? tasks_[task.next].previous : youngest_) =
        task.previous;
    task.command = nullptr;
    task.state = InitiatorTask::State::kFree;
    task.next = free_;
    free_ = slot;
    --size_;
  }

  // The task with this tag that waits for a response, or kNoTask.
  TaskSlot Find(uint32_t tag) const {
    const TaskSlot slot = SlotOfTag(tag);
    if (slot >= tasks_.size() ||
        tasks_[slot].state != InitiatorTask::State::kActive ||
        tasks_[slot].tag != tag) {
      return kNoTask;
    }
    return slot;
  }
  // Whether it was a function that ended the task with this tag, as far as is
  // remembered: in each slot, the last one.
  bool WasConcluded(uint32_t tag) const {
    const TaskSlot slot = SlotOfTag(tag);
    return slot < tasks_.size() && tasks_[slot].concluded_tag == tag;
  }

 private:
  std::vector<InitiatorTask> tasks_;
  TaskSlot free_ = kNoTask;  // The hottest first, by `next`.
  uint32_t size_ = 0;
  TaskSlot oldest_ = kNoTask;
  TaskSlot youngest_ = kNoTask;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_INITIATOR_TASK_TABLE_H_
