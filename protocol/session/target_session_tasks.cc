// TargetSession: SCSI commands, and the transport services that SCSI asks for.

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "protocol/session/target_session.h"
#include "protocol/session/target_session_send.h"
#include "scsi/sense.h"

namespace skiff::protocol {
namespace {

// Between two lines of the log: without memory, every command may fail.
constexpr absl::Duration kMemoryErrorInterval = absl::Seconds(10);

scsi::Attribute AttributeOf(TaskAttribute attribute) {
  switch (attribute) {
    case TaskAttribute::kOrdered:
      return scsi::Attribute::kOrdered;
    case TaskAttribute::kHeadOfQueue:
      return scsi::Attribute::kHeadOfQueue;
    case TaskAttribute::kAca:
      return scsi::Attribute::kAca;
    case TaskAttribute::kUntagged:
    case TaskAttribute::kSimple:
      break;
  }
  return scsi::Attribute::kSimple;
}

struct Residual {
  bool overflow = false;
  bool underflow = false;
  uint32_t count = 0;
};

// Section 11.4.5: what the command wanted against what the initiator expected.
Residual ResidualOf(uint64_t wanted, uint32_t expected) {
  Residual residual;
  residual.overflow = wanted > expected;
  residual.underflow = wanted < expected;
  const uint64_t count =
      residual.overflow ? wanted - expected : expected - wanted;
  residual.count =
      static_cast<uint32_t>(std::min<uint64_t>(count, 0xffffffffu));
  return residual;
}

}  // namespace

// --- Slots.

// Null: there is no memory.
TargetSession::Task* TargetSession::AllocateTask() {
  if (free_ == nullptr) {
    const uint32_t first = used_;  // All slots below are taken.
    assert(first % kChunk == 0 && !tasks_.Has(first));
    if (!tasks_.Reserve(first, host_->budget())) return nullptr;
    const uint32_t end = std::min(kChunk, max_tasks_ - first);
    for (uint32_t i = end; i-- > 0;) {
      Task& task = tasks_[first + i];
      task.slot = first + i;
      task.scsi.port_context = &task;
      task.next_free = free_;
      free_ = &task;
    }
  }
  Task* task = free_;
  free_ = task->next_free;
  ++used_;
  return task;
}

void TargetSession::FreeTask(Task* task) {
  assert(!task->getting);
  task->state = Task::State::kFree;
  task->next_free = free_;
  free_ = task;
  --used_;
  if (task->immediate) --used_immediate_;
}

TaskSlot TargetSession::FindTask(uint32_t initiator_task_tag) {
  return tags_.Find(initiator_task_tag);
}

uint32_t TargetSession::initiator_depth() const {
  // Answers that it had not seen. Serial numbers (RFC 1982); a peer that
  // acknowledges what was never sent is taken for one that saw nothing.
  const uint32_t unseen =
      std::min(stat_sn_ - exp_stat_sn_, options_.queue_depth);
  return active_ + unseen;
}

// --- A command arrives.

// Null: it is no task, and the initiator was told if need be.
TargetSession::Task* TargetSession::HandleScsiCommand(const ControlPdu& in) {
  ScsiCommandPdu pdu;
  AhsView ahs;
  if (!DecodeOrReject(in, &pdu)) return nullptr;
  if (!in.ahs.empty()) {
    const DecodeResult decoded = DecodeAhs(in.ahs, &ahs);
    if (!decoded.ok()) {
      RejectField(in, decoded.field);
      return nullptr;
    }
  }
  if (!MayBegin(in, pdu)) return nullptr;

  Task* task = AllocateTask();
  if (task == nullptr) {
    RefuseCommand(pdu.initiator_task_tag, pdu.expected_data_transfer_length);
    return nullptr;
  }
  task->state = Task::State::kActive;
  task->immediate = pdu.immediate;
  task->getting = task->fail_get = task->data_error = task->refused = false;
  task->putting = 0;
  task->initiator_task_tag = pdu.initiator_task_tag;
  task->lun = pdu.lun;
  tags_.Insert(pdu.initiator_task_tag, task->slot);
  ++(pdu.immediate ? used_immediate_ : active_);
  ++counters_.commands;
  exp_stat_sn_ = pdu.exp_stat_sn;
  FillTask(pdu, ahs, task);
  return task;
}

// Whether the command is one that may become a task now.
inline bool TargetSession::MayBegin(const ControlPdu& in,
                                    const ScsiCommandPdu& pdu) {
  if (nexus_ == nullptr) {
    RejectNotify(RejectPdu::kProtocolError, in.bhs,
                 "SCSI Command in a discovery session", AfterReject::kClose);
    return false;
  }
  const auto reject = [&](RejectPdu::Reason reason, const char* why) {
    SendReject(reason, in.bhs, why);
    return false;
  };
  // Answered ones count until the answer has left: their slots are taken.
  if (pdu.immediate && used_immediate_ >= options_.max_immediate_tasks) {
    return reject(RejectPdu::kImmediateCommandReject,
                  "too many immediate commands");
  }
  if (pdu.initiator_task_tag == kReservedTag) {
    return reject(RejectPdu::kInvalidPduField,
                  "SCSI Command with the reserved tag");
  }
  if (tags_.Find(pdu.initiator_task_tag) != kNoTask) {
    return reject(RejectPdu::kTaskInProgress, "the task tag is in use");
  }
  return CheckOrder(pdu.immediate, pdu.cmd_sn) == Order::kInOrder;
}

void TargetSession::TaskReady(TaskSlot slot) { nexus_->Submit(&At(slot).scsi); }

void TargetSession::TaskNotReady(TaskSlot slot) {
  Task& task = At(slot);
  const scsi::Task& scsi = task.scsi;
  Retire(&task);
  FreeTask(&task);
  RefuseCommand(task.initiator_task_tag,
                task.bidirectional
                    ? scsi.data_out_length
                    : scsi.data_out_length + scsi.data_in_length);
}

// Without memory for a task: SAM-5 section 5.3.1. What still comes for it is
// data of a task that is not known, which is dropped. `expected`: the command's
// ExpectedDataTransferLength.
void TargetSession::RefuseCommand(uint32_t initiator_task_tag,
                                  uint32_t expected) {
  CountRefused();
  ScsiResponsePdu response;
  response.status = static_cast<uint8_t>(scsi::ScsiStatus::kTaskSetFull);
  response.initiator_task_tag = initiator_task_tag;
  const Residual residual = ResidualOf(0, expected);
  response.underflow = residual.underflow;
  response.residual_count = residual.count;
  Send(response, {});
}

inline void TargetSession::FillTask(const ScsiCommandPdu& pdu,
                                    const AhsView& ahs, Task* task) {
  scsi::Task& scsi = task->scsi;
  scsi.lun = pdu.lun;
  scsi.attribute = AttributeOf(pdu.attribute);
  scsi.tag = pdu.initiator_task_tag;
  std::memcpy(scsi.cdb.data(), pdu.cdb.data(), pdu.cdb.size());
  const size_t extended =
      std::min(ahs.extended_cdb.size(), scsi::Task::kMaxCdb - pdu.cdb.size());
  if (extended > 0) {
    std::memcpy(scsi.cdb.data() + pdu.cdb.size(), ahs.extended_cdb.data(),
                extended);
  }
  scsi.cdb_length = static_cast<uint16_t>(pdu.cdb.size() + extended);
  task->bidirectional = pdu.read && pdu.write;
  scsi.data_out_length = pdu.write ? pdu.expected_data_transfer_length : 0;
  scsi.data_in_length = 0;
  if (pdu.read) {
    scsi.data_in_length =
        pdu.write ? ahs.bidi_read_length : pdu.expected_data_transfer_length;
  }
  scsi.status = scsi::ScsiStatus::kGood;
  scsi.data_out_wanted = 0;
  scsi.data_in_wanted = 0;
  scsi.sense_length = 0;
}

// --- scsi::TargetPort.

scsi::TransferResult TargetSession::ReceiveDataOut(scsi::Task* scsi,
                                                   uint32_t offset, uint8_t* to,
                                                   uint32_t length) {
  Task* task = static_cast<Task*>(scsi->port_context);
  assert(!task->getting && !task->fail_get);
  if (task->data_error || phase_ == Phase::kTerminating) {
    task->fail_get = true;
    Defer(task->slot, DataOperation::kGet, DataOutcome::kLost);
    return scsi::TransferResult::kPending;
  }
  counters_.bytes_in += length;
  task->getting = true;
  ++getting_;
  if (datamover_->GetData(task->slot, offset, {to, length}) ==
      Progress::kDone) {
    task->getting = false;
    --getting_;
    return scsi::TransferResult::kDone;
  }
  task->get_since = host_->Now();
  host_->Wake();
  return scsi::TransferResult::kPending;
}

void TargetSession::SendDataIn(scsi::Task* scsi, uint32_t offset,
                               const uint8_t* from, uint32_t length) {
  Task* task = static_cast<Task*>(scsi->port_context);
  if (task->data_error || phase_ == Phase::kTerminating)
    return Defer(task->slot, DataOperation::kPut, DataOutcome::kLost);
  counters_.bytes_out += length;
  ++task->putting;
  datamover_->PutData(task->slot, offset, {from, length}, /*notify=*/true);
  host_->Wake();
}

void TargetSession::Complete(scsi::Task* scsi, uint32_t offset,
                             const uint8_t* from, uint32_t length) {
  Answer(static_cast<Task*>(scsi->port_context), offset, {from, length});
}

void TargetSession::Aborted(scsi::Task* scsi, bool respond) {
  Task* task = static_cast<Task*>(scsi->port_context);
  if (respond) return Answer(task, 0, {});
  Retire(task);
  Deallocate(task);
}

void TargetSession::CancelTransfers(scsi::Task* scsi) {
  Task* task = static_cast<Task*>(scsi->port_context);
  cancelling_ = true;
  datamover_->CancelTransfers(task->slot);
  cancelling_ = false;
}

// Nothing that is queued leaves any more: it is what the initiator does not
// take.
void TargetSession::EndNexus(absl::string_view why) {
  Close(absl::ResourceExhaustedError(why), /*after_sending=*/false);
}

void TargetSession::AsyncEvent(uint64_t lun, const uint8_t* sense,
                               size_t length) {
  // SenseLength and sense data (section 11.9.4).
  std::array<uint8_t, 2 + scsi::Task::kMaxSense> data;
  length = std::min(length, scsi::Task::kMaxSense);
  data[0] = 0;
  data[1] = static_cast<uint8_t>(length);
  std::memcpy(data.data() + 2, sense, length);
  AsyncMessagePdu message;
  message.lun = lun;
  message.async_event = AsyncMessagePdu::kScsiAsyncEvent;
  SendAsync(message, {data.data(), 2 + length}, "a SCSI event");
}

// --- A command ends.

// The data of this command were wrong: whatever the device server said, the
// initiator gets the transport's error (section 11.4.7.2).
void TargetSession::OverrideWithDataError(Task* task) {
  scsi::Task& scsi = task->scsi;
  if (task->refused) {
    scsi.status = scsi::ScsiStatus::kTaskSetFull;
    scsi.sense_length = 0;
    return;
  }
  scsi.status = scsi::ScsiStatus::kCheckCondition;
  scsi.sense.fill(0);
  scsi.sense[0] = 0x70;  // Fixed format, current error (SPC-4 section 4.5.3).
  scsi.sense[2] = static_cast<uint8_t>(scsi::SenseKey::kAbortedCommand);
  scsi.sense[7] = 10;
  scsi.sense[12] = task->asc;
  scsi.sense[13] = task->ascq;
  scsi.sense_length = 18;
}

void TargetSession::Answer(Task* task, uint32_t offset,
                           absl::Span<const uint8_t> data) {
  if (task->data_error) {
    OverrideWithDataError(task);
    data = {};
  }
  Retire(task);
  if (phase_ == Phase::kTerminating) return Deallocate(task);
  const scsi::Task& scsi = task->scsi;
  ScsiResponsePdu response;
  response.status = static_cast<uint8_t>(scsi.status);
  response.initiator_task_tag = task->initiator_task_tag;
  if (task->bidirectional) {
    const Residual read = ResidualOf(scsi.data_in_wanted, scsi.data_in_length);
    response.bidi_read_overflow = read.overflow;
    response.bidi_read_underflow = read.underflow;
    response.bidi_read_residual_count = read.count;
  }
  const Residual residual =
      scsi.data_out_length > 0 || scsi.data_out_wanted > 0
          ? ResidualOf(scsi.data_out_wanted, scsi.data_out_length)
          : ResidualOf(scsi.data_in_wanted, scsi.data_in_length);
  response.overflow = residual.overflow;
  response.underflow = residual.underflow;
  response.residual_count = residual.count;
  Stamp(&response, /*consume_stat_sn=*/true);
  counters_.bytes_out += data.size();
  if (!datamover_->PutDataAndResponse(task->slot, offset, data, response,
                                      {scsi.sense.data(), scsi.sense_length})) {
    OverrideWithDataError(task);
    response.status = static_cast<uint8_t>(scsi.status);
    datamover_->PutDataAndResponse(task->slot, 0, {}, response,
                                   {scsi.sense.data(), scsi.sense_length});
  }
  Deallocate(task);
  host_->Wake();
}

void TargetSession::Deallocate(Task* task) {
  if (datamover_->DeallocateTaskResources(task->slot) == Progress::kDone) {
    TaskDone(task->slot);
  }
}

// The task leaves the window; its tag may be used again.
void TargetSession::Retire(Task* task) {
  assert(task->state == Task::State::kActive);
  task->state = Task::State::kAnswered;
  tags_.Erase(task->initiator_task_tag);
  if (!task->immediate) --active_;
}

void TargetSession::TaskDone(TaskSlot slot) {
  Task& task = At(slot);
  nexus_->Release(&task.scsi);
  FreeTask(&task);
}

void TargetSession::TaskDataError(TaskSlot slot, const DataFault& fault) {
  Task& task = At(slot);
  if (task.state != Task::State::kActive || task.data_error) return;
  host_->Warn([&] {
    return absl::StrCat("task 0x", absl::Hex(task.initiator_task_tag), ": ",
                        fault.why);
  });
  FailData(&task, fault.asc, fault.ascq);
}

// SAM-5 section 5.3.1: TASK SET FULL is for a lack of resources to accept a
// command; it makes initiators send fewer at once.
void TargetSession::TaskRefused(TaskSlot slot) {
  Task& task = At(slot);
  if (task.state == Task::State::kFree || task.data_error) return;
  CountRefused();
  task.refused = true;
  FailData(&task, 0, 0);
}

void TargetSession::CountRefused() {
  ++refused_;
  const absl::Time now = host_->Now();
  if (now - refused_told_ >= kMemoryErrorInterval) {
    refused_told_ = now;
    host_->Warn([this] {
      return absl::StrCat(refused_,
                          " commands end in TASK SET FULL, as there is no "
                          "memory left for them, for data that came before "
                          "they could be served, or for copies of what is "
                          "sent (the memory budget)");
    });
    refused_ = 0;
  }
}

void TargetSession::TaskMemoryError(TaskSlot slot, const absl::Status& why) {
  Task& task = At(slot);
  const absl::Time now = host_->Now();
  if (now - memory_error_told_ >= kMemoryErrorInterval) {
    memory_error_told_ = now;
    host_->Warn([&task, &why] {
      return absl::StrCat("task 0x", absl::Hex(task.initiator_task_tag),
                          " ends in CHECK CONDITION, as the memory of its "
                          "data cannot be registered for RDMA (is `ulimit "
                          "-l` large enough?): ",
                          why.message());
    });
  }
  // ABORTED COMMAND, as for other data errors: trying again may succeed (SPC-4
  // section 4.5.6).
  constexpr auto kCode =
      static_cast<uint16_t>(scsi::AdditionalSense::kInsufficientResources);
  FailData(&task, kCode >> 8, kCode & 0xff);
}

void TargetSession::FailData(Task* task, uint8_t asc, uint8_t ascq) {
  assert(!task->data_error);
  task->data_error = true;
  task->asc = asc;
  task->ascq = ascq;
  if (task->getting || task->putting > 0) CancelTransfers(&task->scsi);
}

// --- Transfers end.

void TargetSession::DataCompletionNotify(TaskSlot slot, DataOperation operation,
                                         DataOutcome outcome) {
  if (operation == DataOperation::kGet) {
    assert(At(slot).getting);
    At(slot).getting = false;
    --getting_;
  } else {
    --At(slot).putting;
  }
  // Inside CancelTransfers the device server must not be called back.
  if (cancelling_) return Defer(slot, operation, outcome);
  Report(slot, operation, outcome);
}

void TargetSession::Defer(TaskSlot slot, DataOperation operation,
                          DataOutcome outcome) {
  deferred_.push_back({slot, operation, outcome});
  host_->Wake();
}

void TargetSession::Report(TaskSlot slot, DataOperation operation,
                           DataOutcome outcome) {
  const bool ok = outcome == DataOutcome::kMoved;
  Task& task = At(slot);
  if (operation == DataOperation::kGet) {
    task.fail_get = false;
    nexus_->OnDataOut(&task.scsi, ok);
  } else {
    nexus_->OnDataInSent(&task.scsi, ok);
  }
}

}  // namespace skiff::protocol
