#include "protocol/datamover/iser/iser_target_datamover.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

IserTargetDatamover::IserTargetDatamover(IserMemory* memory,
                                         const IserDatamoverOptions& options)
    : staging_(memory->blocks()),
      channel_(memory, options, this),
      get_access_(memory->domain()->capabilities().read_sink_needs_remote_write
                      ? transport::Access::kRemoteWrite
                      : transport::Access::kLocal) {}

IserTargetDatamover::~IserTargetDatamover() { ConnectionTerminate(); }

absl::Status IserTargetDatamover::Prepare(transport::RdmaEndpoint* endpoint) {
  const transport::MemoryDomain& device = *endpoint->domain();
  if (channel_.options().remote_invalidation &&
      !device.capabilities().send_with_invalidate) {
    // Responses would not leave.
    return absl::FailedPreconditionError(absl::StrCat(
        device.name(),
        " has no Send with Invalidate; turn remote invalidation off"));
  }
  absl::Status reserved = channel_.Reserve(kLoginReceives, kLoginSends);
  if (!reserved.ok()) return reserved;
  return channel_.Prepare(endpoint, kLoginReceives);
}

void IserTargetDatamover::SetClient(TargetDatamoverClient* client,
                                    uint32_t max_tasks) {
  assert(max_tasks <= kMaxTaskSlots);
  client_ = client;
  max_tasks_ = max_tasks;
  tasks_.SetMaxTasks(max_tasks);
}

absl::StatusOr<uint32_t> IserTargetDatamover::ReceivesFor(
    const Parameters& parameters) const {
  const IserDatamoverOptions& options = channel_.options();
  uint32_t receives = options.receives;
  if (!parameters.initial_r2t && options.unsolicited_receives > 0) {
    const uint64_t more = UnsolicitedReceives(
        options.unsolicited_commands, parameters.first_burst_length,
        parameters.target_max_recv_data_segment_length);
    if (more > options.unsolicited_receives) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "unsolicited data with FirstBurstLength=",
          parameters.first_burst_length, " and TargetRecvDataSegmentLength=",
          parameters.target_max_recv_data_segment_length, " take ", more,
          " receives, and there are ", options.unsolicited_receives));
    }
    receives += static_cast<uint32_t>(more);
  }
  return receives;
}

// The receives are posted before the last Login Response leaves: the initiator
// may send as soon as it has it.
absl::Status IserTargetDatamover::AllocateConnectionResources(
    const Parameters& parameters) {
  const absl::StatusOr<uint32_t> receives = ReceivesFor(parameters);
  if (!receives.ok()) return receives.status();
  const absl::Status reserved =
      channel_.Reserve(*receives, channel_.options().send_buffers);
  return reserved.ok() ? channel_.PostReceives(*receives) : reserved;
}

absl::Status IserTargetDatamover::ReserveConnectionResources(
    const Parameters& parameters,
    absl::Span<const TargetDatamover* const> older) {
  absl::Status allocated = AllocateConnectionResources(parameters);
  if (allocated.ok()) return allocated;
  size_t leaving = 0;
  for (const TargetDatamover* const other : older) {
    const auto* const iser = dynamic_cast<const IserTargetDatamover*>(other);
    if (iser != nullptr) leaving += iser->channel_.BuffersOf(channel_.memory());
  }
  const absl::StatusOr<uint32_t> receives = ReceivesFor(parameters);
  if (leaving == 0 || !receives.ok()) return allocated;
  return channel_.ReserveAfter(*receives, channel_.options().send_buffers,
                               leaving);
}

void IserTargetDatamover::EnableDatamover(const Parameters& parameters) {
  parameters_ = parameters;
  channel_.LimitData("TargetRecvDataSegmentLength",
                     parameters.target_max_recv_data_segment_length);
  enabled_ = true;
}

