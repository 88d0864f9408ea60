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
#include "transport/reactor.h"

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
// still
//   free, so that there is always something left for one that comes later; and
//   no more than it is trusted with: it earns by giving back in time, and loses
//   all trust with a buffer that its initiator keeps waiting.
// - Accounts that wait are served in turn, whatever each has waiting.
// - A write whose data don't come is given up while others want its buffer.
class BufferPool {
 public:
  static constexpr size_t kClasses = 3;
  static constexpr uint32_t kSmallBytes = 16u << 10;
  // Holds both halves of the longest COMPARE AND WRITE.
  static constexpr uint32_t kMediumBytes = 128u << 10;
  // REPORT LUNS may need it at once.
  static constexpr uint32_t kMinLargeBytes = 256u << 10;

  // `patience`: for an initiator that keeps a buffer waiting.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(
      transport::Reactor* reactor, size_t pool_bytes, size_t buffer_bytes,
      absl::Duration patience);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // Gives `task` a buffer of at least `bytes`, or the largest size there is,
  // and returns true. Else the task waits, in the phase kWaitingForBuffer, and
  // `task->resume` runs when it has its buffer. With `in_steps` the command
  // goes through a smaller one just as well, if slower: it gets one rather than
  // wait when its account holds nothing.
  bool Acquire(BufferAccount* account, Task* task, uint64_t bytes,
               bool in_steps);
  // Takes the task's buffer back, and hands it to whoever waits for it.
  void Release(Task* task);
  // All buffers.
  absl::Span<uint8_t> memory() const { return {memory_, mapped_bytes_}; }
  // Takes a task out that waits.
  void Cancel(BufferAccount* account, Task* task);

  // What is held and waited for, in all sizes.
  BufferUse use() const;

 private:
  friend class BufferAccount;

  struct SizeClass {
    uint32_t size = 0;
    uint32_t count = 0;
    uint32_t free_count = 0;
    DataBuffer* free = nullptr;
    // Accounts that have tasks waiting for the size, in a ring.
    BufferAccount* first_waiting = nullptr;
    BufferAccount* last_waiting = nullptr;
    uint32_t waiting_accounts = 0;
  };

  BufferPool(transport::Reactor* reactor, absl::Duration patience);
  void Carve(uint8_t size_class, uint8_t* memory, uint32_t size, size_t count);
  uint8_t ClassFor(uint64_t bytes) const;
  bool MayBorrow(const BufferAccount& account, size_t size_class,
                 bool in_steps) const;
  // How many of the class are nobody's share.
  uint32_t Unreserved(size_t size_class) const;
  bool TryTake(BufferAccount* account, Task* task, size_t size_class,
               bool in_steps);
  bool TakeLess(BufferAccount* account, Task* task, size_t size_class,
                bool in_steps);
  void Take(BufferAccount* account, Task* task, size_t size_class, bool own);
  void Serve();
  bool ServeInTurn(size_t size_class);
  bool ServeIdleAccounts(size_t size_class);
  bool ServeOne(BufferAccount* account, size_t size_class);
  void AppendAccount(BufferAccount* account, size_t size_class);
  void RemoveAccount(BufferAccount* account, size_t size_class);
  void Look();
  void LookAt(DataBuffer* buffer);

  const absl::Duration patience_;
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
  bool serving_ = false;
  bool serve_again_ = false;
};

// What one I_T nexus holds of a pool. Used on the worker's reactor.
class BufferAccount {
 public:
  explicit BufferAccount(BufferPool* pool);
  BufferAccount(const BufferAccount&) = delete;
  BufferAccount& operator=(const BufferAccount&) = delete;
  ~BufferAccount();

 private:
  friend class BufferPool;

  // Of one size: tasks that wait, in order, and the account's place in the
  // ring.
  struct Queue {
    Task* first = nullptr;
    Task* last = nullptr;
    BufferAccount* next = nullptr;
    uint32_t held = 0;
  };

  BufferPool* const pool_;
  std::array<Queue, BufferPool::kClasses> queues_;
  uint32_t held_ = 0;  // Buffers.
  uint64_t borrowed_bytes_ = 0;
  uint64_t trust_;  // How many bytes it may borrow.
  bool has_share_ = false;
  bool share_held_ = false;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_BUFFER_POOL_H_
