// Commands of an initiator's session, and how they end.

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "protocol/codec/endian.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {
namespace {

using scsi::Command;

bool Covers(const iovec* iov, int count, uint32_t length) {
  size_t have = 0;
  for (int i = 0; i < count && have < length; ++i) have += iov[i].iov_len;
  return have >= length;
}

void ClearResult(Command* command) {
  command->status = 0;
  command->sense_length = 0;
  command->overflow = false;
  command->underflow = false;
  command->residual = 0;
  command->bidi_read_residual = 0;
}

AhsView AhsOf(const Command& command) {
  AhsView ahs;
  if (command.cdb_length > 16) {
    ahs.extended_cdb = {command.cdb.data() + 16,
                        size_t{command.cdb_length} - 16};
  }
  if (command.data_out_length > 0 && command.data_in_length > 0) {
    ahs.has_bidi_read_length = true;
    ahs.bidi_read_length = command.data_in_length;
  }
  return ahs;
}

// What fits in the header, and zeros behind a shorter CDB. Of a constant
// length, for a vector: a copy of so few bytes as the length says costs ten
// times that.
void FillCdb(const Command& command, std::array<uint8_t, 16>* cdb) {
  for (uint8_t i = 0; i < 16; ++i) {
    const uint8_t mask = i < command.cdb_length ? 0xff : 0;
    (*cdb)[i] = command.cdb[i] & mask;
  }
}

}  // namespace

const char* InitiatorSession::Validate(const Command& command) {
  if (command.cdb_length == 0 || command.cdb_length > command.cdb.size()) {
    return "the CDB's length is not between 1 and 32";
  }
  if (!Covers(command.data_out, command.data_out_count,
              command.data_out_length)) {
    return "data_out is shorter than data_out_length";
  }
  if (!Covers(command.data_in, command.data_in_count, command.data_in_length)) {
    return "data_in is shorter than data_in_length";
  }
  return nullptr;
}

bool InitiatorSession::CanCarry(const Command& command) const {
  const AhsView ahs = AhsOf(command);
  if (ahs.extended_cdb.empty() && !ahs.has_bidi_read_length) return true;
  const uint32_t limit = parameters().iser.target_max_ahs_length;
  std::array<uint8_t, kMaxAhsBytes> bytes;
  return limit == 0 || EncodeAhs(ahs, bytes.data()) <= limit;
}

void InitiatorSession::Issue(Command* command, absl::Time now) {
  const TaskSlot slot = tasks_.Take(command);
  InitiatorTask& task = tasks_[slot];
  task.issued = now;
  task.cmd_sn = window_.Take();
  command->session_slot = slot;
  command->outcome = Command::Outcome::kPending;

  ScsiCommandPdu pdu;
  pdu.read = command->data_in_length > 0;
  pdu.write = command->data_out_length > 0;
  pdu.attribute = static_cast<TaskAttribute>(command->attribute);
  pdu.lun = command->lun;
  pdu.initiator_task_tag = task.tag;
  // Of a bidirectional command this is the write's length (section 11.3.4).
  pdu.expected_data_transfer_length =
      pdu.write ? command->data_out_length : command->data_in_length;
  pdu.cmd_sn = task.cmd_sn;
  pdu.exp_stat_sn = exp_stat_sn_;
  FillCdb(*command, &pdu.cdb);

  OutgoingCommand out;
  out.task = slot;
  out.pdu = &pdu;
  out.data_out = command->data_out;
  out.data_out_count = command->data_out_count;
  out.data_out_length = command->data_out_length;
  out.data_in = command->data_in;
  out.data_in_count = command->data_in_count;
  out.data_in_length = command->data_in_length;
  out.ahs = AhsOf(*command);
  const absl::Status sent = datamover_->SendCommand(out);
  if (!sent.ok()) return TakeBack(slot, sent);
  acknowledged_stat_sn_ = exp_stat_sn_;
}

// Nothing of the command was sent: the next one gets its CmdSN.
void InitiatorSession::TakeBack(TaskSlot slot, const absl::Status& why) {
  window_.GiveBack();
  Command* const command = tasks_[slot].command;
  ClearResult(command);
  command->session_slot = kNoTask;
  command->outcome = Command::Outcome::kNotRegistered;
  completions_->Add(command);
  tasks_.Release(slot);
  if (refusal_ == why.message()) return;
  refusal_ = std::string(why.message());
  Log(absl::StrCat("a command is refused, as its memory cannot be used: ",
                   refusal_));
}

