#ifndef SKIFF_SCSI_TARGET_BUFFER_POOL_H_
#define SKIFF_SCSI_TARGET_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scsi/target/target.h"
#include "scsi/target/task.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

class BufferAccount;

// A piece of the pool: page-aligned, held by one task at a time.
struct DataBuffer {
  uint8_t* data = nullptr;
  uint32_t size = 0;
  uint8_t size_class = 0;
  bool own = false;   // The holder's own share, nothing borrowed.
  bool late = false;  // Kept waiting by its initiator.
  DataBuffer* next = nullptr;
  // Who holds it, and for looking whether that gets on: how often the buffer
  // was taken, now and when last looked at, and the task's progress then.
  Task* task = nullptr;
  BufferAccount* account = nullptr;
  uint32_t uses = 0;
  uint32_t seen_uses = 0;
  uint8_t looks = 0;  // How often it was found as it was.
  uint64_t seen_progress = 0;
  // In how many looks it waited for its initiator, whether that got on or not,
  // and what the initiator had taken of all its data-in before.
  uint32_t waits = 0;
  uint64_t taken_before = 0;
};

// One worker's bounce buffers, in three sizes, so that small commands do not
// each hold as much as a long one. A task holds one buffer at most and never
// waits for a second, so that the waiting cannot deadlock. Everything is
// allocated up front; memory is touched as it is used.
//
// Each I_T nexus has an account, which others' silence and slowness don't
// reach:
//
// - One small buffer is its own. With it every command gets on that may go
//   through a buffer in steps, however busy the rest is.
// - The rest is borrowed. An account may hold twice as much of a size as is
//   still free, so that there is always something left for one that comes
//   later; and no more than it is trusted with: it earns by giving back in
//   time, and loses all trust with a buffer that its initiator keeps waiting.
// - Accounts that wait are served in turn, whatever each has waiting: those
//   that hold nothing of a size, and those that want more of it, alternate.
// - A write whose data don't come is given up while others want its buffer.
// - A nexus ends while others want its buffer and have no other, if its
//   initiator takes the data in it (all data, to be exact) more slowly than at
//   the least rate once the patience is over; or if a write that was given up
//   keeps its buffer for as long again, as an RDMA Read does that is not
//   answered. So a buffer is held for an initiator for the patience and what
//   is queued for it, divided by the least rate.
//
// Whatever is given back is handed on at the end of the turn: a task that goes
// on never runs inside of what another one does. Handing on looks at a few
// accounts for each buffer, however many wait.
class BufferPool : private transport::TurnHook {
 public:
  static constexpr size_t kClasses = 3;
  static constexpr uint32_t kSmallBytes = 16u << 10;
  // Holds both halves of the longest COMPARE AND WRITE.
  static constexpr uint32_t kMediumBytes = 128u << 10;
  // REPORT LUNS may need it at once.
  static constexpr uint32_t kMinLargeBytes = 256u << 10;

