// Task management of an initiator's session (RFC 7143 sections 11.5 and 11.6).

#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/codec/serial.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {
namespace {

const char* FunctionName(TaskManagementFunction function) {
  switch (function) {
    case TaskManagementFunction::kAbortTask:
      return "ABORT TASK";
    case TaskManagementFunction::kAbortTaskSet:
      return "ABORT TASK SET";
    case TaskManagementFunction::kClearAca:
      return "CLEAR ACA";
    case TaskManagementFunction::kClearTaskSet:
      return "CLEAR TASK SET";
    case TaskManagementFunction::kLogicalUnitReset:
      return "LOGICAL UNIT RESET";
    case TaskManagementFunction::kTargetWarmReset:
      return "TARGET WARM RESET";
    case TaskManagementFunction::kTargetColdReset:
      return "TARGET COLD RESET";
    case TaskManagementFunction::kTaskReassign:
      return "TASK REASSIGN";
  }
  return "task management";
}

bool IsReset(TaskManagementFunction function) {
  return function == TaskManagementFunction::kLogicalUnitReset ||
         function == TaskManagementFunction::kTargetWarmReset ||
         function == TaskManagementFunction::kTargetColdReset;
}

bool HasLun(TaskManagementFunction function) {  // Section 11.5.3.
  return function != TaskManagementFunction::kTargetWarmReset &&
         function != TaskManagementFunction::kTargetColdReset;
}

absl::Status StatusOf(TaskManagementFunction function, uint8_t response) {
  using Pdu = TaskManagementResponsePdu;
  const char* const name = FunctionName(function);
  switch (response) {
    case Pdu::kComplete:
      return absl::OkStatus();
    case Pdu::kTaskDoesNotExist:
      return absl::NotFoundError(
          absl::StrCat(name, ": the task does not exist at the target"));
    case Pdu::kLunDoesNotExist:
      return absl::NotFoundError(
          absl::StrCat(name, ": the logical unit does not exist"));
    case Pdu::kNotSupported:
      return absl::UnimplementedError(
          absl::StrCat(name, ": the target does not support it"));
    case Pdu::kAuthorizationFailed:
      return absl::PermissionDeniedError(
          absl::StrCat(name, ": the target does not allow it"));
    default:
      return absl::FailedPreconditionError(absl::StrCat(
          name, ": the target rejected it with response ", response));
  }
}

}  // namespace

void InitiatorSession::Manage(TaskManagementFunction function, Lun lun,
                              scsi::Command* referenced, StatusCallback done) {
  Request request;
  request.kind = Request::Kind::kTaskManagement;
  request.function = function;
  request.lun = HasLun(function) ? lun : 0;
  request.done = std::move(done);
  absl::Status refused;
  if (function == TaskManagementFunction::kTaskReassign) {
    refused = absl::UnimplementedError(
        "TASK REASSIGN needs error recovery level 2; this session runs at 0");
  } else if (function == TaskManagementFunction::kAbortTask) {
    const bool pending = referenced != nullptr &&
                         referenced->session_slot < options_.max_commands;
    if (!pending) {
      refused = absl::NotFoundError(
          "ABORT TASK: the command is not pending at the target");
    } else {
      InitiatorTask& task = tasks_[referenced->session_slot];
      request.lun = referenced->lun;
      request.referenced_tag = task.tag;
      request.ref_cmd_sn = task.cmd_sn;
      if (task.fate == scsi::Command::Outcome::kPending) {
        task.fate = scsi::Command::Outcome::kAborted;
      }
    }
  }
  if (!refused.ok()) {
    if (!request.done) return;
    return completions_->Add(
        [call = std::move(request.done), refused]() mutable { call(refused); });
  }
  Enqueue(&task_management_, std::move(request));
}

InitiatorTask* InitiatorSession::OldestWith(InitiatorTask::Abort abort) {
  TaskSlot slot = tasks_.oldest();
  while (slot != kNoTask && tasks_[slot].abort != abort) {
    slot = tasks_[slot].next;
  }
  return slot != kNoTask ? &tasks_[slot] : nullptr;
}

void InitiatorSession::StartTaskManagement() {
  if (resets_wanted_ > 0) {
    StartReset(OldestWith(InitiatorTask::Abort::kResetWanted));
  } else if (aborts_wanted_ > 0) {
    StartAbort(OldestWith(InitiatorTask::Abort::kWanted));
  } else if (!task_management_.waiting.empty()) {
    task_management_.current = std::move(task_management_.waiting.front());
    task_management_.waiting.pop_front();
  } else {
    return;
  }
  SendRequest(&task_management_);
}

void InitiatorSession::StartAbort(InitiatorTask* task) {
  Request& request = task_management_.current.emplace();
  request.kind = Request::Kind::kTaskManagement;
  request.function = TaskManagementFunction::kAbortTask;
  request.lun = task->command->lun;
  request.referenced_tag = task->tag;
  request.ref_cmd_sn = task->cmd_sn;
  request.own_idea = true;
  task->abort = InitiatorTask::Abort::kSent;
  --aborts_wanted_;
}

