#include "scsi/target/write_guard.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "scsi/target/give_up_data.h"

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

bool WriteGuard::Touches(const Task& task, const BlockRange& range) const {
  constexpr uint8_t kUnmap = 0x42;
  if (task.cdb[0] == kUnmap) return true;  // Many ranges, and soon over.
  const uint64_t begin = range.lba / alignment_ * alignment_;
  const uint64_t end =
      (range.lba + range.blocks + alignment_ - 1) / alignment_ * alignment_;
  return task.lba < end && begin < task.lba + task.blocks;
}

bool WriteGuard::ConflictsWithAny(const Task& task) const {
  return Conflicts(task) ||
         std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const auto& r) { return Touches(task, r.range); });
}

std::vector<BlockRange> WriteGuard::Wanted() const {
  std::vector<BlockRange> wanted;
  if (owner_ != nullptr) wanted.push_back(range_);
  for (const Request& request : waiting_) wanted.push_back(request.range);
  return wanted;
}

void WriteGuard::Ask(Member* member, Line* line, const Task& task) {
  waiting_.push_back({member, line, {task.lba, task.blocks}});
  line->asked_ = true;
  // Silent writes to its blocks have their time from now on.
  if (owner_ != nullptr) PostExaminations();
}

void WriteGuard::Excuse(Member* member, Task* task) {
  task->excused = round_;
  ++member->excused_;
}

void WriteGuard::GrantIfDrained() {
  if (owner_ == nullptr || granted_ || !Drained()) return;
  granted_ = true;
  if (owner_->acquiring_ != owner_line_) owner_->PostGrant();
}

void WriteGuard::StartNext() {
  if (owner_ != nullptr || waiting_.empty()) return;
  owner_ = waiting_.front().member;
  owner_line_ = waiting_.front().line;
  range_ = waiting_.front().range;
  waiting_.pop_front();
  granted_ = false;
  exclusive_.store(true, std::memory_order_seq_cst);
  GrantIfDrained();
  if (!granted_) PostExaminations();
}

void WriteGuard::PostExaminations() {
  for (Member* member : members_) {
    if (member->in_flight_.load(std::memory_order_seq_cst) > 0 &&
        member->acquiring_ == nullptr && !member->examination_pending_) {
      member->examination_pending_ = true;
      member->PostExamination();
    }
  }
}

void WriteGuard::EndExclusive() {
  owner_ = nullptr;
  owner_line_ = nullptr;
  granted_ = claimed_ = false;
  if (++round_ == 0) round_ = 1;
  for (Member* member : members_) member->excused_ = 0;
  // No gap for a write without data while somebody waits.
  exclusive_.store(!waiting_.empty(), std::memory_order_seq_cst);
  for (Member* member : parked_) {
    member->parked_ = false;
    if (member->admission_pending_) continue;
    member->admission_pending_ = true;
    ++admissions_;
    member->PostAdmission();
  }
  parked_.clear();
}

void WriteGuard::Line::Queue::Push(Task* task) {
  task->wait_next = nullptr;
  (tail != nullptr ? tail->wait_next : head) = task;
  tail = task;
}

Task* WriteGuard::Line::Queue::Pop() {
  Task* task = head;
  if (task == nullptr) return nullptr;
  head = task->wait_next;
  if (head == nullptr) tail = nullptr;
  return task;
}