  // `patience`: for an initiator that keeps a buffer waiting. `min_read_rate`:
  // bytes a second.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(
      transport::Reactor* reactor, size_t pool_bytes, size_t buffer_bytes,
      absl::Duration patience, uint64_t min_read_rate);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() override;

  // Gives `task` a buffer of at least `bytes`, or the largest size there is,
  // and returns true. Else the task waits, in the phase kWaitingForBuffer, and
  // `task->resume` runs when it has its buffer. With `in_steps` the command
  // goes through a smaller one just as well, if slower: it gets one rather than
  // wait when its account holds nothing.
  bool Acquire(BufferAccount* account, Task* task, uint64_t bytes,
               bool in_steps);
  // Takes the task's buffer back. Whoever waits for it gets it at the end of
  // the turn.
  void Release(Task* task);
  // All buffers.
  absl::Span<uint8_t> memory() const { return {memory_, mapped_bytes_}; }
  // Takes a task out that waits.
  void Cancel(BufferAccount* account, Task* task);

  // What is held and waited for, in all sizes.
  BufferUse use() const;

 private:
  // How often a pool looks at its buffers within the patience.
  static constexpr int kLooks = 2;

  friend class BufferAccount;

  // Accounts that wait for a size and could have it: those that hold none, and
  // those that hold some.
  enum RingKind : uint8_t { kHoldsNone, kHoldsSome, kRings };
  struct Ring {
    BufferAccount* first = nullptr;
    BufferAccount* last = nullptr;
    uint32_t count = 0;
  };
  struct SizeClass {
    uint32_t size = 0;
    uint32_t count = 0;
    uint32_t free_count = 0;
    DataBuffer* free = nullptr;
    Ring rings[kRings];
    uint8_t turn = kHoldsNone;  // Which ring is next.
    uint32_t waiting_accounts() const {
      return rings[kHoldsNone].count + rings[kHoldsSome].count;
    }
  };

  BufferPool(transport::Reactor* reactor, absl::Duration patience,
             uint64_t min_read_rate);
  void Carve(uint8_t size_class, uint8_t* memory, uint32_t size, size_t count);
  uint8_t ClassFor(uint64_t bytes) const;
  bool IsTrusted(const BufferAccount& account, size_t size_class,
                 bool in_steps) const;
  bool MayBorrow(const BufferAccount& account, size_t size_class,
                 bool in_steps) const;
  // How many of the class are nobody's share.
  uint32_t Unreserved(size_t size_class) const;
  bool TryTake(BufferAccount* account, Task* task, size_t size_class,
               bool in_steps);
  bool TakeLess(BufferAccount* account, Task* task, size_t size_class,
                bool in_steps);
  void Take(BufferAccount* account, Task* task, size_t size_class, bool own);
  void Wait(BufferAccount* account, Task* task, size_t size_class,
            bool in_steps);
  // TurnHook: hands on what was given back.
  void OnTurnEnd() override;
  void ServeInTurn(size_t size_class, uint32_t looks);
  bool ServeOne(BufferAccount* account, size_t size_class);
  void MakeDue(BufferAccount* account);
  void ForgetDue(BufferAccount* account);
  void ServeSoon();
  void Enlist(BufferAccount* account, size_t size_class);
  void Delist(BufferAccount* account, size_t size_class);
  void Look();
  void LookAt(DataBuffer* buffer);
  void LookAtWaiting(DataBuffer* buffer);
  bool OthersLack(const DataBuffer& buffer) const;

  transport::Reactor* const reactor_;
  const absl::Duration patience_;
  const uint64_t min_read_rate_;
  transport::Timer timer_;
  uint8_t* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<DataBuffer> buffers_;
  std::array<SizeClass, kClasses> classes_;
  uint32_t out_ = 0;            // Buffers that are held.
  uint32_t waiting_ = 0;        // Tasks that wait.
  uint32_t shares_ = 0;         // Accounts with a buffer of their own,
  uint32_t unused_shares_ = 0;  // which is not held.
  uint64_t given_up_ = 0;
  uint64_t ended_ = 0;
  uint32_t looks_ = 0;  // How many accounts the next hand-out looks at.
  bool due_ = false;    // There is one.
  // That gave back something, or want something anew, since.
  BufferAccount* first_due_ = nullptr;
  BufferAccount* last_due_ = nullptr;
  uint32_t due_accounts_ = 0;
};

// What one I_T nexus, `port`'s, holds of a pool. Used on the worker's reactor.
class BufferAccount {
 public:
  BufferAccount(BufferPool* pool, TargetPort* port);
  BufferAccount(const BufferAccount&) = delete;
  BufferAccount& operator=(const BufferAccount&) = delete;
  ~BufferAccount();

 private:
  friend class BufferPool;

  // Of one size: tasks that wait, in order, and the account's place in a ring.
  // Small commands that cannot go in steps come first, in order, too.
  struct Queue {
    Task* first = nullptr;
    Task* last = nullptr;
    Task* last_whole = nullptr;
    BufferPool::Ring* ring = nullptr;
    BufferAccount* prev = nullptr;
    BufferAccount* next = nullptr;
    uint32_t held = 0;
  };

  BufferPool* const pool_;
  TargetPort* const port_;
  std::array<Queue, BufferPool::kClasses> queues_;
  uint32_t held_ = 0;  // Buffers.
  uint64_t borrowed_bytes_ = 0;
  uint64_t trust_;  // How many bytes it may borrow.
  bool has_share_ = false;
  bool share_held_ = false;
  bool due_ = false;  // To be looked at when buffers are handed on.
  BufferAccount* next_due_ = nullptr;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_BUFFER_POOL_H_
