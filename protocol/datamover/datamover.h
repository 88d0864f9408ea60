#ifndef SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/negotiation/parameters.h"

// The Datamover Interface of RFC 5047: sessions say *what* moves, a datamover
// knows *how*. Over a byte stream, GetData becomes R2T and Data-Out, PutData
// becomes Data-In; over RDMA they become one-sided reads and writes. A session
// never asks which one it has. Sans-IO: no sockets, threads or clocks; one
// reactor.
//
// Tasks are named by slot: a small dense index that the session chose and that
// stays taken until the datamover has no use for it any more (TaskDone below).
// On the initiator the Initiator Task Tag is made by MakeTag(slot, generation).

namespace skiff::protocol {

using TaskSlot = uint32_t;
inline constexpr TaskSlot kNoTask = ~TaskSlot{0};
// Slots fit 16 bits; a tag is generation << 16 | slot and is never
// kReservedTag.
inline constexpr uint32_t kMaxTaskSlots = 0x8000;
inline constexpr uint32_t MakeTag(TaskSlot slot, uint16_t generation) {
  return static_cast<uint32_t>(generation) << 16 | slot;
}
inline constexpr TaskSlot SlotOfTag(uint32_t tag) { return tag & 0xffffu; }

// A PDU that a session handles itself: everything but Data-In, Data-Out and
// R2T. Views are valid during the call only. The header digest, the data digest
// (of `data`) and the padding were dealt with.
struct ControlPdu {
  BhsFrame frame;
  const uint8_t* bhs;             // 48 bytes.
  absl::Span<const uint8_t> ahs;  // Undecoded, without padding of its own.
  // The data segment; empty for SCSI Commands: their immediate data stay with
  // the datamover, who places them when GetData says where.
  absl::Span<const uint8_t> data;
};

enum class DataOperation : uint8_t { kPut, kGet };

// What a datamover tells its session ("upwards" in RFC 5047).
class DatamoverClient {
 public:
  virtual ~DatamoverClient() = default;

  // Control_Notify.
  virtual void ControlNotify(const ControlPdu& pdu) = 0;

  // Initiator: the SCSI Response of a task (also when it came merged into the
  // last Data-In). All data of the task are in place. `data` is the response's
  // data segment (SenseLength and sense).
  virtual void ResponseNotify(TaskSlot task, const ScsiResponsePdu& response,
                              absl::Span<const uint8_t> data) = 0;
  // Initiator: a data PDU brought ExpCmdSN and MaxCmdSN.
  virtual void WindowNotify(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) = 0;

  // Target: the slot of the live task with this tag and LUN, or kNoTask. For
  // unsolicited data, which names its task by the initiator's tag.
  virtual TaskSlot FindTask(uint32_t initiator_task_tag) = 0;
  // Target: current ExpCmdSN and MaxCmdSN, to stamp into what is sent.
  virtual void CurrentWindow(uint32_t* exp_cmd_sn, uint32_t* max_cmd_sn) = 0;
  // Target: the next StatSN without consuming it (R2T, unsolicited NOP-In).
  virtual uint32_t CurrentStatSn() = 0;

  // Data_Completion_Notify: a PutData asked to be notified, or a GetData,
  // ended; its memory is the session's again. `ok` is false when it was
  // cancelled or failed.
  virtual void DataCompletionNotify(TaskSlot task, DataOperation operation,
                                    bool ok) = 0;

  // The datamover has forgotten the task after DeallocateTaskResources; the
  // slot and every buffer of the task are the session's again.
  virtual void TaskDone(TaskSlot task) = 0;

  // A PDU was refused. The target answers with Reject carrying `bhs`, the
  // initiator drops the session. `fatal`: the connection is of no more use
  // after that (error recovery level 0 ends the session).
  virtual void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                            const char* why, bool fatal) = 0;
  // Target: data of this task went wrong in a way that ends the command with
  // CHECK CONDITION instead of the connection (RFC 7143 section 7.8
  // and 11.4.7.2).
  virtual void TaskDataError(TaskSlot task, uint8_t asc, uint8_t ascq,
                             const char* why) = 0;
  // Target: there is no memory to keep data of this task that came before
  // GetData said where they go, or to copy what is to be sent. They are lost,
  // and the command ends with TASK SET FULL. What GetData and PutData promised
  // follows.
  virtual void TaskRefused(TaskSlot task) = 0;
  // Target: the device cannot use the memory of this task's data, as `why`
  // says; nothing of the task moves any more. The command ends with CHECK
  // CONDITION, too. What GetData and PutData promised follows.
  virtual void TaskMemoryError(TaskSlot task, const absl::Status& why) = 0;

