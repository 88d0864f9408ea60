#include "scsi/target/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

constexpr size_t kPage = 4096;
// An account holds at most so many times of a size what is still free.
constexpr uint64_t kGreed = 2;
// What a new account may borrow, in large buffers.
constexpr uint64_t kFirstTrust = 2;
// How many accounts that want more are looked at for each buffer given back.
constexpr uint32_t kLooksPerBuffer = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(
    transport::Reactor* reactor, size_t pool_bytes, size_t buffer_bytes,
    absl::Duration patience, uint64_t min_read_rate) {
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
  auto pool =
      absl::WrapUnique(new BufferPool(reactor, patience, min_read_rate));
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

BufferPool::BufferPool(transport::Reactor* reactor, absl::Duration patience,
                       uint64_t min_read_rate)
    : reactor_(reactor),
      patience_(patience),
      min_read_rate_(min_read_rate),
      timer_(reactor, [this] { Look(); }) {}

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

// What the account's own doing allows. If it does not, only a buffer that the
// account gives back changes that.
bool BufferPool::IsTrusted(const BufferAccount& account, size_t size_class,
                           bool in_steps) const {
  if (account.borrowed_bytes_ + classes_[size_class].size <= account.trust_) {
    return true;
  }
  if (account.borrowed_bytes_ > 0) return false;
  // What needs this size cannot earn trust with a smaller one, nor can anything
  // where nothing is the account's own.
  return !in_steps || (size_class == 0 && !account.has_share_);
}

bool BufferPool::MayBorrow(const BufferAccount& account, size_t size_class,
                           bool in_steps) const {
  const uint64_t free = Unreserved(size_class);
  return account.queues_[size_class].held < kGreed * free &&
         IsTrusted(account, size_class, in_steps);
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
  uint8_t size_class = ClassFor(bytes);
  const BufferAccount::Queue& queue = account->queues_[size_class];
  // INQUIRY and the like go before reads and writes. Others don't overtake
  // those who get what was given back at the end of the turn.
  const bool first =
      size_class == 0 && !in_steps
          ? queue.last_whole == nullptr
          : queue.first == nullptr &&
                !(due_ && classes_[size_class].waiting_accounts());
  if (first && TryTake(account, task, size_class, in_steps)) return true;
  // Without a share, it cannot count on anything but to be in turn for what
  // comes back most often.
  if (in_steps && !account->has_share_) size_class = 0;
  Wait(account, task, size_class, in_steps);
  return false;
}

void BufferPool::Wait(BufferAccount* account, Task* task, size_t size_class,
                      bool in_steps) {
  BufferAccount::Queue& queue = account->queues_[size_class];
  task->phase = Task::Phase::kWaitingForBuffer;
  task->in_steps = in_steps;
  const bool whole = size_class == 0 && !in_steps;
  Task* after = whole ? queue.last_whole : queue.last;
  Task*& link = after != nullptr ? after->wait_next : queue.first;
  task->wait_next = link;
  link = task;
  if (task->wait_next == nullptr) queue.last = task;
  if (whole) queue.last_whole = task;
  ++waiting_;
  // Another task may be the first now.
  if (queue.first == task) Enlist(account, size_class);
  // It may get its own at the end of the turn.
  if (due_) MakeDue(account);
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
  if (waiting_ == 0) return;
  MakeDue(account);
  looks_ += kLooksPerBuffer;
}

// The account is looked at, besides those whose turn it is: it may be only now
// that it may have more, or its own.
void BufferPool::MakeDue(BufferAccount* account) {
  for (size_t i = 0; i < kClasses; ++i) Enlist(account, i);
  if (!account->due_) {
    account->due_ = true;
    account->next_due_ = nullptr;
    (last_due_ != nullptr ? last_due_->next_due_ : first_due_) = account;
    last_due_ = account;
    ++due_accounts_;
  }
  ServeSoon();
}

void BufferPool::ForgetDue(BufferAccount* account) {
  if (!account->due_) return;
  BufferAccount* previous = nullptr;
  for (BufferAccount* at = first_due_; at != account; at = at->next_due_) {
    previous = at;
  }
  (previous != nullptr ? previous->next_due_ : first_due_) = account->next_due_;
  if (last_due_ == account) last_due_ = previous;
  --due_accounts_;
  account->due_ = false;
}

void BufferPool::ServeSoon() {
  due_ = true;
  reactor_->ScheduleTurnEnd(this);
}

// Tasks that go on may do anything, also to accounts.
void BufferPool::OnTurnEnd() {
  const uint32_t looks = std::exchange(looks_, 0);
  for (size_t i = 0; i < kClasses; ++i) ServeInTurn(i, looks);
  for (uint32_t left = due_accounts_; left > 0 && first_due_ != nullptr;
       --left) {
    BufferAccount* account = first_due_;
    ForgetDue(account);
    for (size_t i = 0; i < kClasses; ++i) {
      // There may be more for it; it ends with the task going on.
      if (ServeOne(account, i)) break;
    }
  }
  due_ = first_due_ != nullptr;
  if (due_) reactor_->ScheduleTurnEnd(this);
}

// Those that hold none can take what is free. Those that hold some may have too
// many.
void BufferPool::ServeInTurn(size_t size_class, uint32_t looks) {
  SizeClass& waited = classes_[size_class];
  while (Unreserved(size_class) > 0 && waited.waiting_accounts() > 0) {
    Ring* ring = &waited.rings[waited.turn];
    waited.turn ^= 1;
    if (ring->count == 0) ring = &waited.rings[waited.turn];
    BufferAccount* account = ring->first;
    if (ServeOne(account, size_class)) continue;
    Delist(account, size_class);
    Enlist(account, size_class);
    if (looks == 0) return;
    --looks;
  }
}

// Ends with the task going on.
bool BufferPool::ServeOne(BufferAccount* account, size_t size_class) {
  BufferAccount::Queue& queue = account->queues_[size_class];
  Task* task = queue.first;
  if (task == nullptr || !TryTake(account, task, size_class, task->in_steps)) {
    return false;
  }
  queue.first = task->wait_next;
  if (queue.first == nullptr) queue.last = nullptr;
  if (queue.last_whole == task) queue.last_whole = nullptr;
  Delist(account, size_class);
  --waiting_;
  if (queue.first != nullptr) MakeDue(account);
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
      if (queue.last_whole == task) queue.last_whole = previous;
      --waiting_;
      // The next one may want less, or nobody waits.
      Enlist(account, i);
      if (queue.first != nullptr) MakeDue(account);
      return;
    }
  }
}