void InitiatorSession::ResponseNotify(TaskSlot slot,
                                      const ScsiResponsePdu& response,
                                      absl::Span<const uint8_t> data) {
  if (ended()) return;
  if (!AcceptStatSnOfTask(response.stat_sn, "SCSI Response") ||
      !AcceptWindow(response.exp_cmd_sn, response.max_cmd_sn)) {
    return;
  }
  ack_wanted_ = true;
  InitiatorTask& task = tasks_[slot];
  if (task.state != InitiatorTask::State::kActive) {
    return tasks_.WasConcluded(response.initiator_task_tag)
               ? RefuseLateAnswer()
               : RefuseSecondResponse();
  }
  const char* wrong = FillResult(task.command, response, data);
  if (wrong != nullptr) return RefuseResponse(wrong);
  ++responses_;
  Complete(slot, response.response == ScsiResponsePdu::kCompleted
                     ? Command::Outcome::kCompleted
                     : Command::Outcome::kTargetFailure);
}

// A target must not answer a task after the function that ended it (section
// 11.5.1); Linux's does now and then. Nobody knows what else it still does for
// the task, so that the session is made anew. Other commands are not to blame.
void InitiatorSession::RefuseLateAnswer() {
  Lose(Loss::kTarget,
       absl::UnavailableError(
           "the target went on with a task that it had called aborted"));
}

void InitiatorSession::RefuseSecondResponse() {
  ProtocolError("a second response to one command");
}

void InitiatorSession::RefuseResponse(const char* wrong) {
  ProtocolError(absl::StrCat("a SCSI Response with ", wrong));
}

// Returns what is wrong with the response, or null.
const char* InitiatorSession::FillResult(Command* command,
                                         const ScsiResponsePdu& response,
                                         absl::Span<const uint8_t> data) {
  ClearResult(command);
  size_t sense_length = 0;
  if (!data.empty()) {
    if (data.size() < 2) return "half a SenseLength";
    sense_length = Load16(data.data());
    // Section 11.4.7: sense data lie inside the data segment.
    if (sense_length > data.size() - 2) {
      return "a SenseLength beyond its data segment";
    }
    sense_length = std::min(sense_length, Command::kMaxSense);
  }
  // Residuals and status mean nothing otherwise (section 11.4.5).
  if (response.response != ScsiResponsePdu::kCompleted) return nullptr;

  const uint32_t length = command->data_out_length > 0
                              ? command->data_out_length
                              : command->data_in_length;
  if (response.overflow && response.underflow) {
    return "both overflow and underflow";
  }
  if (response.underflow && response.residual_count > length) {
    return "a residual larger than the transfer";
  }
  if (response.bidi_read_underflow &&
      response.bidi_read_residual_count > command->data_in_length) {
    return "a bidirectional read residual larger than the transfer";
  }
  command->status = response.status;
  command->overflow = response.overflow;
  command->underflow = response.underflow;
  if (response.overflow || response.underflow) {
    command->residual = response.residual_count;
  }
  if (response.bidi_read_underflow) {
    command->bidi_read_residual = response.bidi_read_residual_count;
  }
  if (sense_length > 0) {
    std::memcpy(command->sense.data(), data.data() + 2, sense_length);
    command->sense_length = static_cast<uint8_t>(sense_length);
  }
  return nullptr;
}

void InitiatorSession::Complete(TaskSlot slot, Command::Outcome outcome) {
  InitiatorTask& task = tasks_[slot];
  if (task.abort == InitiatorTask::Abort::kWanted) --aborts_wanted_;
  if (task.abort == InitiatorTask::Abort::kResetWanted) --resets_wanted_;
  task.abort = InitiatorTask::Abort::kNone;
  task.state = InitiatorTask::State::kFinished;
  task.command->outcome = outcome;
  if (datamover_->DeallocateTaskResources(slot) == Progress::kDone) {
    TaskDone(slot);
  }
}

