#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_OPERATION_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_OPERATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/datamover/datamover.h"
#include "protocol/datamover/iser/iser_memory.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {

// What an operation is for. Its user is told when it has ended.
enum class IserWork : uint8_t {
  kMessage,     // A PDU.
  kPut,         // RDMA Write of a task's data,
  kNotifyPut,   // the last one of those that somebody waits for.
  kGet,         // RDMA Read of a task's data.
  kBind,        // A key for the peer begins
  kInvalidate,  // and ends.
};

// One operation of a connection, from being queued to its completion. Its
// place is used again, without being cleared: who queues it sets what its kind
// is said to have.
struct IserOperation {
  enum class State : uint8_t {
    kFree,
    kQueued,
    kDropped,  // Queued, but its end was told; only its place is left.
    kPosted,
  };
  static constexpr size_t kMaxPieces = 4;

  // What messages without payload and binds have is in front of what few
  // others need: an operation is in few cache lines.

  transport::OperationId id;      // Where it is, and of how many there.
  IserOperation* next = nullptr;  // In the list that it is in.
  transport::OperationKind kind = transport::OperationKind::kSend;
  IserWork work = IserWork::kMessage;
  State state = State::kFree;
  // Of a message: takes `remote.key` out of use, and has keys to be filled in.
  bool invalidates = false;
  bool has_windows = false;
  uint8_t sge_count = 0;
  TaskSlot task = kNoTask;
  size_t length = 0;
  // Of a message. Where it waits for a buffer, it is in `waiting` until it has
  // one.
  IserMemory::Buffer buffer;
  std::unique_ptr<char[]> waiting;
  bool* tell_posted = nullptr;
  // Of a write, read or message.
  transport::RemoteBuffer remote;
  std::array<transport::Sge, kMaxPieces> sges;
  // Of a write or read.
  IserMemory::Pin pin;
  // In the task's data, of a write or read; in the region, of a bind.
  size_t offset = 0;
  // Of a bind or invalidation.
  transport::MemoryWindow* window = nullptr;
  // Of a bind.
  const transport::MemoryRegion* region = nullptr;
  transport::Access access = transport::Access::kLocal;
  // Of a message, whose keys they have.
  const transport::MemoryWindow* write_window = nullptr;
  const transport::MemoryWindow* read_window = nullptr;
};

// Operations in order, linked through themselves: one is in one list at most.
class IserOperationQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  IserOperation* front() const { return first_; }
  void PushBack(IserOperation* operation) {
    operation->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = operation;
    last_ = operation;
  }
  void PopFront() { first_ = first_->next; }
  void Clear() { first_ = nullptr; }

 private:
  IserOperation* first_ = nullptr;
  IserOperation* last_ = nullptr;  // Unless it is empty.
};

// The operations of a connection. They do not move, and their number only
// grows.
class IserOperationPool {
 public:
  // One that is queued, or about to be. Null: there is no memory.
  IserOperation* Take(transport::OperationKind kind, IserWork work,
                      TaskSlot task) {
    if (free_ == nullptr && !Grow()) return nullptr;
    IserOperation* const operation = free_;
    free_ = operation->next;
    operation->kind = kind;
    operation->work = work;
    operation->state = IserOperation::State::kQueued;
    operation->task = task;
    return operation;
  }

  // Completions of it are not found any more; what it used is free.
  void GiveBack(IserOperation* operation) {
    operation->state = IserOperation::State::kFree;
    ++operation->id.generation;
    // What a kind does not use is empty, and need not be looked at.
    if (operation->kind == transport::OperationKind::kSend) {
      operation->buffer.Release();
      operation->waiting.reset();
    } else {
      operation->pin.Release();
    }
    operation->next = free_;
    free_ = operation;
  }

  // The posted operation that a completion is of, or null.
  IserOperation* FindPosted(transport::OperationId id) {
    if (id.index >= size_) return nullptr;
    IserOperation* const operation =
        chunks_.data()[id.index / kChunk]->data() + id.index % kChunk;
    return operation->state == IserOperation::State::kPosted &&
                   operation->id.generation == id.generation
               ? operation
               : nullptr;
  }

  // Calls `end` for each that is in use, which gives it back.
  template <typename End>
  void EndAll(End end) {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      for (IserOperation& operation : *chunks_[i]) {
        if (operation.state != IserOperation::State::kFree) end(&operation);
      }
    }
  }

 private:
  static constexpr size_t kChunk = 16;
  using Chunk = std::array<IserOperation, kChunk>;

  bool Grow();

  std::vector<std::unique_ptr<Chunk>> chunks_;
  size_t size_ = 0;  // Of all chunks, operations.
  IserOperation* free_ = nullptr;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_OPERATION_H_