void InitiatorSession::StartReset(InitiatorTask* task) {
  Request& request = task_management_.current.emplace();
  request.kind = Request::Kind::kTaskManagement;
  request.function = TaskManagementFunction::kLogicalUnitReset;
  request.lun = task->command->lun;
  request.own_idea = true;
  task->abort = InitiatorTask::Abort::kResetSent;
  --resets_wanted_;
}

void InitiatorSession::SendTaskManagement(bool immediate, uint32_t cmd_sn) {
  Request& request = *task_management_.current;
  TaskManagementRequestPdu pdu;
  pdu.immediate = immediate;
  pdu.function = static_cast<uint8_t>(request.function);
  pdu.lun = request.lun;
  pdu.initiator_task_tag = task_management_.tag();
  // Also an immediate request's CmdSN marks its place in the stream of
  // commands.
  pdu.cmd_sn = request.cmd_sn = cmd_sn;
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  pdu.referenced_task_tag = request.referenced_tag;
  pdu.ref_cmd_sn = request.ref_cmd_sn;
  hold_issue_ = IsReset(request.function);
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(bhs.data(), {});
}

void InitiatorSession::TaskManagementTimedOut() {
  const Request& request = *task_management_.current;
  if (request.function == TaskManagementFunction::kAbortTask &&
      request.own_idea) {
    const uint32_t referenced_tag = request.referenced_tag;
    Finish(&task_management_, absl::OkStatus());
    return AbortRefused(referenced_tag);
  }
  Lose(Loss::kTimeout,
       absl::DeadlineExceededError(absl::StrCat(
           "the target did not answer ", FunctionName(request.function),
           " within ",
           absl::FormatDuration(options_.timeouts.task_management_timeout))));
}

// ABORT TASK did not end the task. A command that has been waited for long
// enough gets its logical unit reset; one that merely was not wanted any more
// goes on.
void InitiatorSession::AbortRefused(uint32_t referenced_tag) {
  const TaskSlot slot = tasks_.Find(referenced_tag);
  if (slot == kNoTask) return;
  InitiatorTask& task = tasks_[slot];
  // What refused the caller's ABORT TASK says nothing of one of our own that is
  // still to be sent.
  if (task.abort != InitiatorTask::Abort::kNone &&
      task.abort != InitiatorTask::Abort::kSent) {
    return;
  }
  if (task.fate == scsi::Command::Outcome::kTimedOut) {
    Log(absl::StrCat("ABORT TASK did not help: resetting logical unit 0x",
                     absl::Hex(task.command->lun)));
    task.abort = InitiatorTask::Abort::kResetWanted;
    ++resets_wanted_;
  } else {
    task.abort = InitiatorTask::Abort::kNone;
    task.fate = scsi::Command::Outcome::kPending;
  }
}

void InitiatorSession::OnTaskManagementResponse(const ControlPdu& pdu) {
  TaskManagementResponsePdu response;
  if (!Decoded(Decode(pdu.bhs, &response), "Task Management Response")) return;
  if (IsEarly(response)) {
    early_response_ = response;
  } else {
    Conclude(response);
  }
}

// Linux's target posts responses in another order than it numbers them
// (AcceptOutOfTurn()). This one says something of the tasks whose responses
// come before it, and so waits for them.
bool InitiatorSession::IsEarly(
    const TaskManagementResponsePdu& response) const {
  const uint32_t ahead = response.stat_sn - exp_stat_sn_;  // RFC 1982.
  return login_.parameters().iser.enabled && ahead > 0 &&
         ahead < kMaxEarlyStatSns && !early_response_.has_value() &&
         task_management_.Owns(response.initiator_task_tag);
}

void InitiatorSession::TakeEarlyResponse() {
  if (!early_response_.has_value() ||
      !SerialGreaterEqual(exp_stat_sn_, early_response_->stat_sn)) {
    return;
  }
  const TaskManagementResponsePdu response = *early_response_;
  early_response_.reset();
  Conclude(response);
}

void InitiatorSession::Conclude(const TaskManagementResponsePdu& response) {
  // Another response may have had its number: those before it have come.
  if (!AcceptStatSnOfFunction(response.stat_sn) ||
      !AcceptWindow(response.exp_cmd_sn, response.max_cmd_sn)) {
    return;
  }
  Lane& lane = task_management_;
  if (!lane.Owns(response.initiator_task_tag)) {
    // Section 4.2.3.3: late ones are discarded.
    if (lane.Retired(response.initiator_task_tag)) return;
    return ProtocolError(
        "a Task Management Response with an unknown Initiator Task Tag");
  }
  Request request = std::move(*lane.current);
  const absl::Status status = StatusOf(request.function, response.response);
  lane.current->done = std::move(request.done);
  Finish(&lane, status);
  if (status.ok()) return ConcludeTasks(request);
  // "Task does not exist" included: a target that keeps to section 11.6.1 has
  // answered such a task before, so that it is not pending here. Others say it
  // of tasks whose data they still wait for (tgt), and carry them out: to call
  // those aborted would give their buffers and blocks free too early.
  if (request.function == TaskManagementFunction::kAbortTask) {
    Log(status.message());
    return AbortRefused(request.referenced_tag);
  }
  if (!request.own_idea) return;
  Lose(Loss::kTimeout,
       absl::DeadlineExceededError(
           absl::StrCat("commands are not answered, and ", status.message())));
}

}  // namespace skiff::protocol
