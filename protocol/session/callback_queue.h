#ifndef SKIFF_PROTOCOL_SESSION_CALLBACK_QUEUE_H_
#define SKIFF_PROTOCOL_SESSION_CALLBACK_QUEUE_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "protocol/session/command_list.h"

namespace skiff::protocol {

// What callers are to be told, kept until no session or datamover is on the
// call stack: they may do anything then, also destroy the session or the owner
// of this queue.
class CallbackQueue {
 public:
  CallbackQueue() = default;
  CallbackQueue(const CallbackQueue&) = delete;
  CallbackQueue& operator=(const CallbackQueue&) = delete;
  ~CallbackQueue() {
    if (gone_ != nullptr) *gone_ = true;
  }

  // A command that ended; its result is filled in.
  void Add(scsi::Command* command) { commands_.PushBack(command); }
  void Add(absl::AnyInvocable<void()> call) {
    calls_.push_back(std::move(call));
  }

  // Takes over everything of `other`.
  void TakeAll(CallbackQueue* other) {
    while (!other->commands_.empty()) {
      commands_.PushBack(other->commands_.PopFront());
    }
    for (auto& call : other->calls_) calls_.push_back(std::move(call));
    other->calls_.clear();
  }

  bool empty() const { return commands_.empty() && calls_.empty(); }

  // Tells what there is; what is added meanwhile waits for the next call, or a
  // caller who submits again each time would keep this one going for ever.
  // Returns false if the queue was destroyed by that. Not reentrant: a nested
  // call returns at once.
  bool Run() {
    if (gone_ != nullptr) return true;
    bool gone = false;
    gone_ = &gone;
    size_t calls = calls_.size();
    for (size_t left = commands_.size(); left > 0 && !commands_.empty();
         --left) {
      scsi::Command* command = commands_.PopFront();
      command->done(command);
      if (gone) return false;
    }
    for (; calls > 0 && !calls_.empty(); --calls) {
      absl::AnyInvocable<void()> call = std::move(calls_.front());
      calls_.pop_front();
      call();
      if (gone) return false;
    }
    gone_ = nullptr;
    return true;
  }

 private:
  CommandList commands_;
  std::deque<absl::AnyInvocable<void()>> calls_;
  bool* gone_ = nullptr;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_CALLBACK_QUEUE_H_
