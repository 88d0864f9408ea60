#ifndef SKIFF_PROTOCOL_DATAMOVER_STAGING_H_
#define SKIFF_PROTOCOL_DATAMOVER_STAGING_H_

#include <cstdint>

#include "protocol/datamover/block_pool.h"
#include "protocol/datamover/target_datamover.h"

namespace skiff::protocol {

// What a target's task has of unsolicited data.
struct UnsolicitedData {
  bool data_failed = false;       // The rest of its data is not wanted.
  bool unsolicited_open = false;  // More is still to come.
  uint32_t unsolicited_end = 0;   // Where it must end at the latest.
  uint32_t unsolicited_data_sn = 0;
  // What arrived before GetData said where it goes, by offset.
  BlockPool::Block staging;
  uint32_t staged = 0;  // What `staging` is counted with.
};

// The staged data of all tasks of a target's connection.
class Staging {
 public:
  explicit Staging(BlockPool* blocks) : blocks_(blocks) {}

  // A place for the task's data, which FirstBurstLength bounds. False: the
  // budget has none left. The task has failed, and the client was told.
  bool Begin(TaskSlot slot, UnsolicitedData* task,
             TargetDatamoverClient* client) {
    if (task->staging != nullptr) return true;
    task->staging = blocks_->TakeOfBudget(task->unsolicited_end, bytes_);
    if (task->staging == nullptr) {
      task->data_failed = true;
      task->unsolicited_open = false;
      client->TaskRefused(slot);
      return false;
    }
    task->staged = task->unsolicited_end;
    bytes_ += task->staged;
    return true;
  }
  void End(UnsolicitedData* task) {
    if (task->staging == nullptr) return;
    task->staging.reset();
    bytes_ -= task->staged;
  }

  BlockPool* blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }

 private:
  BlockPool* const blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STAGING_H_