void IserTargetDatamover::SendControl(const uint8_t* bhs,
                                      absl::Span<const uint8_t> data) {
  IserOutgoing message;
  message.bhs = bhs;
  message.data = data;
  channel_.Send(message);
}

// --- Receiving.

void IserTargetDatamover::OnBadMessage(const absl::Status& why) {
  client_->ConnectionTerminateNotify(why);
}

void IserTargetDatamover::OnBroken(const absl::Status& why) {
  client_->ConnectionTerminateNotify(why);
}

void IserTargetDatamover::OnMessage(const IserMessage& message,
                                    const transport::RemoteKey* invalidated) {
  if (invalidated != nullptr) {
    // Targets advertise no keys (RFC 7145 section 7.3.2 knows this of
    // responses only).
    channel_.StopReceiving();
    return client_->ConnectionTerminateNotify(absl::InvalidArgumentError(
        "the initiator invalidated a key of the target"));
  }
  switch (message.opcode) {
    case IserOpcode::kControl:
      break;
    case IserOpcode::kHello:
      return OnHello(message.hello);
    case IserOpcode::kHelloReply:
      channel_.StopReceiving();
      return client_->ConnectionTerminateNotify(
          absl::InvalidArgumentError("an iSER HelloReply from an initiator"));
  }
  if (enabled_ && !pdus_came_ && parameters_.iser.hello_required) {
    channel_.StopReceiving();
    return client_->ConnectionTerminateNotify(absl::InvalidArgumentError(
        "no iSER Hello came first, although iSERHelloRequired=Yes"));
  }
  if (enabled_) pdus_came_ = true;
  const auto opcode = static_cast<Opcode>(message.frame.opcode);
  if (opcode == Opcode::kScsiCommand && enabled_) return OnCommand(message);
  if (message.control.write_stag_valid || message.control.read_stag_valid) {
    // Section 9.2: buffers belong to SCSI Commands. (And to TASK REASSIGN,
    // which error recovery level 0 does not have.)
    return client_->RejectNotify(RejectPdu::kProtocolError, message.bhs,
                                 "an STag in a PDU that moves no data",
                                 AfterReject::kClose);
  }
  if (opcode == Opcode::kScsiDataOut && enabled_) return OnDataOut(message);
  client_->ControlNotify(message);
}

// Section 5.1.3: the first message of full feature phase, if it was agreed on.
void IserTargetDatamover::OnHello(const IserHello& hello) {
  const char* wrong = nullptr;
  if (!enabled_ || pdus_came_) {
    wrong = "an iSER Hello out of place";
  } else if (!parameters_.iser.hello_required) {
    wrong = "an iSER Hello although iSERHelloRequired=No";
  } else if (hello.iser_ird == 0 &&
             IserVersionsOverlap(hello.min_version, hello.max_version)) {
    wrong = "an iSER Hello that allows no RDMA Read (iSER-IRD=0)";
  }
  if (wrong != nullptr) {
    channel_.StopReceiving();
    return client_->ConnectionTerminateNotify(
        absl::InvalidArgumentError(wrong));
  }
  pdus_came_ = true;
  IserHelloReply reply;
  reply.reject = !IserVersionsOverlap(hello.min_version, hello.max_version);
  reply.iser_ord = static_cast<uint16_t>(std::min<uint32_t>(
      hello.iser_ird, endpoint()->capabilities().max_read_depth));
  channel_.LimitReads(reply.iser_ord);
  channel_.SendHelloReply(reply);
  if (!reply.reject) return;
  // Section 10.1.3.2.
  channel_.StopReceiving();
  client_->ConnectionTerminateNotify(absl::InvalidArgumentError(
      absl::StrCat("the initiator speaks iSER versions ", hello.min_version,
                   " to ", hello.max_version, " only")));
}

