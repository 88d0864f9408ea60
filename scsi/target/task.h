#ifndef SKIFF_SCSI_TARGET_TASK_H_
#define SKIFF_SCSI_TARGET_TASK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scsi/backend/backend.h"

namespace skiff::scsi {

// The seam between a target port (protocol/session) and the device servers, in
// the terms of SAM-5's transport protocol services. Neither side sees the
// other's types; everything here lives on one reactor.

// How a task is ordered among others (SAM-5 section 8.6).
enum class Attribute : uint8_t { kSimple, kOrdered, kHeadOfQueue, kAca };

// SAM-5 section 5.3.1.
enum class ScsiStatus : uint8_t {
  kGood = 0x00,
  kCheckCondition = 0x02,
  kConditionMet = 0x04,
  kBusy = 0x08,
  kReservationConflict = 0x18,
  kTaskSetFull = 0x28,
  kAcaActive = 0x30,
  kTaskAborted = 0x40,
};

class LuNexus;
struct DataBuffer;

// One command in a logical unit. Owned by the target port, who fills the
// request part before Nexus::Submit and keeps it alive until it was completed
// or aborted *and* no transfer is outstanding; then calls Nexus::Release
// exactly once.
struct Task {
  static constexpr size_t kMaxCdb = 260;
  static constexpr size_t kMaxSense = 252;

  // What nearly every command touches is together, in few cache lines; `io`,
  // `sense` and what follows the usual length of `cdb` are behind it.

  // --- Request, by the port. Also `cdb`, below.
  uint64_t lun = 0;  // SAM-5 section 4.7, big-endian as a number.
  // Unique among the nexus's live tasks; for logs and ABORT TASK.
  uint64_t tag = 0;
  uint32_t data_out_length = 0;  // What the initiator is ready to send
  uint32_t data_in_length = 0;   // and to receive.
  uint16_t cdb_length = 16;
  Attribute attribute = Attribute::kSimple;

  // --- Response, by the device server. Also `sense`, below.
  ScsiStatus status = ScsiStatus::kGood;
  uint16_t sense_length = 0;
  // By the device server, for CommandCounters, as is `began`.
  enum class Kind : uint8_t { kOther, kRead, kWrite };
  static constexpr size_t kKinds = 3;
  Kind kind = Kind::kOther;
  // What the command wanted to transfer, whatever the initiator allowed: the
  // port derives over- and underflow from it (SPC: residual).
  uint64_t data_out_wanted = 0;
  uint64_t data_in_wanted = 0;

  // --- The port's.
  void* port_context = nullptr;

  // --- The device server's; the port neither reads nor writes them after
  // Reset().
  enum class Phase : uint8_t {
    kIdle,
    kDormant,
    kEnabled,
    kWaitingForBuffer,
    kWaitingForGuard,
    kCompleted,
    kAborted
  };
  LuNexus* lu_nexus = nullptr;
  Task* prev = nullptr;
  Task* next = nullptr;
  DataBuffer* buffer = nullptr;
  uint64_t lba = 0;
  uint64_t blocks = 0;
  uint64_t progress = 0;
  uint32_t in_flight = 0;  // Transfers and I/O that still refer to the task.
  // While `guarded`: the exclusive task (WriteGuard's count of them) that need
  // not wait for this one. Zero: none.
  uint32_t excused = 0;
  // Eight bytes that Submit() clears at once.
  uint8_t step = 0;
  uint8_t transfers = 0;   // How many of `in_flight` are the port's.
  bool guarded = false;    // Counted by the LU's write guard.
  bool exclusive = false;  // Holds the write guard alone.
  bool terminate = false;  // Abort when the last of `in_flight` returns.
  bool held = false;       // Complete but for an ACA condition (see TaskSet).
  bool receiving = false;  // Its last transfer is, or was, Data-Out.
  bool late = false;       // Its data did not come, and were given up.
  // While `guarded` by a write without its data: an exclusive task waits for
  // it, since `holds_up_since` (or since its data were given up).
  bool holds_up = false;
  bool respond = false;   // What Aborted() then says.
  bool in_steps = false;  // While it waits: any buffer will do.
  Phase phase = Phase::kIdle;
  uint32_t chunk = 0;               // Bytes of the step under way.
  void (*resume)(Task*) = nullptr;  // What the awaited event continues with.
  int64_t began = 0;                // Reactor::turn_nanos().

  std::array<uint8_t, kMaxCdb> cdb;
  IoRequest io;
  iovec iov[2];
  absl::Time holds_up_since;
  Task* wait_next = nullptr;  // In the one queue it waits in.
  std::array<uint8_t, kMaxSense> sense;
};

// Whether a transfer is through already.
enum class TransferResult : uint8_t {
  kDone,
  kPending,  // A callback of Nexus follows.
};

// What the device server asks of the port, on the task's reactor.
class TargetPort {
 public:
  virtual ~TargetPort() = default;

  // Receive Data-Out: bytes [offset, offset + length) of the data-out buffer
  // into `to`. Never beyond Task::data_out_length. kPending: Nexus::OnDataOut
  // follows, never from inside this call. One range outstanding per task.
  virtual TransferResult ReceiveDataOut(Task* task, uint32_t offset,
                                        uint8_t* to, uint32_t length) = 0;

  // Send Data-In: `from` to [offset, offset + length) of the data-in buffer,
  // offsets ascending without gaps. Never beyond Task::data_in_length.
  // Nexus::OnDataInSent follows when the memory may change again, never from
  // inside this call.
  virtual void SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                          uint32_t length) = 0;

  // Send Command Complete: the task's response part is final. The data of an
  // earlier SendDataIn goes first. With `length` > 0 the last data come along,
  // so that the port can merge data and status; no OnDataInSent for them: the
  // memory stays untouched until Nexus::Release.
  virtual void Complete(Task* task, uint32_t offset, const uint8_t* from,
                        uint32_t length) = 0;

  // The task was aborted (by task management, or by a reset from another
  // nexus). Outstanding transfers were cancelled before. With `respond`, the
  // status in the task (TASK ABORTED) is to be sent; else no response ever is.
  virtual void Aborted(Task* task, bool respond) = 0;

  // Cancels the task's outstanding transfers. Each still gets its callback,
  // with ok = false, soon, never from inside this call.
  virtual void CancelTransfers(Task* task) = 0;

  // An asynchronous event for this nexus, with fixed or descriptor sense data
  // (SCSI async event). May be ignored by ports that cannot report.
  virtual void AsyncEvent(uint64_t lun, const uint8_t* sense,
                          size_t length) = 0;

  // How many bytes have left for the initiator so far, of all tasks. Grows
  // while the initiator takes data.
  virtual uint64_t DataInTaken() const = 0;

  // The initiator keeps what others wait for, and there is no milder way, or it
  // may not be here any more; as `why` says. The port ends the I_T nexus soon
  // (Nexus::Close), never from inside the call. Once is enough.
  virtual void EndNexus(absl::string_view why) = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_TASK_H_
