#include "scsi/target/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scsi/target/lu_nexus.h"

namespace skiff::scsi {
namespace {

constexpr size_t kPage = 4096;
// How often a pool looks at its buffers within the patience.
constexpr int kLooks = 2;
// An account holds at most so many times of a size what is still free.
constexpr uint64_t kGreed = 2;
// What a new account may borrow, in large buffers.
constexpr uint64_t kFirstTrust = 2;

// The port has the task's data to send, or is to bring them, and nothing else
// is under way.
bool WaitsForInitiator(const Task& task) {
  return task.phase == Task::Phase::kCompleted ||
         (task.transfers > 0 && task.in_flight == task.transfers);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(
    transport::Reactor* reactor, size_t pool_bytes, size_t buffer_bytes,
    absl::Duration patience) {
  if (buffer_bytes < kMinLargeBytes || buffer_bytes % kPage != 0 ||
      buffer_bytes > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions::buffer_bytes is ", buffer_bytes,
                     ": use a multiple of 4096, from ", kMinLargeBytes, " on"));
  }
  // A quarter each for the smaller sizes, as far as they fit into it.
  const std::array<size_t, kClasses> sizes = {kSmallBytes, kMediumBytes,
                                              buffer_bytes};
  std::array<size_t, kClasses> counts = {pool_bytes / 4 / kSmallBytes,
                                         pool_bytes / 4 / kMediumBytes, 0};
  counts[2] =
      (pool_bytes - counts[0] * sizes[0] - counts[1] * sizes[1]) / buffer_bytes;
  // A small pool does without the middle.
  if (counts[2] == 0) {
    counts[1] = 0;
    counts[2] = (pool_bytes - counts[0] * sizes[0]) / buffer_bytes;
  }
  if (counts[0] == 0 || counts[2] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions::buffer_pool_bytes is ", pool_bytes,
                     ": too little for one buffer of ", buffer_bytes,
                     " bytes and a quarter more for small ones"));
  }
  auto pool = absl::WrapUnique(new BufferPool(reactor, patience));
  size_t count = 0;
  for (size_t i = 0; i < kClasses; ++i) {
    pool->mapped_bytes_ += counts[i] * sizes[i];
    count += counts[i];
  }
  void* memory = mmap(nullptr, pool->mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot map ", pool->mapped_bytes_,
        " bytes of data buffers: ", std::strerror(errno),
        ". Lower WorkerOptions::buffer_pool_bytes or raise ulimit -v."));
  }
  pool->memory_ = static_cast<uint8_t*>(memory);
  pool->buffers_.reserve(count);
  uint8_t* at = pool->memory_;
  for (size_t i = 0; i < kClasses; ++i) {
    pool->Carve(static_cast<uint8_t>(i), at, static_cast<uint32_t>(sizes[i]),
                counts[i]);
    at += counts[i] * sizes[i];
  }
  return pool;
}

BufferPool::BufferPool(transport::Reactor* reactor, absl::Duration patience)
    : patience_(patience), timer_(reactor, [this] { Look(); }) {}

BufferPool::~BufferPool() {
  if (memory_ != nullptr) munmap(memory_, mapped_bytes_);
}

void BufferPool::Carve(uint8_t size_class, uint8_t* memory, uint32_t size,
                       size_t count) {
  SizeClass& carved = classes_[size_class];
  carved.size = size;
  carved.count = carved.free_count = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    DataBuffer& buffer = buffers_.emplace_back();
    buffer.data = memory + i * size;
    buffer.size = size;
    buffer.size_class = size_class;
    buffer.next = carved.free;
    carved.free = &buffer;
  }
}

uint8_t BufferPool::ClassFor(uint64_t bytes) const {
  if (bytes <= kSmallBytes) return 0;
  return bytes <= kMediumBytes && classes_[1].count > 0 ? 1 : 2;
}

// --- Taking.

uint32_t BufferPool::Unreserved(size_t size_class) const {
  const uint32_t free = classes_[size_class].free_count;
  const uint32_t reserved = size_class == 0 ? unused_shares_ : 0;
  return free > reserved ? free - reserved : 0;
}

bool BufferPool::MayBorrow(const BufferAccount& account, size_t size_class,
                           bool in_steps) const {
  const uint64_t free = Unreserved(size_class);
  if (account.queues_[size_class].held >= kGreed * free) return false;
  if (account.borrowed_bytes_ + classes_[size_class].size <= account.trust_) {
    return true;
  }
  // What needs this size cannot earn trust with a smaller one.
  return !in_steps && account.held_ == 0;
}

