#ifndef SKIFF_SCSI_TARGET_WRITE_GUARD_H_
#define SKIFF_SCSI_TARGET_WRITE_GUARD_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "scsi/target/task.h"
#include "transport/reactor.h"

namespace skiff::scsi {

// Makes COMPARE AND WRITE atomic against writes from every reactor, at no cost
// that writes share (a "big-reader" lock turned around: writes are the many).
//
// Each worker that serves the logical unit has a Member with a counter of its
// own writes in flight, on a cache line that only its thread stores to. A write
// counts itself, then looks at `exclusive_`; whoever wants exclusivity sets
// `exclusive_`, then looks at the counters. All four accesses are seq_cst, so
// at least one side sees the other (Dekker's handshake): a write that finds
// `exclusive_` set takes itself back and parks; an exclusive task that finds
// writes in flight waits, and the last of them to leave grants it. Everything
// beyond that fast path is under `mutex_`; wake-ups go through Reactor::Post.
//
// Fair both ways: writes parked while a task was exclusive are admitted before
// the next exclusive task is granted.
class WriteGuard {
 public:
  class Member;

  WriteGuard() = default;
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;
  ~WriteGuard() = default;

 private:
  // All with `mutex_` held.
  void StartNext();
  void EndExclusive();
  bool Drained() const;
  void GrantIfDrained();

  std::atomic<bool> exclusive_{false};
  std::mutex mutex_;
  std::vector<Member*> members_;
  Member* owner_ = nullptr;  // Who set `exclusive_`, granted or not.
  bool granted_ = false;
  std::deque<Member*> waiting_;  // Each at most once.
  std::vector<Member*>
      parked_;               // Who parked writes since `exclusive_` was set.
  uint32_t admissions_ = 0;  // Wake-ups on their way to parked writes.
};

// One worker's part. Used on the worker's reactor, except for what the guard
// does under its mutex. Tasks wait in it through Task::wait_next, in the phase
// kWaitingForGuard, and go on with Task::resume.
class alignas(64) WriteGuard::Member
    : public std::enable_shared_from_this<Member> {
 public:
  Member(std::shared_ptr<WriteGuard> guard, transport::Reactor* reactor);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  // True: the task counts as a write in flight until Leave(). False: it was
  // parked; `task->resume` runs later, then counted.
  bool Enter(Task* task) {
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                     std::memory_order_seq_cst);
    task->guarded = true;
    if (!guard_->exclusive_.load(std::memory_order_seq_cst)) return true;
    return EnterSlowly(task);
  }
  void Leave(Task* task) {
    task->guarded = false;
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1,
                     std::memory_order_seq_cst);
    if (guard_->exclusive_.load(std::memory_order_seq_cst)) LeaveSlowly();
  }

  // True: the task is alone until Release(). False: `task->resume` runs later,
  // then alone.
  bool Acquire(Task* task);
  void Release(Task* task);

  // Takes a task out that waits here.
  void Cancel(Task* task);

 private:
  friend class WriteGuard;

  struct Queue {
    Task* head = nullptr;
    Task* tail = nullptr;
    void Push(Task* task);
    Task* Pop();
    bool Remove(Task* task);
  };

  bool EnterSlowly(Task* task);
  void LeaveSlowly();
  void PostGrant();
  void PostAdmission();
  void OnGranted();
  void OnAdmitted();

  // The counter and what the fast path reads share the first line.
  std::atomic<uint32_t> in_flight_{0};
  const std::shared_ptr<WriteGuard> guard_;
  transport::Reactor* const reactor_;
  Queue parked_tasks_;
  Queue exclusive_tasks_;   // Those that wait, without the one that is alone.
  bool alone_ = false;      // A task of this member has exclusivity.
  bool acquiring_ = false;  // Inside Acquire(): a grant needs no Post().
  // Under the guard's mutex.
  bool parked_ = false;
  bool admission_pending_ = false;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_WRITE_GUARD_H_
