#ifndef SKIFF_SCSI_TARGET_WRITE_GUARD_H_
#define SKIFF_SCSI_TARGET_WRITE_GUARD_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "scsi/target/task.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// The logical blocks that a CDB names.
struct BlockRange {
  uint64_t lba = 0;
  uint64_t blocks = 0;
};

// Makes COMPARE AND WRITE atomic against writes from every reactor, at no cost
// that writes share (a "big-reader" lock turned around: writes are the many).
//
// Each worker that serves the medium has, for each logical unit of it, a Member
// with a counter of its own writes in flight, on a cache line that only its
// thread stores to. A write counts itself, then looks at `exclusive_`; whoever
// wants exclusivity sets `exclusive_`, then looks at the counters. All four
// accesses are seq_cst, so at least one side sees the other (Dekker's
// handshake): a write that finds `exclusive_` set takes itself back and parks;
// an exclusive task that finds writes in flight waits, and the last of them to
// leave grants it. Everything beyond that fast path is under `mutex_`; wake-ups
// go through Reactor::Post.
//
// Fair both ways: writes parked while a task was exclusive are admitted before
// the next exclusive task is granted. And fair to each I_T nexus: of each, one
// task is in the line for exclusivity (its *request*); what else it has waits
// behind that, and comes to the end of the line.
//
// Only writes to the exclusive task's own blocks matter to it. Each member
// looks at its writes once somebody wants exclusivity, and *excuses* those
// elsewhere: they are not waited for, and new ones are not parked.
//
// Silence stops nobody for long. A write that does nothing but wait for its
// initiator's data is given up when a request for its blocks has been in line
// for WorkerOptions::data_patience, whether it is that request's turn or not.
// And where a request for its blocks is in line, no new write comes in without
// its data (TryEnter): it receives them into a buffer first. So only the writes
// that were there when a request came into the line can be silent ones, and
// they are over after the patience. Whoever was ahead of it in the line came
// before it. Hence, however many nexuses do their worst, a request waits for
// silence for one patience in all, not for one per nexus or per command; beyond
// that it waits for one exclusive task of each nexus that is ahead of it, and
// for writes that have their data. (Where data cannot be called back, as those
// of an RDMA Read, their nexus ends after a second patience, which makes two.)
class WriteGuard {
 public:
  class Member;
  class Line;

  // `alignment`: in blocks, what the medium changes at once.
  explicit WriteGuard(uint32_t alignment) : alignment_(alignment) {}
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;
  ~WriteGuard() = default;

 private:
  struct Request {
    Member* member;
    Line* line;
    BlockRange range;
  };

  // All with `mutex_` held.
  void Ask(Member* member, Line* line, const Task& task);
  void StartNext();
  void EndExclusive();
  bool Drained() const;
  void GrantIfDrained();
  void PostExaminations();
  // Whether a write touches the blocks of the task that wants exclusivity, or
  // those of any that is in line.
  bool Conflicts(const Task& task) const { return Touches(task, range_); }
  bool ConflictsWithAny(const Task& task) const;
  bool Touches(const Task& task, const BlockRange& range) const;
  std::vector<BlockRange> Wanted() const;
  // Counts a write that is in flight as one that is not waited for.
  void Excuse(Member* member, Task* task);

  const uint32_t alignment_;
  std::atomic<bool> exclusive_{false};
  std::mutex mutex_;
  std::vector<Member*> members_;
  Member* owner_ = nullptr;  // Who set `exclusive_`, granted or not.
  Line* owner_line_ = nullptr;
  BlockRange range_;    // For which blocks.
  uint32_t round_ = 1;  // Counts owners; never zero.
  bool granted_ = false;
  bool claimed_ = false;         // The task knows.
  std::deque<Request> waiting_;  // Each line at most once.
  std::vector<Member*>
      parked_;               // Who parked writes since `exclusive_` was set.
  uint32_t admissions_ = 0;  // Wake-ups on their way to parked writes.
};

// The exclusive tasks of one I_T nexus, in order. Used on its reactor.
class WriteGuard::Line {
 public:
  Line() = default;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

 private:
  friend class WriteGuard;

  struct Queue {
    Task* head = nullptr;
    Task* tail = nullptr;
    void Push(Task* task);
    Task* Pop();
    bool Remove(Task* task);
  };

  Queue tasks_;         // Those that wait, without the one that is alone.
  bool asked_ = false;  // The guard has a request, or a task is alone.
};

// One worker's part. Used on the worker's reactor, except for what the guard
// does under its mutex. Tasks wait in it through Task::wait_next, in the phase
// kWaitingForGuard, and go on with Task::resume.
class alignas(64) WriteGuard::Member
    : public std::enable_shared_from_this<Member> {
 public:
  // The worker's writes, for what has to look at them.
  class Writes {
   public:
    // The task's port comes along.
    using Visitor = absl::FunctionRef<void(TargetPort&, Task*)>;

    virtual ~Writes() = default;
    // Calls `visit` for each task that is counted.
    virtual void ForEachGuarded(Visitor visit) = 0;
  };

  // `patience`: for data that a write waits for while an exclusive task waits
  // for the write.
  Member(std::shared_ptr<WriteGuard> guard, transport::Reactor* reactor,
         Writes* writes, absl::Duration patience);
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
    return EnterSlowly(task, /*may_park=*/true);
  }
  // The same for a write whose data are still to come. False: somebody waits
  // for exclusivity of its blocks; nothing has happened.
  bool TryEnter(Task* task) {
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1,
                     std::memory_order_seq_cst);
    task->guarded = true;
    if (!guard_->exclusive_.load(std::memory_order_seq_cst)) return true;
    return EnterSlowly(task, /*may_park=*/false);
  }
  void Leave(Task* task) {
    if (task->excused != 0) [[unlikely]] {
      return LeaveExcused(task);
    }
    task->guarded = false;
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1,
                     std::memory_order_seq_cst);
    if (guard_->exclusive_.load(std::memory_order_seq_cst)) LeaveSlowly();
  }

  // In the line of its nexus. True: the task is alone until Release(). False:
  // `task->resume` runs later, then alone.
  bool Acquire(Line* line, Task* task);
  void Release(Line* line, Task* task);

  // Takes a task out that waits here, or in its nexus's line.
  void Cancel(Line* line, Task* task);
  // `Writes` is gone.
  void Detach() { writes_ = nullptr; }

 private:
  friend class WriteGuard;

  bool EnterSlowly(Task* task, bool may_park);
  void LeaveSlowly();
  void LeaveExcused(Task* task);
  void Examine();
  void Watch();
  void EndTurn(Line* line);
  void PostExamination();
  void PostGrant();
  void PostAdmission();
  void OnGranted();
  void OnAdmitted();

  // The counter and what the fast path reads share the first line.
  std::atomic<uint32_t> in_flight_{0};
  const std::shared_ptr<WriteGuard> guard_;
  transport::Reactor* const reactor_;
  Writes* writes_;
  const absl::Duration patience_;
  transport::Timer patience_timer_;
  Line::Queue parked_tasks_;
  // Under the guard's mutex.
  const Line* acquiring_ = nullptr;  // In Acquire(): a grant needs no Post().
  bool examination_pending_ = false;
  uint32_t excused_ = 0;  // Of `in_flight_`.
  bool parked_ = false;
  bool admission_pending_ = false;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_WRITE_GUARD_H_
