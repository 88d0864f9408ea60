#include "scsi/target/task_set.h"

namespace skiff::scsi {

TaskSet::Admission TaskSet::AcceptConstrained(Task* task) {
  const bool is_aca = task->attribute == Attribute::kAca;
  if (aca_) {
    if (!is_aca || enabled_aca_ > 0) return Admission::kAcaActive;
  } else if (is_aca) {
    return Admission::kInvalidAca;
  }
  if (is_aca || task->attribute == Attribute::kHeadOfQueue ||
      (dormant_.head == nullptr && MayEnable(task->attribute))) {
    Enable(task);
    return Admission::kEnabled;
  }
  Append(&dormant_, task);
  task->phase = Task::Phase::kDormant;
  ++constraints_;
  return Admission::kDormant;
}

// For the oldest task that is not enabled (SAM-5 section 8.6): everything older
// is in `enabled_`.
bool TaskSet::MayEnable(Attribute attribute) const {
  if (attribute == Attribute::kOrdered) return enabled_.head == nullptr;
  return enabled_ordered_ == 0 && enabled_head_of_queue_ == 0;
}

void TaskSet::Enable(Task* task) {
  Append(&enabled_, task);
  task->phase = Task::Phase::kEnabled;
  switch (task->attribute) {
    case Attribute::kSimple:
      return;
    case Attribute::kOrdered:
      ++enabled_ordered_;
      break;
    case Attribute::kHeadOfQueue:
      ++enabled_head_of_queue_;
      break;
    case Attribute::kAca:
      ++enabled_aca_;
      break;
  }
  ++constraints_;
}

void TaskSet::RemoveConstraint(Task* task) {
  switch (task->attribute) {
    case Attribute::kSimple:
      return;
    case Attribute::kOrdered:
      --enabled_ordered_;
      break;
    case Attribute::kHeadOfQueue:
      --enabled_head_of_queue_;
      break;
    case Attribute::kAca:
      --enabled_aca_;
      break;
  }
  --constraints_;
}

Task* TaskSet::NextToEnable() {
  Task* task = dormant_.head;
  if (task == nullptr || aca_ || !MayEnable(task->attribute)) return nullptr;
  Unlink(&dormant_, task);
  --constraints_;
  Enable(task);
  return task;
}

void TaskSet::set_aca(bool on) {
  if (on == aca_) return;
  aca_ = on;
  constraints_ += on ? 1 : -1;
}

}  // namespace skiff::scsi
