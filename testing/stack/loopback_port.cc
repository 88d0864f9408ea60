#include "testing/stack/loopback_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "scsi/initiator/run_until.h"
#include "scsi/iovec_cursor.h"

namespace skiff::scsi {

LoopbackPort::LoopbackPort(transport::EpollReactor* reactor, Target* target,
                           Worker* worker, const std::string& name)
    : reactor_(reactor) {
  auto nexus =
      target->OpenNexus(worker, this,
                        {.protocol = ProtocolIdentifier::kIscsi,
                         .initiator = name,
                         .initiator_port = absl::StrCat(name, ",i,0x1"),
                         .target_port = "iqn.2026-01.example:t,t,0x1"});
  EXPECT_TRUE(nexus.ok()) << nexus.status();
  nexus_ = *std::move(nexus);
}

LoopbackPort::~LoopbackPort() {
  bool closed = false;
  nexus_->Close([&closed] { closed = true; });
  EXPECT_TRUE(RunUntil(
      reactor_, [&closed] { return closed; }, absl::Seconds(20)));
  EXPECT_EQ(free_.size(), tasks_.size()) << "tasks are still out";
}

void LoopbackPort::Submit(Command* command) {
  if (free_.empty()) free_.push_back(&tasks_.emplace_back());
  Task* task = free_.back();
  free_.pop_back();
  *task = Task();
  task->lun = command->lun;
  task->tag = next_tag_++;
  task->cdb_length = command->cdb_length;
  std::copy_n(command->cdb.begin(), command->cdb_length, task->cdb.begin());
  task->data_out_length = command->data_out_length;
  task->data_in_length = command->data_in_length;
  task->port_context = command;
  nexus_->Submit(task);
}

Task* LoopbackPort::TaskOf(const Command* command) {
  for (Task& task : tasks_) {
    if (task.port_context == command) return &task;
  }
  return nullptr;
}

void LoopbackPort::Abort(Command* command) {
  Task* task = TaskOf(command);
  ASSERT_NE(task, nullptr);
  nexus_->Manage(TaskManagement::kAbortTask, command->lun, task,
                 [](TaskManagementResult) {});
}

TransferResult LoopbackPort::ReceiveDataOut(Task* task, uint32_t offset,
                                            uint8_t* to, uint32_t length) {
  const Command* command = CommandOf(task);
  EXPECT_LE(uint64_t{offset} + length, task->data_out_length);
  IovecCursor cursor(command->data_out, command->data_out_count);
  cursor.Skip(offset);
  EXPECT_EQ(cursor.CopyTo(to, length), length);
  return TransferResult::kDone;
}

void LoopbackPort::SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                              uint32_t length) {
  const Command* command = CommandOf(task);
  EXPECT_LE(uint64_t{offset} + length, task->data_in_length);
  IovecCursor cursor(command->data_in, command->data_in_count);
  cursor.Skip(offset);
  EXPECT_EQ(cursor.CopyFrom(from, length), length);
  Queue({Event::Kind::kSent, task, true});
}

void LoopbackPort::Complete(Task* task, uint32_t offset, const uint8_t* from,
                            uint32_t length) {
  Command* command = CommandOf(task);
  IovecCursor cursor(command->data_in, command->data_in_count);
  cursor.Skip(offset);
  EXPECT_EQ(cursor.CopyFrom(from, length), length);
  command->outcome = Command::Outcome::kCompleted;
  command->status = static_cast<uint8_t>(task->status);
  command->sense_length = static_cast<uint8_t>(task->sense_length);
  std::copy_n(task->sense.begin(), task->sense_length, command->sense.begin());
  const bool in = task->data_in_length > 0;
  const uint64_t wanted = in ? task->data_in_wanted : task->data_out_wanted;
  const uint64_t offered = in ? task->data_in_length : task->data_out_length;
  command->underflow = wanted < offered;
  command->overflow = wanted > offered;
  command->residual = static_cast<uint32_t>(std::max(wanted, offered) -
                                            std::min(wanted, offered));
  Queue({Event::Kind::kEnded, task, true});
}

void LoopbackPort::Aborted(Task* task, bool /*respond*/) {
  CommandOf(task)->outcome = Command::Outcome::kAborted;
  Queue({Event::Kind::kEnded, task, false});
}

void LoopbackPort::CancelTransfers(Task* task) {
  for (Event& event : events_) {
    if (event.task == task) event.ok = false;
  }
}

void LoopbackPort::AsyncEvent(uint64_t /*lun*/, const uint8_t* /*sense*/,
                              size_t /*length*/) {}

void LoopbackPort::Queue(const Event& event) {
  events_.push_back(event);
  reactor_->ScheduleTurnEnd(this);
}

void LoopbackPort::OnTurnEnd() {
  // What these cause waits for the next round.
  for (size_t count = events_.size(); count > 0; --count) {
    const Event event = events_.front();
    events_.pop_front();
    if (event.kind == Event::Kind::kSent) {
      nexus_->OnDataInSent(event.task, event.ok);
      continue;
    }
    Command* command = CommandOf(event.task);
    nexus_->Release(event.task);
    event.task->port_context = nullptr;
    free_.push_back(event.task);
    command->done(command);
  }
}

}  // namespace skiff::scsi