// Puts the account into the ring where it belongs, at the end, unless it is
// there. While its own doing keeps it from more, it belongs to none.
void BufferPool::Enlist(BufferAccount* account, size_t size_class) {
  BufferAccount::Queue& queue = account->queues_[size_class];
  Ring* ring = nullptr;
  if (queue.first != nullptr &&
      IsTrusted(*account, size_class, queue.first->in_steps)) {
    ring =
        &classes_[size_class].rings[queue.held > 0 ? kHoldsSome : kHoldsNone];
  }
  if (queue.ring == ring) return;
  Delist(account, size_class);
  if (ring == nullptr) return;
  queue.ring = ring;
  queue.prev = ring->last;
  queue.next = nullptr;
  (ring->last != nullptr ? ring->last->queues_[size_class].next : ring->first) =
      account;
  ring->last = account;
  ++ring->count;
}

void BufferPool::Delist(BufferAccount* account, size_t size_class) {
  BufferAccount::Queue& queue = account->queues_[size_class];
  Ring* ring = std::exchange(queue.ring, nullptr);
  if (ring == nullptr) return;
  (queue.prev != nullptr ? queue.prev->queues_[size_class].next : ring->first) =
      queue.next;
  (queue.next != nullptr ? queue.next->queues_[size_class].prev : ring->last) =
      queue.prev;
  --ring->count;
}

BufferUse BufferPool::use() const {
  BufferUse use;
  for (const SizeClass& c : classes_) {
    use.total_bytes += uint64_t{c.size} * c.count;
    use.held_bytes += uint64_t{c.size} * (c.count - c.free_count);
  }
  use.waiting_tasks = waiting_;
  use.given_up = given_up_;
  use.ended = ended_;
  return use;
}

// --- Accounts.

BufferAccount::BufferAccount(BufferPool* pool, TargetPort* port)
    : pool_(pool), port_(port), trust_(kFirstTrust * pool->classes_[2].size) {
  // Half of the small ones serve all. A share is one that is there.
  if (pool_->shares_ >= pool_->classes_[0].count / 2 ||
      pool_->Unreserved(0) == 0) {
    return;
  }
  has_share_ = true;
  ++pool_->shares_;
  ++pool_->unused_shares_;
}

BufferAccount::~BufferAccount() {
  assert(held_ == 0);
  pool_->ForgetDue(this);
  if (!has_share_) return;
  --pool_->shares_;
  --pool_->unused_shares_;
}

}  // namespace skiff::scsi
