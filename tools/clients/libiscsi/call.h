#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_CALL_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_CALL_H_

#include <skiff/disk.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tools/clients/libiscsi/loop.h"
#include "tools/clients/libiscsi/types.h"

namespace skiff::libiscsi {

struct Unit;

// What the program is to be told of.
struct Job {
  Job* next_job = nullptr;
  // A call, if it is null.
  std::function<void()> function;
};

class JobQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  void Push(Job* job) {
    job->next_job = nullptr;
    (last_ != nullptr ? last_->next_job : first_) = job;
    last_ = job;
    ++size_;
  }
  Job* Pop() {
    Job* const job = first_;
    first_ = job->next_job;
    if (first_ == nullptr) last_ = nullptr;
    --size_;
    return job;
  }
  // False: it is not there.
  bool Remove(Job* job) {
    Job* before = nullptr;
    for (Job* at = first_; at != nullptr; before = at, at = at->next_job) {
      if (at != job) continue;
      (before != nullptr ? before->next_job : first_) = at->next_job;
      if (last_ == at) last_ = before;
      --size_;
      return true;
    }
    return false;
  }

 private:
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  size_t size_ = 0;
};

// A command, from its submission until its callback.
struct Call : Job {
  enum class State : uint8_t {
    kWaiting,  // For its unit to be opened.
    kStarted,  // Skiff has it, and its buffers.
    kAborted,  // Skiff gave it up; the program has not been told.
    kEnded,    // The program is to be told.
  };

  iscsi_context* iscsi = nullptr;
  Unit* unit = nullptr;
  scsi_task* task = nullptr;
  iscsi_command_cb cb = nullptr;
  void* private_data = nullptr;
  State state = State::kWaiting;
  bool again = false;     // To be sent anew, over the next session.
  bool expired = false;   // Being given up, as it took too long.
  bool settling = false;  // Cancel() waits for it.
  iscsi_command_cb abort_cb = nullptr;
  void* abort_data = nullptr;
  bool aborting = false;
  int status = kGood;  // Of those that the device has not answered.
  uint64_t id = 0;     // Skiff's.
  int64_t expiry = Loop::kNever;
  skiff_command_result result = {};
  std::string message;              // With a status of libiscsi's own.
  unsigned char* buffer = nullptr;  // For data in, if the task has no iovecs.
  Call* previous = nullptr;
  Call* next = nullptr;
};

class CallList {
 public:
  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  Call* first() const { return first_; }
  void Add(Call* call) {
    call->previous = last_;
    call->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = call;
    last_ = call;
    ++size_;
  }
  void Remove(Call* call) {
    (call->previous != nullptr ? call->previous->next : first_) = call->next;
    (call->next != nullptr ? call->next->previous : last_) = call->previous;
    --size_;
  }

 private:
  Call* first_ = nullptr;
  Call* last_ = nullptr;
  size_t size_ = 0;
};

// A logical unit of the session.
struct Unit {
  enum class State : uint8_t { kClosed, kOpening, kOpen };

  iscsi_context* iscsi = nullptr;
  uint32_t lun = 0;
  State state = State::kClosed;
  skiff_disk* disk = nullptr;
};

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_CALL_H_
