#ifndef SKIFF_PROTOCOL_SESSION_COMMAND_LIST_H_
#define SKIFF_PROTOCOL_SESSION_COMMAND_LIST_H_

#include <cstddef>

#include "scsi/initiator/command.h"

namespace skiff::protocol {

// Commands in order, linked through themselves: no allocation. A command is in
// one list at most. Owns nothing.
class CommandList {
 public:
  CommandList() = default;
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;

  bool empty() const { return head_ == nullptr; }
  size_t size() const { return size_; }
  scsi::Command* front() const { return head_; }

  void PushBack(scsi::Command* command) {
    command->session_next = nullptr;
    (tail_ != nullptr ? tail_->session_next : head_) = command;
    tail_ = command;
    ++size_;
  }

  // The list must not be empty.
  scsi::Command* PopFront() {
    scsi::Command* command = head_;
    head_ = command->session_next;
    if (head_ == nullptr) tail_ = nullptr;
    command->session_next = nullptr;
    --size_;
    return command;
  }

  // Linear. Returns false if the command is not in this list.
  bool Remove(scsi::Command* command) {
    scsi::Command* before = nullptr;
    for (scsi::Command* at = head_; at != nullptr; at = at->session_next) {
      if (at == command) {
        (before != nullptr ? before->session_next : head_) = at->session_next;
        if (tail_ == at) tail_ = before;
        at->session_next = nullptr;
        --size_;
        return true;
      }
      before = at;
    }
    return false;
  }

  // Moves all of `list` in front of what is here.
  void Prepend(CommandList* list) {
    if (list->empty()) return;
    list->tail_->session_next = head_;
    if (tail_ == nullptr) tail_ = list->tail_;
    head_ = list->head_;
    size_ += list->size_;
    list->head_ = list->tail_ = nullptr;
    list->size_ = 0;
  }

 private:
  scsi::Command* head_ = nullptr;
  scsi::Command* tail_ = nullptr;
  size_t size_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_COMMAND_LIST_H_
