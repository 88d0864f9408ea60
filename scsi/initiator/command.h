#ifndef SKIFF_SCSI_INITIATOR_COMMAND_H_
#define SKIFF_SCSI_INITIATOR_COMMAND_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace skiff::scsi {

// One SCSI command on its way to a logical unit. Owned by the caller, who keeps
// it and the memory it names alive until `done` ran. Reusable without
// allocation.
struct Command {
  static constexpr size_t kMaxSense = 252;
  // How the command is ordered among others (SAM-5 section 8.6).
  enum class Attribute : uint8_t {
    kUntagged,
    kSimple,
    kOrdered,
    kHeadOfQueue,
    kAca
  };
  // How the command ended, apart from its SCSI status.
  enum class Outcome : uint8_t {
    kPending,
    kCompleted,      // `status`, sense and residual are the device's answer.
    kTargetFailure,  // The target could not deliver a SCSI status.
    kAborted,        // By task management of our own.
    // The session ended and was not restored in time, or the command may have
    // been carried out and is not idempotent.
    kConnectionLost,
    // No answer in time. The target says that it has ended, after an abort or a
    // reset, ...
    kTimedOut,
    // ... or has not said so: the session ended first.
    kTimedOutWithSession,
    kProtocolError,  // The target broke the protocol; the session was dropped.
    kInvalid,  // Refused here: too long, bad CDB length ...; `done` still runs.
    kNotRegistered,  // Not sent: RDMA cannot use its memory (see the log).
  };

  // --- Request.
  uint64_t lun = 0;  // SAM-5 section 4.7, big-endian as a number.
  Attribute attribute = Attribute::kSimple;
  uint8_t cdb_length = 16;
  std::array<uint8_t, 32> cdb = {};
  const iovec* data_out = nullptr;
  int data_out_count = 0;
  uint32_t data_out_length = 0;
  const iovec* data_in = nullptr;
  int data_in_count = 0;
  uint32_t data_in_length = 0;
  // Carried out twice, it does the same and answers the same: a restored
  // session may repeat it. Not so COMPARE AND WRITE.
  bool idempotent = true;

  // --- Result.
  Outcome outcome = Outcome::kPending;
  uint8_t status = 0;
  uint8_t sense_length = 0;
  std::array<uint8_t, kMaxSense> sense;
  bool overflow = false;
  bool underflow = false;
  uint32_t residual =
      0;  // Of the only direction, or of data-out when bidirectional.
  uint32_t bidi_read_residual = 0;

  // Runs on the session's reactor, never from inside Submit(). May submit
  // again.
  void (*done)(Command* command) = nullptr;
  void* context = nullptr;  // The caller's.

  // --- The session's, while pending.
  uint32_t session_slot = ~0u;
  absl::Time session_lost;  // When, if a session was lost under it.
  Command* session_next = nullptr;
};

// What carries commands: an iSCSI session, or a test's double. One reactor.
class CommandPort {
 public:
  virtual ~CommandPort() = default;
  // Never refuses: commands beyond the window wait in order.
  virtual void Submit(Command* command) = 0;
  // Asks for the command to be aborted; `done` runs in any case.
  virtual void Abort(Command* command) = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_COMMAND_H_