  // Connection_Terminate_Notify: the connection is dead or must be closed now.
  // Nothing follows but the DataCompletionNotify and TaskDone of what was
  // pending.
  virtual void ConnectionTerminateNotify(const absl::Status& why) = 0;
};

// A command of the initiator with the memory of its data, all of which stays
// alive until TaskDone.
struct OutgoingCommand {
  TaskSlot task = kNoTask;
  ScsiCommandPdu* pdu = nullptr;  // `final` is the datamover's to set.
  AhsView ahs;
  const iovec* data_out = nullptr;
  int data_out_count = 0;
  uint32_t data_out_length = 0;
  const iovec* data_in = nullptr;
  int data_in_count = 0;
  uint32_t data_in_length = 0;
};

class Datamover {
 public:
  virtual ~Datamover() = default;

  // Before any use. `max_tasks` bounds slots.
  virtual void SetClient(DatamoverClient* client, uint32_t max_tasks) = 0;
  // Target: what full feature phase needs, before the final Login Response
  // promises it with these parameters. An error says what is lacking. Streams
  // need nothing.
  virtual absl::Status AllocateConnectionResources(const Parameters&) {
    return absl::OkStatus();
  }
  // Login is over: `parameters` are in force from the next PDU on in both
  // directions (Notice_Key_Values and Enable_Datamover). On the target, call it
  // after SendControl of the final Login Response.
  virtual void EnableDatamover(const Parameters& parameters) = 0;

  // Send_Control. `bhs` is copied with its lengths corrected for `data`, which
  // is copied too. Never refuses; see congested().
  virtual void SendControl(const uint8_t* bhs,
                           absl::Span<const uint8_t> data) = 0;

  // Initiator: Send_Control of a SCSI Command with its buffers; what may go as
  // immediate and unsolicited data goes along. An error says why the target
  // cannot be given the buffers: nothing was sent, and the task is unknown.
  virtual absl::Status SendCommand(const OutgoingCommand& command) = 0;

  // Target: a SCSI Command was accepted as task `task`, from inside
  // ControlNotify of its PDU. Immediate data of a command that was not accepted
  // are discarded. False: there is no memory for it, and the task is unknown.
  [[nodiscard]] virtual bool AcceptCommand(TaskSlot task,
                                           const ScsiCommandPdu& pdu,
                                           uint32_t data_out_length,
                                           uint32_t data_in_length) = 0;

  // Target: Put_Data. `from` goes to `offset` of the initiator's buffer;
  // offsets of a task ascend without gaps. With `notify`,
  // DataCompletionNotify(kPut) follows when the memory may change. Never from
  // inside the call.
  virtual void PutData(TaskSlot task, uint32_t offset,
                       absl::Span<const uint8_t> from, bool notify) = 0;
  // Target: Put_Data (may be empty) then Send_Control of the response, merged
  // where the data model allows. The memory stays untouched until TaskDone.
  // False after TaskMemoryError: another response is wanted.
  virtual bool PutDataAndResponse(TaskSlot task, uint32_t offset,
                                  absl::Span<const uint8_t> from,
                                  const ScsiResponsePdu& response,
                                  absl::Span<const uint8_t> sense) = 0;
  // Target: Get_Data. [offset, offset + to.size()) of the initiator's buffer
  // into `to`. One at a time per task; offsets ascend without gaps. Returns
  // true when it is complete already; otherwise DataCompletionNotify(kGet)
  // follows, never from inside the call.
  virtual bool GetData(TaskSlot task, uint32_t offset,
                       absl::Span<uint8_t> to) = 0;
  // Target: every outstanding PutData and GetData of the task ends soon, with
  // its notification.
  virtual void CancelTransfers(TaskSlot task) = 0;

  // Deallocate_Task_Resources. The session is through with the task (response
  // received, response handed over, or aborted); TaskDone follows once nothing
  // refers to its memory, perhaps from inside the call.
  virtual void DeallocateTaskResources(TaskSlot task) = 0;

  // Connection_Terminate: drop everything; pending notifications are delivered
  // from inside the call. The object is only good for destruction afterwards.
  virtual void ConnectionTerminate() = 0;

  // More than the configured limit waits to be sent: the session should not
  // start new work, and the pump stops receiving until it drains.
  virtual bool congested() const = 0;

  // What the connection has done so far.
  virtual ConnectionCounters counters() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_DATAMOVER_H_
