#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_STATE_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/codec/pdu.h"
#include "protocol/negotiation/parameters.h"
#include "scsi/target/nexus_state.h"

namespace skiff::protocol {

// What a session in full feature phase is that has no task, so that another
// process goes on with it (TargetSession::TakeState, TargetSession::Restore).
struct TargetSessionState {
  LoginIdentity identity;
  Parameters parameters;
  Isid isid = {};
  uint16_t cid = 0;
  uint16_t tsih = 0;

  // Numbering (RFC 7143 section 4.2.2).
  uint32_t exp_cmd_sn = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_stat_sn = 0;  // Of the last command.
  // CmdSNs from `exp_cmd_sn` on whose commands were aborted before they came.
  std::vector<uint32_t> aborted_cmd_sns;
  // What the initiator was told stays: a window does not shrink.
  uint32_t queue_depth = 0;
  uint32_t max_immediate_tasks = 0;

  // The last ping, whose answer may still come.
  uint32_t ping_tag = 0;
  bool ping_unanswered = false;

  uint64_t commands = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;

  std::optional<scsi::NexusState> nexus;  // None: it discovers.
  std::string unread;  // Of the connection: it was received and not handled.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_STATE_H_
