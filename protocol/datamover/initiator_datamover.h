#ifndef SKIFF_PROTOCOL_DATAMOVER_INITIATOR_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_INITIATOR_DATAMOVER_H_

#include <sys/uio.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/datamover/datamover.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// What an initiator's datamover tells its session ("upwards" in RFC 5047).
class InitiatorDatamoverClient {
 public:
  virtual ~InitiatorDatamoverClient() = default;

  // Control_Notify of anything but Data-In and R2T. What `pdu` points to is
  // valid during the call only.
  virtual void ControlNotify(const ControlPdu& pdu) = 0;
  // The SCSI Response of a task (also when it came merged into the last
  // Data-In). All data of the task are in place. `data` is the response's data
  // segment (SenseLength and sense).
  virtual void ResponseNotify(TaskSlot task, const ScsiResponsePdu& response,
                              absl::Span<const uint8_t> data) = 0;
  // A data PDU brought ExpCmdSN and MaxCmdSN.
  virtual void WindowNotify(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) = 0;
  // The current one, to stamp into what is sent.
  virtual uint32_t CurrentExpStatSn() = 0;

  // The datamover has forgotten the task since DeallocateTaskResources; the
  // slot and every buffer of the task are the session's again.
  virtual void TaskDone(TaskSlot task) = 0;

  // A PDU with this header was refused, as `why` says: the session ends.
  virtual void RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                            const char* why) = 0;
  // Connection_Terminate_Notify: the connection is dead or must be closed now.
  // Nothing follows but the TaskDone of what was pending.
  virtual void ConnectionTerminateNotify(const absl::Status& why) = 0;
};

// A command with the memory of its data, all of which stays alive until
// TaskDone.
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

// The initiator's end of the seam.
class InitiatorDatamover {
 public:
  virtual ~InitiatorDatamover() = default;

  // Before any use. `max_tasks` bounds slots.
  virtual void SetClient(InitiatorDatamoverClient* client,
                         uint32_t max_tasks) = 0;
  // Login is over: `parameters` are in force from the next PDU on in both
  // directions (Notice_Key_Values and Enable_Datamover).
  virtual void EnableDatamover(const Parameters& parameters) = 0;

  // Send_Control. `bhs` is copied with its lengths corrected for `data`, which
  // is copied too. Never refuses; see congested().
  virtual void SendControl(const uint8_t* bhs,
                           absl::Span<const uint8_t> data) = 0;
  // Send_Control of a SCSI Command with its buffers; what may go as immediate
  // and unsolicited data goes along. An error says why the target cannot be
  // given the buffers: nothing was sent, and the task is unknown.
  virtual absl::Status SendCommand(const OutgoingCommand& command) = 0;
  // Deallocate_Task_Resources. The session is through with the task (response
  // received, or aborted). kDone: the datamover has forgotten it, as when
  // TaskDone comes. kPending: something still refers to its memory, and
  // TaskDone follows.
  [[nodiscard]] virtual Progress DeallocateTaskResources(TaskSlot task) = 0;

  // Connection_Terminate: drop everything; pending notifications are delivered
  // from inside the call. The object is only good for destruction afterwards.
  virtual void ConnectionTerminate() = 0;

  // More than the configured limit waits to be sent: the session should not
  // start new work.
  virtual bool congested() const = 0;
  // What the connection has done so far.
  virtual ConnectionCounters counters() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_INITIATOR_DATAMOVER_H_