void InitiatorSession::TaskDone(TaskSlot slot) {
  InitiatorTask& task = tasks_[slot];
  // Unfinished tasks of a dead connection wait for TakeUnfinished().
  if (task.state != InitiatorTask::State::kFinished) return;
  task.command->session_slot = kNoTask;
  completions_->Add(task.command);
  tasks_.Release(slot);
}

void InitiatorSession::TakeUnfinished(CommandList* retry) {
  CloseDown();
  for (TaskSlot slot = tasks_.oldest(); slot != kNoTask;) {
    const TaskSlot next = tasks_[slot].next;
    InitiatorTask& task = tasks_[slot];
    Command* const command = task.command;
    const bool answered = task.state == InitiatorTask::State::kFinished;
    command->session_slot = kNoTask;
    if (!answered && task.fate == Command::Outcome::kPending &&
        loss_ == Loss::kProtocol) {
      task.fate = Command::Outcome::kProtocolError;
    }
    // Its response may be what was lost.
    if (task.fate == Command::Outcome::kPending && !command->idempotent) {
      task.fate = Command::Outcome::kConnectionLost;
    }
    if (task.fate == Command::Outcome::kTimedOut) {
      task.fate = Command::Outcome::kTimedOutWithSession;
    }
    if (answered) {
      completions_->Add(command);
    } else if (task.fate != Command::Outcome::kPending) {
      ClearResult(command);
      command->outcome = task.fate;
      completions_->Add(command);
    } else {
      retry->PushBack(command);
    }
    tasks_.Release(slot);
    slot = next;
  }
}

void InitiatorSession::Abort(Command* command) {
  const TaskSlot slot = command->session_slot;
  if (ended() || slot == kNoTask) return;
  InitiatorTask& task = tasks_[slot];
  if (task.state != InitiatorTask::State::kActive ||
      task.abort != InitiatorTask::Abort::kNone) {
    return;
  }
  task.abort = InitiatorTask::Abort::kWanted;
  task.fate = Command::Outcome::kAborted;
  ++aborts_wanted_;
}

void InitiatorSession::TimeOutCommands() {
  if (options_.timeouts.command_timeout <= absl::ZeroDuration()) return;
  for (TaskSlot slot = tasks_.oldest(); slot != kNoTask;
       slot = tasks_[slot].next) {
    InitiatorTask& task = tasks_[slot];
    if (now_ < task.issued + options_.timeouts.command_timeout) return;
    if (task.state != InitiatorTask::State::kActive ||
        task.abort != InitiatorTask::Abort::kNone) {
      continue;
    }
    task.abort = InitiatorTask::Abort::kWanted;
    task.fate = Command::Outcome::kTimedOut;
    ++aborts_wanted_;
    Log(absl::StrCat("no answer to command 0x", absl::Hex(task.command->cdb[0]),
                     " for LUN 0x", absl::Hex(task.command->lun), " within ",
                     absl::FormatDuration(options_.timeouts.command_timeout),
                     ": aborting it"));
  }
}

// A task management function is complete: the tasks it covered will never be
// answered (section 11.5.1).
void InitiatorSession::ConcludeTasks(const Request& request) {
  for (TaskSlot slot = tasks_.oldest(); slot != kNoTask;) {
    const TaskSlot next = tasks_[slot].next;
    InitiatorTask& task = tasks_[slot];
    bool covered = SerialLess(task.cmd_sn, request.cmd_sn);
    switch (request.function) {
      case TaskManagementFunction::kAbortTask:
        covered = task.tag == request.referenced_tag;
        break;
      case TaskManagementFunction::kAbortTaskSet:
      case TaskManagementFunction::kClearTaskSet:
      case TaskManagementFunction::kLogicalUnitReset:
        covered = covered && task.command->lun == request.lun;
        break;
      case TaskManagementFunction::kTargetWarmReset:
      case TaskManagementFunction::kTargetColdReset:
        break;
      case TaskManagementFunction::kClearAca:
      case TaskManagementFunction::kTaskReassign:
        return;
    }
    if (covered && task.state == InitiatorTask::State::kActive) {
      task.concluded_tag = task.tag;
      ClearResult(task.command);
      Complete(slot, task.fate != Command::Outcome::kPending
                         ? task.fate
                         : Command::Outcome::kAborted);
    }
    slot = next;
  }
}

}  // namespace skiff::protocol