// What makes a command unfit for RDMA, or null.
inline const char* IserTargetDatamover::CheckCommand(
    const IserMessage& message) const {
  const ScsiCommandTransfer transfer = DecodeTransfer(message.bhs);
  const char* wrong = nullptr;
  if (transfer.read && transfer.length > 0 &&
      !message.control.read_stag_valid) {
    wrong = "a command that reads without a Read STag";
  } else if (transfer.write && !message.control.write_stag_valid) {
    const size_t sent =
        transfer.final
            ? message.data.size()
            : std::min(transfer.length, parameters_.first_burst_length);
    if (sent < transfer.length) {
      wrong = "a command that writes more than it sends, without a Write STag";
    }
  }
  if (wrong == nullptr) return nullptr;
  // What is wrong with the PDU itself is the session's to say.
  ScsiCommandPdu pdu;
  return Decode(message.bhs, &pdu).ok() ? wrong : nullptr;
}

inline void IserTargetDatamover::OnCommand(const IserMessage& message) {
  const char* const wrong = CheckCommand(message);
  if (wrong != nullptr) {
    return client_->RejectNotify(RejectPdu::kProtocolError, message.bhs, wrong,
                                 AfterReject::kClose);
  }
  CommandLengths lengths;
  const TaskSlot slot = client_->CommandNotify(message, &lengths);
  if (slot == kNoTask) return;
  if (!BeginTask(slot, message, lengths)) return client_->TaskNotReady(slot);
  Task& task = At(slot);
  if (message.data.empty()) [[likely]] {
    return client_->TaskReady(slot);
  }
  task.TakeInHand(message.data);
  client_->TaskReady(slot);
  channel_.counters().copied_bytes += staging_.Keep(slot, &task, client_);
}

// False: there is no memory for it.
inline bool IserTargetDatamover::BeginTask(TaskSlot slot,
                                           const IserMessage& message,
                                           const CommandLengths& lengths) {
  assert(slot < max_tasks_);
  if (!tasks_.Reserve(slot, staging_.blocks()->budget())) return false;
  Task& task = At(slot);
  assert(!task.live);
  task.initiator_task_tag = message.frame.initiator_task_tag;
  task.live = true;
  task.deallocated = false;
  task.references = 0;
  task.buffers = message.control;
  task.get_failed = false;
  task.reads = task.writes = task.lost_puts = 0;
  const DataFault* const fault = task.Begin(
      parameters_, lengths.data_out, message.frame.final, message.data.size());
  if (lengths.data_in > 0 && !task.buffers.read_stag_valid) {
    // Of a bidirectional command, whose length is in an AHS.
    task.data_failed = true;
    channel_.Break(
        absl::InvalidArgumentError("a command that reads without a Read STag"));
  } else if (fault != nullptr) {
    DataError(slot, *fault);
  }
  return true;
}

void IserTargetDatamover::OnDataOut(const IserMessage& message) {
  ScsiDataOutPdu data_out;
  const DecodeResult decoded = Decode(message.bhs, &data_out);
  if (!decoded.ok()) {
    return client_->RejectNotify(RejectPdu::kInvalidPduField, message.bhs,
                                 decoded.field, AfterReject::kClose);
  }
  if (data_out.target_transfer_tag != kReservedTag) {
    // Section 7.3.4: there is no R2T that it could answer.
    return client_->RejectNotify(RejectPdu::kProtocolError, message.bhs,
                                 "solicited Data-Out over iSER",
                                 AfterReject::kClose);
  }
  const TaskSlot slot = client_->FindTask(data_out.initiator_task_tag);
  // No such task: it ended early, and the initiator could not know.
  if (slot == kNoTask) return;
  Task& task = At(slot);
  if (!task.live || task.data_failed || task.deallocated) return;
  const DataFault* fault = task.TakeUnsolicited(data_out, message.data.size());
  if (fault == nullptr && data_out.final && !task.buffers.write_stag_valid &&
      data_out.buffer_offset + message.data.size() < task.data_out_length) {
    fault = &data_fault::kTooLittleUnsolicited;
  }
  if (fault != nullptr) return DataError(slot, *fault);
  Land(slot, message.data);
}