bool WriteGuard::Line::Queue::Remove(Task* task) {
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
      patience_timer_(reactor, [this] { Watch(); }) {
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  guard_->members_.push_back(this);
}

WriteGuard::Member::~Member() {
  assert(parked_tasks_.head == nullptr);
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

bool WriteGuard::Member::EnterSlowly(Task* task, bool may_park) {
  for (;;) {
    Leave(task);
    {
      const std::lock_guard<std::mutex> lock(guard_->mutex_);
      if (guard_->exclusive_.load(std::memory_order_relaxed)) {
        if (!(may_park ? guard_->Conflicts(*task)
                       : guard_->ConflictsWithAny(*task))) {
          in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                           std::memory_order_seq_cst);
          task->guarded = true;
          guard_->Excuse(this, task);
          return true;
        }
        if (!may_park) return false;
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
  writes_->ForEachGuarded([&](TargetPort&, Task* task) {
    if (task->excused != round && !guard_->Conflicts(*task)) {
      guard_->Excuse(this, task);
    }
  });
  guard_->GrantIfDrained();
}

// Looks for silent writes to blocks for which there are requests: for some
// their time begins, for others it is over.
void WriteGuard::Member::Watch() {
  if (writes_ == nullptr) return;
  std::vector<BlockRange> wanted;
  {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    wanted = guard_->Wanted();
  }
  const absl::Time now = reactor_->Now();
  absl::Time next = absl::InfiniteFuture();
  struct Silent {
    TargetPort* port;
    Task* task;
  };
  std::vector<Silent> silent;
  writes_->ForEachGuarded([&](TargetPort& port, Task* task) {
    const bool held_up =
        task->receiving && task->transfers > 0 &&
        task->in_flight == task->transfers &&
        std::any_of(wanted.begin(), wanted.end(), [&](const BlockRange& range) {
          return guard_->Touches(*task, range);
        });
    if (!held_up) {
      task->holds_up = false;
      return;
    }
    if (!task->holds_up) {
      task->holds_up = true;
      task->holds_up_since = now;
    }
    if (now - task->holds_up_since >= patience_) {
      silent.push_back({&port, task});
      task->holds_up_since = now;
    }
    next = std::min(next, task->holds_up_since + patience_);
  });
  for (const auto& [port, task] : silent) {
    if (GiveUpData(*port, task)) continue;
    port->EndNexus(
        "the initiator does not let go of blocks that a COMPARE AND WRITE "
        "waits for");
  }
  if (next < absl::InfiniteFuture()) patience_timer_.ScheduleAt(next);
}

void WriteGuard::Member::PostExamination() {
  reactor_->Post([self = weak_from_this()] {
    const auto member = self.lock();
    if (member == nullptr) return;
    {
      const std::lock_guard<std::mutex> lock(member->guard_->mutex_);
      member->examination_pending_ = false;
      member->Examine();
    }
    member->Watch();
  });
}

bool WriteGuard::Member::Acquire(Line* line, Task* task) {
  if (!line->asked_) {
    {
      const std::lock_guard<std::mutex> lock(guard_->mutex_);
      acquiring_ = line;
      guard_->Ask(this, line, *task);
      guard_->StartNext();
      Examine();
      acquiring_ = nullptr;
      if (guard_->owner_line_ == line && guard_->granted_) {
        guard_->claimed_ = task->exclusive = true;
        return true;
      }
    }
    Watch();
  }
  task->phase = Task::Phase::kWaitingForGuard;
  line->tasks_.Push(task);
  return false;
}

void WriteGuard::Member::Release(Line* line, Task* task) {
  task->exclusive = false;
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  EndTurn(line);
}

// The line's next task comes to the end of those that wait. With the mutex
// held.
void WriteGuard::Member::EndTurn(Line* line) {
  line->asked_ = false;
  if (const Task* next = line->tasks_.head; next != nullptr) {
    guard_->Ask(this, line, *next);
  }
  guard_->EndExclusive();
  guard_->StartNext();
}

void WriteGuard::Member::Cancel(Line* line, Task* task) {
  if (parked_tasks_.Remove(task)) return;
  const bool first = line->tasks_.head == task;
  line->tasks_.Remove(task);
  const std::lock_guard<std::mutex> lock(guard_->mutex_);
  // With a task that is alone, the line has no request.
  if (!first || (guard_->owner_line_ == line && guard_->claimed_)) return;
  if (guard_->owner_line_ == line) return EndTurn(line);
  // Its request goes with it: another one is for other blocks, and has its
  // silent writes still before it.
  auto& waiting = guard_->waiting_;
  const auto request =
      std::find_if(waiting.begin(), waiting.end(),
                   [line](const auto& r) { return r.line == line; });
  // There is none where there was no memory for it.
  if (request != waiting.end()) waiting.erase(request);
  line->asked_ = false;
  if (const Task* next = line->tasks_.head; next != nullptr) {
    guard_->Ask(this, line, *next);
  }
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
  Task* task = nullptr;
  {
    const std::lock_guard<std::mutex> lock(guard_->mutex_);
    // It may have been given back since, and granted again.
    if (guard_->owner_ != this || !guard_->granted_ || guard_->claimed_) return;
    guard_->claimed_ = true;
    task = guard_->owner_line_->tasks_.Pop();
  }
  task->exclusive = true;
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
  // Some were parked in the loop above, and what they wait for is over already:
  // the same once more, and nothing is granted until then.
  if (parked_tasks_.head != nullptr && !parked_) return PostAdmission();
  admission_pending_ = false;
  --guard_->admissions_;
  guard_->GrantIfDrained();
  Examine();  // What was admitted may wait for its data.
}

}  // namespace skiff::scsi
