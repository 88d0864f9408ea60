#include "scsi/target/write_guard.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "scsi/target/lu_nexus.h"

namespace skiff::scsi {

bool WriteGuard::Drained() const {
  if (admissions_ > 0) return false;
  for (const Member* member : members_) {
    // An excused write leaves under the mutex, so that this is never too
    // little.
    if (member->in_flight_.load(std::memory_order_seq_cst) > member->excused_) {
      return false;
    }
  }
  return true;
}

bool WriteGuard::IsWaiting(const Member* member) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [member](const auto& r) { return r.member == member; });
}

bool WriteGuard::Conflicts(const Task& task) const {
  constexpr uint8_t kUnmap = 0x42;
  if (task.cdb[0] == kUnmap) return true;  // Many ranges, and soon over.
  const uint64_t begin = range_.lba / alignment_ * alignment_;
  const uint64_t end =
      (range_.lba + range_.blocks + alignment_ - 1) / alignment_ * alignment_;
  return task.lba < end && begin < task.lba + task.blocks;
}

void WriteGuard::Excuse(Member* member, Task* task) {
  task->excused = round_;
  ++member->excused_;
}

void WriteGuard::GrantIfDrained() {
  if (owner_ == nullptr || granted_ || !Drained()) return;
  granted_ = true;
  if (!owner_->acquiring_) owner_->PostGrant();
}

void WriteGuard::StartNext() {
  if (owner_ != nullptr || waiting_.empty()) return;
  owner_ = waiting_.front().member;
  range_ = waiting_.front().range;
  waiting_.pop_front();
  granted_ = false;
  exclusive_.store(true, std::memory_order_seq_cst);
  GrantIfDrained();
  if (granted_) return;
  for (Member* member : members_) {
    if (member->in_flight_.load(std::memory_order_seq_cst) > 0 &&
        !member->acquiring_) {
      member->PostExamination();
    }
  }
}

void WriteGuard::EndExclusive() {
  owner_ = nullptr;
  granted_ = false;
  if (++round_ == 0) round_ = 1;
  for (Member* member : members_) member->excused_ = 0;
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
                           transport::Reactor* reactor, Writes* writes,
                           absl::Duration patience)
    : guard_(std::move(guard)),
      reactor_(reactor),
      writes_(writes),
      patience_(patience),
      patience_timer_(reactor, [this] { GiveUpSilent(); }) {
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
  erase(guard_->parked_);
  auto& waiting = guard_->waiting_;
  waiting.erase(
      std::remove_if(waiting.begin(), waiting.end(),
                     [this](const auto& r) { return r.member == this; }),
      waiting.end());
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
        if (!guard_->Conflicts(*task)) {
          in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                           std::memory_order_seq_cst);
          task->guarded = true;
          guard_->Excuse(this, task);
          return true;
        }
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

// Under the mutex, so that both counts change as one.
void WriteGuard::Member::LeaveExcused(Task* task) {
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  if (task->excused == guard_->round_) --excused_;
  task->excused = 0;
  task->guarded = false;
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1,
                   std::memory_order_seq_cst);
  guard_->GrantIfDrained();
}

// Excuses what writes elsewhere. With the mutex held.
void WriteGuard::Member::Examine() {
  if (guard_->owner_ == nullptr || guard_->granted_ || writes_ == nullptr) {
    return;
  }
  const uint32_t round = guard_->round_;
  bool conflict = false;
  writes_->ForEachGuarded([&](Task* task) {
    if (guard_->Conflicts(*task)) {
      conflict = true;
    } else if (task->excused != round) {
      guard_->Excuse(this, task);
    }
  });
  if (conflict && patience_round_ != round) {
    patience_round_ = round;
    patience_timer_.ScheduleAfter(patience_);
  }
  guard_->GrantIfDrained();
}

// The exclusive task has waited long enough for writes to its blocks that wait
// for nothing but their data.
void WriteGuard::Member::GiveUpSilent() {
  std::vector<Task*> silent;
  {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    if (guard_->owner_ == nullptr || guard_->granted_ ||
        guard_->round_ != patience_round_ || writes_ == nullptr) {
      return;
    }
    writes_->ForEachGuarded([&](Task* task) {
      if (guard_->Conflicts(*task)) silent.push_back(task);
    });
  }
  for (Task* task : silent) (void)task->lu_nexus->GiveUpData(task);
}

void WriteGuard::Member::PostExamination() {
  reactor_->Post([self = weak_from_this()] {
    const auto member = self.lock();
    if (member == nullptr) return;
    const std::lock_guard<std::mutex> lock(member->guard_->mutex_);
    member->Examine();
  });
}

bool WriteGuard::Member::Acquire(Task* task) {
  if (!alone_ && exclusive_tasks_.head == nullptr) {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    // Tasks that were cancelled may have left a request or a grant behind,
    // which then serves this task, or is renewed for its blocks.
    if (guard_->owner_ != this && !guard_->IsWaiting(this)) {
      guard_->waiting_.push_back({this, {task->lba, task->blocks}});
      acquiring_ = true;
      guard_->StartNext();
      if (guard_->owner_ == this) Examine();
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
  if (const Task* next = exclusive_tasks_.head; next != nullptr) {
    guard_->waiting_.push_back({this, {next->lba, next->blocks}});
  }
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
  Task* task = exclusive_tasks_.head;
  {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    const BlockRange& range = guard_->range_;
    // The task that asked may have been cancelled since.
    if (task == nullptr || task->lba != range.lba ||
        task->blocks != range.blocks) {
      guard_->EndExclusive();
      if (task != nullptr) {
        guard_->waiting_.push_back({this, {task->lba, task->blocks}});
      }
      guard_->StartNext();
      return;
    }
  }
  exclusive_tasks_.Pop();
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
  Examine();  // What was admitted may wait for its data.
}

}  // namespace skiff::scsi
