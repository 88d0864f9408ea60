#include "tools/library/request_table.h"

#include <cerrno>
#include <new>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace skiff::library {
namespace {

constexpr uint64_t kIndexMask = (uint64_t{1} << RequestTable::kIndexBits) - 1;

// The innermost submission of this thread.
thread_local Submitting* submitting = nullptr;

}  // namespace

void RequestSlot::Begin(scsi::IoRequest* request, CompletionQueue* its_queue,
                        uint32_t thread, void* user) {
  const uint64_t generation =
      (word_.load(std::memory_order_relaxed) >> kStageBits) + 1;
  view.id = generation << RequestTable::kIndexBits | index_;
  view.thread = thread;
  view.user = user;
  io = request;
  queue = its_queue;
  cancel_asked = false;
  error = 0;
  error_offset = 0;
  // Whoever has the number from elsewhere than the view finds all of it.
  word_.store(Word(generation, Stage::kInFlight), std::memory_order_release);
}

int RequestSlot::Claim(uint64_t generation) {
  uint64_t seen = Word(generation, Stage::kInFlight);
  if (word_.compare_exchange_strong(seen, Word(generation, Stage::kCompleted),
                                    std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
    return 0;
  }
  const uint64_t now = seen >> kStageBits;
  if (now < generation) return -ENOENT;
  return seen == Word(generation, Stage::kWithdrawn) ? -ESTALE : -EALREADY;
}

bool RequestSlot::Withdraw() {
  const uint64_t generation =
      word_.load(std::memory_order_relaxed) >> kStageBits;
  uint64_t expected = Word(generation, Stage::kInFlight);
  return word_.compare_exchange_strong(
      expected, Word(generation, Stage::kWithdrawn), std::memory_order_acq_rel);
}

bool CompletionQueue::Push(RequestSlot* slot) {
  RequestSlot* newest = newest_.load(std::memory_order_relaxed);
  do {
    slot->next = newest;
  } while (!newest_.compare_exchange_weak(
      newest, slot, std::memory_order_release, std::memory_order_relaxed));
  return newest == nullptr;
}

void CompletionQueue::Wake() {
  reactor_->Post([self = shared_from_this()] { self->Drain(); });
}

void CompletionQueue::Drain() {
  RequestSlot* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  RequestSlot* oldest = nullptr;
  while (newest != nullptr) {
    RequestSlot* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    RequestSlot* const slot = oldest;
    oldest = slot->next;  // Before the slot is free.
    finisher_->Finish(slot);
  }
}

RequestSlot* RequestTable::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_ != nullptr) return std::exchange(free_, nullptr);
  const size_t count = chunk_count_.load(std::memory_order_relaxed);
  if (count == kMaxChunks) return nullptr;
  try {
    auto chunk = std::make_unique<Chunk>();
    for (size_t i = 0; i < kSlotsAtOnce; ++i) {
      (*chunk)[i].index_ = static_cast<uint32_t>(count * kSlotsAtOnce + i);
      if (i > 0) (*chunk)[i - 1].next = &(*chunk)[i];
    }
    RequestSlot* const first = chunk->data();
    chunks_[count].store(chunk.get(), std::memory_order_relaxed);
    owned_.push_back(std::move(chunk));
    chunk_count_.store(count + 1, std::memory_order_release);
    return first;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void RequestTable::GiveBack(RequestSlot* first) {
  if (first == nullptr) return;
  RequestSlot* last = first;
  while (last->next != nullptr) last = last->next;
  const std::lock_guard<std::mutex> lock(mutex_);
  last->next = free_;
  free_ = first;
}

RequestSlot* RequestTable::Find(uint64_t id) const {
  const uint64_t index = id & kIndexMask;
  const size_t chunk = index / kSlotsAtOnce;
  if (chunk >= chunk_count_.load(std::memory_order_acquire)) return nullptr;
  return &(
      *chunks_[chunk].load(std::memory_order_relaxed))[index % kSlotsAtOnce];
}

RequestSlot* RequestTable::Claim(const skiff_completion& completion,
                                 int* error) {
  constexpr int kMaxErrno = 4095;
  if (completion.error > 0 || completion.error < -kMaxErrno) {
    *error = -EINVAL;
    return nullptr;
  }
  RequestSlot* const slot = Find(completion.id);
  *error = slot == nullptr ? -ENOENT : slot->Claim(completion.id >> kIndexBits);
  if (*error != 0) return nullptr;
  slot->error = completion.error;
  slot->error_offset = completion.error_offset;
  for (Submitting* s = submitting; s != nullptr; s = s->outer_) {
    if (s->slot_ != slot) continue;
    s->completed_ = true;
    return nullptr;
  }
  return slot;
}

int RequestTable::Complete(uint64_t id, int32_t error) {
  int result = 0;
  RequestSlot* const slot = Claim({id, error, 0, 0}, &result);
  if (slot == nullptr) return result;
  CompletionQueue* const queue = slot->queue;
  if (queue->Push(slot)) queue->Wake();
  return 0;
}

int RequestTable::Complete(absl::Span<const skiff_completion> completions,
                           size_t* taken) {
  int first_error = 0;
  *taken = 0;
  // Until it was woken, a queue lasts: what is in it is in flight.
  absl::InlinedVector<CompletionQueue*, 8> to_wake;
  for (const skiff_completion& completion : completions) {
    int error = 0;
    RequestSlot* const slot = Claim(completion, &error);
    if (error != 0) {
      if (first_error == 0) first_error = error;
      continue;
    }
    ++*taken;
    if (slot == nullptr) continue;
    CompletionQueue* const queue = slot->queue;
    if (queue->Push(slot)) to_wake.push_back(queue);
  }
  for (CompletionQueue* queue : to_wake) queue->Wake();
  return first_error;
}

Submitting::Submitting(RequestSlot* slot)
    : slot_(slot), outer_(std::exchange(submitting, this)) {}

Submitting::~Submitting() { submitting = outer_; }

}  // namespace skiff::library
