#ifndef SKIFF_PROTOCOL_DATAMOVER_TARGET_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_TARGET_DATAMOVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/datamover/datamover.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

enum class DataOperation : uint8_t { kPut, kGet };
// kLost: it was cancelled, or failed.
enum class DataOutcome : uint8_t { kMoved, kLost };
// What becomes of the connection on which a PDU was refused. At error recovery
// level 0 its end ends the session.
enum class AfterReject : uint8_t { kGoOn, kClose };

// What a SCSI Command moves, in bytes. Filled in place and read by field:
// returned or copied as a whole, it would be read back before its parts are
// stored, for which processors stall.
struct CommandLengths {
  uint32_t data_out = 0;
  uint32_t data_in = 0;
};

// Why a command ends with CHECK CONDITION whose data went wrong.
struct DataFault {
  uint8_t asc;
  uint8_t ascq;
  const char* why;  // For people.
};

// What a target's datamover tells its session ("upwards" in RFC 5047).
class TargetDatamoverClient {
 public:
  virtual ~TargetDatamoverClient() = default;

  // What `pdu` points to is valid during the call only.
  //
  // Control_Notify of anything but a SCSI Command and Data-Out.
  virtual void ControlNotify(const ControlPdu& pdu) = 0;
  // Control_Notify of a SCSI Command, whose immediate data stay with the
  // datamover, who places them when GetData says where. Returns the task that
  // it becomes, for which one of the next two follows, and says what that
  // moves. kNoTask: it was not accepted, and its immediate data are dropped.
  virtual TaskSlot CommandNotify(const ControlPdu& pdu,
                                 CommandLengths* lengths) = 0;
  // The datamover knows the task: it may begin.
  virtual void TaskReady(TaskSlot task) = 0;
  // There is no memory for the task, which is unknown. The command ends with
  // TASK SET FULL.
  virtual void TaskNotReady(TaskSlot task) = 0;

  // The slot of the live task with this tag, or kNoTask. For unsolicited data,
  // which name their task by the initiator's tag.
  virtual TaskSlot FindTask(uint32_t initiator_task_tag) = 0;
  // Current ExpCmdSN and MaxCmdSN, to stamp into what is sent.
  virtual void CurrentWindow(uint32_t* exp_cmd_sn, uint32_t* max_cmd_sn) = 0;
  // The next StatSN without consuming it, for R2T.
  virtual uint32_t CurrentStatSn() = 0;

  // Data_Completion_Notify: a PutData asked to be notified, or a GetData,
  // ended; its memory is the session's again.
  virtual void DataCompletionNotify(TaskSlot task, DataOperation operation,
                                    DataOutcome outcome) = 0;
  // The datamover has forgotten the task since DeallocateTaskResources; the
  // slot and every buffer of the task are the session's again.
  virtual void TaskDone(TaskSlot task) = 0;

  // A PDU was refused: to be answered with a Reject that carries `bhs`.
  virtual void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                            const char* why, AfterReject after) = 0;
  // Data of this task went wrong in a way that ends the command with CHECK
  // CONDITION instead of the connection (RFC 7143 section 7.8 and 11.4.7.2).
  virtual void TaskDataError(TaskSlot task, const DataFault& fault) = 0;
  // There is no memory to keep data of this task that came before GetData said
  // where they go, or to copy what is to be sent. They are lost, and the
  // command ends with TASK SET FULL. What GetData and PutData promised follows.
  virtual void TaskRefused(TaskSlot task) = 0;
  // The device cannot use the memory of this task's data, as `why` says;
  // nothing of the task moves any more. The command ends with CHECK CONDITION,
  // too. What GetData and PutData promised follows.
  virtual void TaskMemoryError(TaskSlot task, const absl::Status& why) = 0;

  // Connection_Terminate_Notify: the connection is dead or must be closed now.
  // Nothing follows but the DataCompletionNotify and TaskDone of what was
  // pending.
  virtual void ConnectionTerminateNotify(const absl::Status& why) = 0;
};

// The target's end of the seam.
class TargetDatamover {
 public:
  virtual ~TargetDatamover() = default;