bool BufferPool::TryTake(BufferAccount* account, Task* task, size_t size_class,
                         bool in_steps) {
  if (MayBorrow(*account, size_class, in_steps)) [[likely]] {
    Take(account, task, size_class, /*own=*/false);
    return true;
  }
  return (in_steps || size_class == 0) &&
         TakeLess(account, task, size_class, in_steps);
}

// A smaller one for an account that holds none; at last its own, which small
// commands get in any case.
bool BufferPool::TakeLess(BufferAccount* account, Task* task, size_t size_class,
                          bool in_steps) {
  if (account->held_ == 0) {
    for (size_t less = size_class; less-- > 0;) {
      if (!MayBorrow(*account, less, /*in_steps=*/true)) continue;
      Take(account, task, less, /*own=*/false);
      return true;
    }
  }
  if ((in_steps && account->held_ > 0) || !account->has_share_ ||
      account->share_held_ || classes_[0].free == nullptr) {
    return false;
  }
  Take(account, task, 0, /*own=*/true);
  return true;
}

void BufferPool::Take(BufferAccount* account, Task* task, size_t size_class,
                      bool own) {
  SizeClass& from = classes_[size_class];
  DataBuffer* buffer = from.free;
  from.free = buffer->next;
  --from.free_count;
  buffer->own = own;
  buffer->late = false;
  buffer->task = task;
  buffer->account = account;
  ++buffer->uses;
  ++account->queues_[size_class].held;
  ++account->held_;
  if (own) {
    account->share_held_ = true;
    --unused_shares_;
  } else {
    account->borrowed_bytes_ += buffer->size;
  }
  task->buffer = buffer;
  if (out_++ == 0 && !timer_.scheduled()) [[unlikely]] {
    timer_.ScheduleAfter(patience_ / kLooks);
  }
}

bool BufferPool::Acquire(BufferAccount* account, Task* task, uint64_t bytes,
                         bool in_steps) {
  const uint8_t size_class = ClassFor(bytes);
  BufferAccount::Queue& queue = account->queues_[size_class];
  // INQUIRY and the like go before reads and writes.
  const bool first = queue.first == nullptr || (size_class == 0 && !in_steps);
  if (first && TryTake(account, task, size_class, in_steps)) return true;
  task->phase = Task::Phase::kWaitingForBuffer;
  task->in_steps = in_steps;
  if (queue.first == nullptr) AppendAccount(account, size_class);
  if (first) {
    task->wait_next = queue.first;
    queue.first = task;
    if (queue.last == nullptr) queue.last = task;
  } else {
    task->wait_next = nullptr;
    queue.last->wait_next = task;
    queue.last = task;
  }
  ++waiting_;
  return false;
}

// --- Giving back.

void BufferPool::Release(Task* task) {
  DataBuffer* buffer = task->buffer;
  BufferAccount* account = buffer->account;
  task->buffer = nullptr;
  buffer->task = nullptr;
  buffer->account = nullptr;
  SizeClass& owner = classes_[buffer->size_class];
  buffer->next = owner.free;
  owner.free = buffer;
  ++owner.free_count;
  --account->queues_[buffer->size_class].held;
  --account->held_;
  if (buffer->own) {
    account->share_held_ = false;
    ++unused_shares_;
  } else {
    account->borrowed_bytes_ -= buffer->size;
  }
  if (!buffer->late && account->trust_ < mapped_bytes_) {
    account->trust_ += buffer->size;
  }
  --out_;
  if (waiting_ > 0) Serve();
}

// A loop, not a recursion: a task that goes on may finish and release its
// buffer at once.
void BufferPool::Serve() {
  serve_again_ = true;
  if (serving_) return;
  serving_ = true;
  while (serve_again_) {
    serve_again_ = false;
    for (size_t i = 0; i < kClasses; ++i) {
      if (ServeInTurn(i) || ServeIdleAccounts(i)) serve_again_ = true;
    }
  }
  serving_ = false;
}

// Each account that waits for the size, the one after the last served first. A
// task that is served may change everything; then there is another round.
bool BufferPool::ServeInTurn(size_t size_class) {
  SizeClass& waited = classes_[size_class];
  for (uint32_t left = waited.waiting_accounts;
       left > 0 && Unreserved(size_class) > 0; --left) {
    BufferAccount* account = waited.first_waiting;
    RemoveAccount(account, size_class);
    AppendAccount(account, size_class);
    if (ServeOne(account, size_class)) return true;
  }
  return false;
}

