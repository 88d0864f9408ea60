#ifndef SKIFF_SCSI_TARGET_TASK_SET_H_
#define SKIFF_SCSI_TARGET_TASK_SET_H_

#include <cstdint>

#include "scsi/target/task.h"

namespace skiff::scsi {

// A task set by SAM-5 section 8.
//
// Each I_T nexus has a task set of its own in each logical unit (the Control
// mode page says so: TST = 001b). With one task set for all nexuses, an ordered
// task of one initiator would have to wait for tasks that another reactor
// executes: every command would have to visit a structure that all threads
// share. With TST = 001b no command ever crosses reactors; only task management
// that reaches beyond its own nexus does.
//
// Accepting and removing a simple task while no other kind is there costs a
// list insertion; nothing allocates.
class TaskSet {
 public:
  enum class Admission : uint8_t {
    kEnabled,
    kDormant,
    kFull,
    kAcaActive,
    kInvalidAca,  // An ACA task without an ACA condition.
  };

  explicit TaskSet(uint32_t max_tasks) : max_tasks_(max_tasks) {}

  // On kEnabled and kDormant the task is in the set, its phase is set.
  Admission Accept(Task* task) {
    if (size_ >= max_tasks_) return Admission::kFull;
    if (constraints_ != 0 || task->attribute != Attribute::kSimple) {
      return AcceptConstrained(task);
    }
    Append(&enabled_, task);
    task->phase = Task::Phase::kEnabled;
    return Admission::kEnabled;
  }

  // The task's lifetime in the set ends, whatever its state was.
  void Remove(Task* task) {
    Unlink(task->phase == Task::Phase::kDormant ? &dormant_ : &enabled_, task);
    if (task->phase == Task::Phase::kDormant) {
      --constraints_;
    } else if (task->attribute != Attribute::kSimple) {
      RemoveConstraint(task);
    }
  }

  // Cheap test for "NextToEnable() may have something".
  bool has_dormant() const { return dormant_.head != nullptr; }
  // The oldest dormant task that may run now, which becomes enabled; or null.
  Task* NextToEnable();

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  Task* first_enabled() const { return enabled_.head; }
  Task* first_dormant() const { return dormant_.head; }

  // The ACA condition (SAM-5 section 5.9). While it lasts no dormant task
  // becomes enabled, and only one ACA task at a time is accepted. What was
  // enabled is blocked: it may go on transferring data, but its completion is
  // held until the condition is cleared.
  bool aca() const { return aca_; }
  void set_aca(bool on);

 private:
  struct List {
    Task* head = nullptr;
    Task* tail = nullptr;
  };

  void Append(List* list, Task* task) {
    task->next = nullptr;
    task->prev = list->tail;
    (list->tail != nullptr ? list->tail->next : list->head) = task;
    list->tail = task;
    ++size_;
  }
  void Unlink(List* list, Task* task) {
    (task->prev != nullptr ? task->prev->next : list->head) = task->next;
    (task->next != nullptr ? task->next->prev : list->tail) = task->prev;
    --size_;
  }
  Admission AcceptConstrained(Task* task);
  bool MayEnable(Attribute attribute) const;
  void Enable(Task* task);
  void RemoveConstraint(Task* task);

  const uint32_t max_tasks_;
  uint32_t size_ = 0;
  // Zero when a simple task may run at once: dormant tasks, enabled tasks that
  // are not simple, and the ACA condition count one each.
  uint32_t constraints_ = 0;
  uint32_t enabled_ordered_ = 0;
  uint32_t enabled_head_of_queue_ = 0;
  uint32_t enabled_aca_ = 0;
  bool aca_ = false;
  List enabled_;
  List dormant_;  // In order of arrival: whoever is behind waits at least as
                  // long as the head.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_TASK_SET_H_
