#include "scsi/target/write_guard.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace skiff::scsi {

bool WriteGuard::Drained() const {
  if (admissions_ > 0) return false;
  for (const Member* member : members_) {
    if (member->in_flight_.load(std::memory_order_seq_cst) > 0) return false;
  }
  return true;
}

void WriteGuard::GrantIfDrained() {
  if (owner_ == nullptr || granted_ || !Drained()) return;
  granted_ = true;
  if (!owner_->acquiring_) owner_->PostGrant();
}

void WriteGuard::StartNext() {
  if (owner_ != nullptr || waiting_.empty()) return;
  owner_ = waiting_.front();
  waiting_.pop_front();
  granted_ = false;
  exclusive_.store(true, std::memory_order_seq_cst);
  GrantIfDrained();
}

void WriteGuard::EndExclusive() {
  owner_ = nullptr;
  granted_ = false;
  exclusive_.store(false, std::memory_order_seq_cst);
  for (Member* member : parked_) {
    member->parked_ = false;
    if (member->admission_pending_) continue;
    member->admission_pending_ = true;
    ++admissions_;
    member->PostAdmission();
  }
  parked_.clear();
}

void WriteGuard::Member::Queue::Push(Task* task) {
  task->wait_next = nullptr;
  (tail != nullptr ? tail->wait_next : head) = task;
  tail = task;
}

Task* WriteGuard::Member::Queue::Pop() {
  Task* task = head;
  if (task == nullptr) return nullptr;
  head = task->wait_next;
  if (head == nullptr) tail = nullptr;
  return task;
}

bool WriteGuard::Member::Queue::Remove(Task* task) {
  Task* previous = nullptr;
  for (Task* at = head; at != nullptr; previous = at, at = at->wait_next) {
    if (at != task) continue;
    (previous != nullptr ? previous->wait_next : head) = task->wait_next;
    if (tail == task) tail = previous;
    return true;
  }
  return false;
}

WriteGuard::Member::Member(std::shared_ptr<WriteGuard> guard,
                           transport::Reactor* reactor)
    : guard_(std::move(guard)), reactor_(reactor) {
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  guard_->members_.push_back(this);
}

WriteGuard::Member::~Member() {
  assert(parked_tasks_.head == nullptr && exclusive_tasks_.head == nullptr);
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  const auto erase = [this](auto& members) {
    members.erase(std::remove(members.begin(), members.end(), this),
                  members.end());
  };
  erase(guard_->members_);
  erase(guard_->waiting_);
  erase(guard_->parked_);
  if (admission_pending_) --guard_->admissions_;
  if (guard_->owner_ == this) guard_->EndExclusive();
  guard_->StartNext();
  guard_->GrantIfDrained();
}

bool WriteGuard::Member::EnterSlowly(Task* task) {
  for (;;) {
    Leave(task);
    {
      const std::lock_guard<std::mutex> lock(guard_->mutex_);
      if (guard_->exclusive_.load(std::memory_order_relaxed)) {
        if (!parked_) {
          parked_ = true;
          guard_->parked_.push_back(this);
        }
        task->phase = Task::Phase::kWaitingForGuard;
        parked_tasks_.Push(task);
        return false;
      }
    }
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                     std::memory_order_seq_cst);
    task->guarded = true;
    if (!guard_->exclusive_.load(std::memory_order_seq_cst)) return true;
  }
}

void WriteGuard::Member::LeaveSlowly() {
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  guard_->GrantIfDrained();
}

bool WriteGuard::Member::Acquire(Task* task) {
  if (!alone_ && exclusive_tasks_.head == nullptr) {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    // Tasks that were cancelled may have left a request or a grant behind,
    // which then serves this task.
    const auto& waiting = guard_->waiting_;
    if (guard_->owner_ != this &&
        std::find(waiting.begin(), waiting.end(), this) == waiting.end()) {
      guard_->waiting_.push_back(this);
      acquiring_ = true;
      guard_->StartNext();
      acquiring_ = false;
      if (guard_->owner_ == this && guard_->granted_) {
        alone_ = task->exclusive = true;
        return true;
      }
    }
  }
  task->phase = Task::Phase::kWaitingForGuard;
  exclusive_tasks_.Push(task);
  return false;
}

void WriteGuard::Member::Release(Task* task) {
  alone_ = task->exclusive = false;
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  guard_->EndExclusive();
  if (exclusive_tasks_.head != nullptr) guard_->waiting_.push_back(this);
  guard_->StartNext();
}

void WriteGuard::Member::Cancel(Task* task) {
  // When the last task that wanted exclusivity goes, the grant is given back as
  // it arrives.
  if (!parked_tasks_.Remove(task)) exclusive_tasks_.Remove(task);
}

void WriteGuard::Member::PostGrant() {
  reactor_->Post([self = weak_from_this()] {
    if (const auto member = self.lock()) member->OnGranted();
  });
}

void WriteGuard::Member::PostAdmission() {
  reactor_->Post([self = weak_from_this()] {
    if (const auto member = self.lock()) member->OnAdmitted();
  });
}

void WriteGuard::Member::OnGranted() {
  Task* task = exclusive_tasks_.Pop();
  if (task == nullptr) {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    guard_->EndExclusive();
    guard_->StartNext();
    return;
  }
  alone_ = task->exclusive = true;
  task->phase = Task::Phase::kEnabled;
  task->resume(task);
}

// No exclusive task is granted before this ends, so that writes enter without
// looking.
void WriteGuard::Member::OnAdmitted() {
  size_t count = 0;
  for (Task* at = parked_tasks_.head; at != nullptr; at = at->wait_next) {
    ++count;
  }
  for (; count > 0; --count) {
    Task* task = parked_tasks_.Pop();
    if (task == nullptr) break;  // Aborted meanwhile.
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                     std::memory_order_seq_cst);
    task->guarded = true;
    task->phase = Task::Phase::kEnabled;
    task->resume(task);
  }
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  admission_pending_ = false;
  --guard_->admissions_;
  guard_->GrantIfDrained();
}

}  // namespace skiff::scsi
