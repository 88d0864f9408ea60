#ifndef SKIFF_TOOLS_LIBRARY_REQUEST_TABLE_H_
#define SKIFF_TOOLS_LIBRARY_REQUEST_TABLE_H_

#include <skiff/backend.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "scsi/backend/backend.h"
#include "transport/reactor/reactor.h"

namespace skiff::library {

class CompletionQueue;

// One request of a backend of callbacks. Slots are never freed before their
// table, and are used again and again: each use has a generation of its own, so
// that whoever tells of a use that is over is found out, and can end no other.
class RequestSlot {
 public:
  // On the channel's thread: `request` is in flight from now on.
  void Begin(scsi::IoRequest* request, CompletionQueue* its_queue,
             uint32_t thread, void* user);
  // Any thread, without a lock. 0: the caller, and he alone, has ended it, and
  // hands it to its queue. Otherwise a negative errno that says why not.
  int Claim(uint64_t generation);
  // On the channel's thread. False: it is being completed.
  bool Withdraw();
  // Nobody has claimed it yet. On the channel's thread.
  bool in_flight() const {
    return (word_.load(std::memory_order_relaxed) &
            ((uint64_t{1} << kStageBits) - 1)) ==
           static_cast<uint64_t>(Stage::kInFlight);
  }

  // What the callbacks see.
  skiff_request view = {};
  scsi::IoRequest* io = nullptr;
  CompletionQueue* queue = nullptr;
  bool cancel_asked = false;  // The channel's.
  // Of whoever claimed it.
  int32_t error = 0;
  uint64_t error_offset = 0;
  RequestSlot* next = nullptr;  // In a free list, or in the queue.

 private:
  friend class RequestTable;
  enum class Stage : uint8_t { kFree, kInFlight, kCompleted, kWithdrawn };
  static constexpr int kStageBits = 2;
  static uint64_t Word(uint64_t generation, Stage stage) {
    return generation << kStageBits | static_cast<uint64_t>(stage);
  }

  uint32_t index_ = 0;
  std::atomic<uint64_t> word_ = 0;
};

// Requests on their way back to the reactor that they came from. Push() from
// any thread; one posted call brings all that are there.
class CompletionQueue : public std::enable_shared_from_this<CompletionQueue> {
 public:
  // Takes a request that has its result, on the reactor's thread.
  class Finisher {
   public:
    virtual ~Finisher() = default;
    virtual void Finish(RequestSlot* slot) = 0;
  };
  // `finisher` lives as long as a request of this queue is in flight.
  CompletionQueue(transport::Reactor* reactor, Finisher* finisher)
      : reactor_(reactor), finisher_(finisher) {}

  // True: Wake() has to follow, at any time; nothing of the queue comes back
  // before.
  bool Push(RequestSlot* slot);
  void Wake();

 private:
  void Drain();

  transport::Reactor* const reactor_;
  Finisher* const finisher_;
  std::atomic<RequestSlot*> newest_ = nullptr;
};

// The requests of one backend, by their numbers. Thread-safe.
class RequestTable {
 public:
  static constexpr int kIndexBits = 18;
  static constexpr size_t kSlotsAtOnce = 256;

  // Slots for a channel, chained by `next`; null: there are too many in flight
  // already, or there is no memory.
  RequestSlot* Take();
  // All that a channel has.
  void GiveBack(RequestSlot* first);

  // As skiff_backend_complete and skiff_backend_complete_many.
  int Complete(uint64_t id, int32_t error);
  int Complete(absl::Span<const skiff_completion> completions, size_t* taken);

 private:
  static constexpr size_t kMaxChunks = (size_t{1} << kIndexBits) / kSlotsAtOnce;
  using Chunk = std::array<RequestSlot, kSlotsAtOnce>;

  RequestSlot* Find(uint64_t id) const;
  // Null with `*error` 0: it ended inside Submit(), and goes to no queue.
  RequestSlot* Claim(const skiff_completion& completion, int* error);

  std::mutex mutex_;
  RequestSlot* free_ = nullptr;                // Under `mutex_`.
  std::vector<std::unique_ptr<Chunk>> owned_;  // Under `mutex_`.
  // What Find() reads: the first `chunk_count_` of them.
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_ =
      std::make_unique<std::atomic<Chunk*>[]>(kMaxChunks);
  std::atomic<size_t> chunk_count_ = 0;
};

// Marks the request that this thread submits: if it is completed meanwhile, it
// is finished at once, without a way through its queue.
class Submitting {
 public:
  explicit Submitting(RequestSlot* slot);
  Submitting(const Submitting&) = delete;
  Submitting& operator=(const Submitting&) = delete;
  ~Submitting();
  // It was completed from inside.
  bool completed() const { return completed_; }

 private:
  friend class RequestTable;
  RequestSlot* const slot_;
  Submitting* const outer_;
  bool completed_ = false;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_REQUEST_TABLE_H_
