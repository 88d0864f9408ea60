#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_OPTIONS_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "protocol/negotiation/target_login.h"

namespace skiff::protocol {

// The limits of each session of a target.
struct TargetSessionOptions {
  static constexpr uint32_t kMaxQueueDepth = 8192;

  uint32_t queue_depth = 128;  // Commands in the CmdSN window.
  // SCSI Commands with the I bit, beyond the window.
  uint32_t max_immediate_tasks = 16;
  uint32_t max_task_management = 16;  // Functions in progress.
  uint32_t max_text_bytes = 65536;    // Of one Text Request's key set.
  // Of the answer to one. As many as Skiff's initiator takes.
  uint32_t max_text_answer_bytes = 4u << 20;
  // A NOP-In ping is sent after this much silence in full feature phase, and
  // the session dropped when no answer comes in time. Zero turns pings off.
  absl::Duration nop_interval = absl::Seconds(30);
  absl::Duration nop_timeout = absl::Seconds(15);
  // Data that a WRITE was asked for must have come after this long, or the
  // session is dropped: they hold buffers that other sessions wait for. Zero:
  // never.
  absl::Duration data_out_timeout = absl::Seconds(60);
  // `login.max_unknown_keys` holds for text, too.
  TargetLogin::Limits login;

  // Slots for SCSI Commands. Twice the window: an initiator counts a command
  // until it has our answer, which may still wait to be sent; the session
  // counts it until it is answered.
  uint32_t max_tasks() const { return 2 * queue_depth + max_immediate_tasks; }
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_OPTIONS_H_