  // Before any use. `max_tasks` bounds slots.
  virtual void SetClient(TargetDatamoverClient* client, uint32_t max_tasks) = 0;
  // What full feature phase needs, before the final Login Response promises it
  // with these parameters. An error says what is lacking. Again with the same
  // parameters: nothing happens. Streams need nothing.
  virtual absl::Status AllocateConnectionResources(const Parameters&) {
    return absl::OkStatus();
  }
  // The same, while sessions live that end before this one begins (session
  // reinstatement): after success they may be ended. What only their end makes
  // free is set apart, and allocated by AllocateConnectionResources() when all
  // of `older`, their datamovers, are gone. Those are of the same reactor.
  virtual absl::Status ReserveConnectionResources(
      const Parameters&, absl::Span<const TargetDatamover* const> /*older*/) {
    return absl::OkStatus();
  }
  // Login is over: `parameters` are in force from the next PDU on in both
  // directions (Notice_Key_Values and Enable_Datamover). To be called after
  // SendControl of the final Login Response.
  virtual void EnableDatamover(const Parameters& parameters) = 0;

  // Send_Control. `bhs` is copied with its lengths corrected for `data`, which
  // is copied too. Never refuses; see congested().
  virtual void SendControl(const uint8_t* bhs,
                           absl::Span<const uint8_t> data) = 0;

  // Put_Data. `from` goes to `offset` of the initiator's buffer; offsets of a
  // task ascend without gaps. With `notify`, DataCompletionNotify(kPut) follows
  // when the memory may change.
  virtual void PutData(TaskSlot task, uint32_t offset,
                       absl::Span<const uint8_t> from, bool notify) = 0;
  // Put_Data (may be empty) then Send_Control of the response, merged where the
  // data model allows. The memory stays untouched until TaskDone. False after
  // TaskMemoryError: another response is wanted.
  virtual bool PutDataAndResponse(TaskSlot task, uint32_t offset,
                                  absl::Span<const uint8_t> from,
                                  const ScsiResponsePdu& response,
                                  absl::Span<const uint8_t> sense) = 0;
  // Get_Data. [offset, offset + to.size()) of the initiator's buffer into `to`.
  // One at a time per task; offsets ascend without gaps. kDone: all are there.
  // kPending: DataCompletionNotify(kGet) follows.
  [[nodiscard]] virtual Progress GetData(TaskSlot task, uint32_t offset,
                                         absl::Span<uint8_t> to) = 0;
  // Every outstanding PutData and GetData of the task ends soon, with its
  // notification.
  virtual void CancelTransfers(TaskSlot task) = 0;
  // Deallocate_Task_Resources. The session is through with the task (response
  // handed over, or aborted). kDone: the datamover has forgotten it, as when
  // TaskDone comes. kPending: something still refers to its memory, and
  // TaskDone follows.
  [[nodiscard]] virtual Progress DeallocateTaskResources(TaskSlot task) = 0;

  // Connection_Terminate: drop everything; pending notifications are delivered
  // from inside the call. The object is only good for destruction afterwards.
  virtual void ConnectionTerminate() = 0;

  // From now on only what belongs to tasks that have begun is handled, and
  // nothing is received unless one of them waits for data: another process is
  // to go on with the connection. False: this data model can't, and nothing has
  // changed.
  virtual bool HoldCommands() { return false; }
  // After that: every task has ended, and all that was to be sent has left.
  virtual bool quiet() const { return false; }
  // Once it is quiet: what was received and not handled, as bytes of the
  // stream. ResourceExhausted: more was sent than is kept (kMaxHeldBytes).
  virtual absl::StatusOr<std::string> TakeUnread() {
    return absl::UnimplementedError("it holds nothing");
  }
  static constexpr size_t kMaxHeldBytes = 16u << 20;

  // More than the configured limit waits to be sent. What the initiator sends
  // is not taken until it drains.
  virtual bool congested() const = 0;
  // What the connection has done so far.
  virtual ConnectionCounters counters() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_TARGET_DATAMOVER_H_