// Those that hold nothing take their own share, or a smaller size.
bool BufferPool::ServeIdleAccounts(size_t size_class) {
  if (classes_[0].free == nullptr) return false;
  for (BufferAccount* account = classes_[size_class].first_waiting;
       account != nullptr; account = account->queues_[size_class].next) {
    if (account->held_ == 0 || size_class == 0) {
      if (ServeOne(account, size_class)) return true;
    }
  }
  return false;
}

bool BufferPool::ServeOne(BufferAccount* account, size_t size_class) {
  BufferAccount::Queue& queue = account->queues_[size_class];
  Task* task = queue.first;
  if (!TryTake(account, task, size_class, task->in_steps)) return false;
  queue.first = task->wait_next;
  if (queue.first == nullptr) {
    queue.last = nullptr;
    RemoveAccount(account, size_class);
  }
  --waiting_;
  task->phase = Task::Phase::kEnabled;
  task->resume(task);
  return true;
}

void BufferPool::Cancel(BufferAccount* account, Task* task) {
  for (size_t i = 0; i < kClasses; ++i) {
    BufferAccount::Queue& queue = account->queues_[i];
    Task* previous = nullptr;
    for (Task* at = queue.first; at != nullptr;
         previous = at, at = at->wait_next) {
      if (at != task) continue;
      (previous != nullptr ? previous->wait_next : queue.first) =
          task->wait_next;
      if (queue.last == task) queue.last = previous;
      if (queue.first == nullptr) RemoveAccount(account, i);
      --waiting_;
      return;
    }
  }
}

void BufferPool::AppendAccount(BufferAccount* account, size_t size_class) {
  SizeClass& ring = classes_[size_class];
  account->queues_[size_class].next = nullptr;
  (ring.last_waiting != nullptr ? ring.last_waiting->queues_[size_class].next
                                : ring.first_waiting) = account;
  ring.last_waiting = account;
  ++ring.waiting_accounts;
}

void BufferPool::RemoveAccount(BufferAccount* account, size_t size_class) {
  SizeClass& ring = classes_[size_class];
  BufferAccount* previous = nullptr;
  for (BufferAccount* at = ring.first_waiting; at != account;) {
    previous = at;
    at = at->queues_[size_class].next;
  }
  BufferAccount* next = account->queues_[size_class].next;
  (previous != nullptr ? previous->queues_[size_class].next
                       : ring.first_waiting) = next;
  if (ring.last_waiting == account) ring.last_waiting = previous;
  --ring.waiting_accounts;
}

// --- Initiators that keep buffers waiting.

// All buffers, now and then: nothing is counted per command.
void BufferPool::Look() {
  for (DataBuffer& buffer : buffers_) {
    if (buffer.task != nullptr) LookAt(&buffer);
  }
  // What has become free without a Release(), as when a task that was first in
  // its queue is cancelled.
  if (waiting_ > 0) Serve();
  if (out_ > 0) timer_.ScheduleAfter(patience_ / kLooks);
}

// Late is what was waiting at kLooks looks before and has not got on since.
void BufferPool::LookAt(DataBuffer* buffer) {
  Task* task = buffer->task;
  if (!WaitsForInitiator(*task) || buffer->seen_uses != buffer->uses ||
      buffer->seen_progress != task->progress) {
    buffer->seen_uses = buffer->uses;
    buffer->seen_progress = task->progress;
    buffer->looks = 0;
    return;
  }
  if (buffer->looks < kLooks) ++buffer->looks;
  if (buffer->looks < kLooks) return;
  buffer->late = true;
  buffer->account->trust_ = 0;
  // Only its owner misses a share.
  if (buffer->own) return;
  const SizeClass& size_class = classes_[buffer->size_class];
  if (size_class.waiting_accounts > 0 || Unreserved(buffer->size_class) == 0) {
    if (task->lu_nexus->GiveUpData(task)) ++given_up_;
  }
}

BufferUse BufferPool::use() const {
  BufferUse use;
  for (const SizeClass& c : classes_) {
    use.total_bytes += uint64_t{c.size} * c.count;
    use.held_bytes += uint64_t{c.size} * (c.count - c.free_count);
  }
  use.waiting_tasks = waiting_;
  use.given_up = given_up_;
  return use;
}

// --- Accounts.

BufferAccount::BufferAccount(BufferPool* pool)
    : pool_(pool), trust_(kFirstTrust * pool->classes_[2].size) {
  // Half of the small ones serve all.
  if (pool_->shares_ >= pool_->classes_[0].count / 2) return;
  has_share_ = true;
  ++pool_->shares_;
  ++pool_->unused_shares_;
}

BufferAccount::~BufferAccount() {
  assert(held_ == 0);
  if (!has_share_) return;
  --pool_->shares_;
  --pool_->unused_shares_;
}

}  // namespace skiff::scsi
