#ifndef SKIFF_PROTOCOL_SESSION_SESSION_TIMEOUTS_H_
#define SKIFF_PROTOCOL_SESSION_SESSION_TIMEOUTS_H_

#include "absl/time/time.h"

namespace skiff::protocol {

// How long an initiator waits for its target. Zero: for ever, or as it says.
struct SessionTimeouts {
  absl::Duration login_timeout = absl::Seconds(15);
  absl::Duration logout_timeout = absl::Seconds(5);
  // NOP-Out pings after this much silence; no answer in `nop_timeout` drops the
  // connection. Zero turns pings off.
  absl::Duration nop_interval = absl::Seconds(5);
  absl::Duration nop_timeout = absl::Seconds(5);
  // A command without an answer for this long is aborted (ABORT TASK, then
  // LOGICAL UNIT RESET, then the session is dropped). A session is dropped,
  // too, whose target takes none for this long, or sends other things instead
  // of the answer to a ping. Zero: never.
  absl::Duration command_timeout = absl::Seconds(60);
  // How long each task management request may take.
  absl::Duration task_management_timeout = absl::Seconds(10);
  // For each Text Request, such as those of SendTargets(), and for all of an
  // answer, which can take many.
  absl::Duration text_timeout = absl::Seconds(10);
  absl::Duration text_answer_timeout = absl::Seconds(60);
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_SESSION_TIMEOUTS_H_