void IserTargetDatamover::DataError(TaskSlot slot, const DataFault& fault) {
  Task& task = At(slot);
  task.data_failed = true;
  task.unsolicited_open = false;
  staging_.End(&task);
  client_->TaskDataError(slot, fault);
}

void IserTargetDatamover::MemoryError(TaskSlot slot, const absl::Status& why) {
  Task& task = At(slot);
  task.data_failed = true;
  task.unsolicited_open = false;
  client_->TaskMemoryError(slot, why);
}

// --- Ends.

void IserTargetDatamover::OnDone(TaskSlot slot, IserWork work, bool ok) {
  Task& task = At(slot);
  if (work == IserWork::kGet) {
    OnReadDone(slot, ok);
  } else if (work != IserWork::kMessage) {
    --task.writes;
    if (work == IserWork::kNotifyPut) OnPutDone(slot, ok);
  }
  if (task.writes == 0 && task.lost_puts > 0) TellLostPuts(slot);
  assert(task.references > 0);
  if (--task.references > 0 || !task.deallocated) return;
  task.live = false;
  client_->TaskDone(slot);
}

void IserTargetDatamover::OnReadDone(TaskSlot slot, bool ok) {
  Task& task = At(slot);
  --task.reads;
  if (!ok) task.get_failed = true;
  if (!task.getting) return;
  if (!task.get_failed && task.placed < task.get_end) ReadRest(slot);
  if (task.getting && task.reads == 0) EndGet(slot);
}

// Operations that run end in order, those that are dropped may not.
void IserTargetDatamover::OnPutDone(TaskSlot slot, bool ok) {
  if (ok) {
    client_->DataCompletionNotify(slot, DataOperation::kPut,
                                  DataOutcome::kMoved);
  } else {
    ++At(slot).lost_puts;
  }
}

uint32_t IserTargetDatamover::TagOf(TaskSlot slot) const {
  return tasks_[slot].initiator_task_tag;
}

void IserTargetDatamover::TellLostPuts(TaskSlot slot) {
  for (Task& task = At(slot); task.lost_puts > 0; --task.lost_puts) {
    client_->DataCompletionNotify(slot, DataOperation::kPut,
                                  DataOutcome::kLost);
  }
}

void IserTargetDatamover::CancelTransfers(TaskSlot slot) {
  Task& task = At(slot);
  task.data_failed = true;  // What still comes for it is dropped.
  task.get_failed = true;
  task.unsolicited_open = false;
  // What is posted cannot be called back: it is waited for.
  channel_.Drop(slot);
  if (task.getting && task.reads == 0) EndGet(slot);
  if (task.writes == 0) TellLostPuts(slot);
}

// Goes on with the tasks where what it tells has thrown.
void IserTargetDatamover::ConnectionTerminate() {
  channel_.Terminate();
  for (TaskSlot slot = 0; slot < max_tasks_; ++slot) {
    if (!tasks_.Has(slot) || !At(slot).live) continue;
    TellLostPuts(slot);
    At(slot).get_failed = true;
    if (At(slot).getting) EndGet(slot);
  }
}

Progress IserTargetDatamover::DeallocateTaskResources(TaskSlot slot) {
  Task& task = At(slot);
  assert(task.live && !task.deallocated && !task.getting);
  task.deallocated = true;
  task.unsolicited_open = false;
  task.in_hand = nullptr;
  staging_.End(&task);
  task.live = task.references > 0;
  return task.live ? Progress::kPending : Progress::kDone;
}

std::unique_ptr<IserDatamoverOf<TargetDatamover>> MakeTargetIserDatamover(
    IserMemory* memory, const IserDatamoverOptions& options) {
  return std::make_unique<IserTargetDatamover>(memory, options);
}

}  // namespace skiff::protocol
