#ifndef SKIFF_PROTOCOL_SESSION_INITIATOR_REQUEST_H_
#define SKIFF_PROTOCOL_SESSION_INITIATOR_REQUEST_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/datamover.h"

namespace skiff::protocol {

// A request of our own other than a SCSI command.
struct InitiatorRequest {
  using StatusCallback = absl::AnyInvocable<void(absl::Status)>;
  using TextCallback = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;

  enum class Kind : uint8_t { kPing, kText, kTaskManagement, kLogout };
  Kind kind = Kind::kPing;
  StatusCallback done;    // May be null.
  bool own_idea = false;  // Nobody asked for it.
  bool unsent = false;    // Waits until the target has room for it.
  absl::Time deadline = absl::InfiniteFuture();
  // The same, which what the target sends meanwhile does not move.
  absl::Time answer_by = absl::InfiniteFuture();
  // Task management.
  TaskManagementFunction function = TaskManagementFunction::kAbortTask;
  Lun lun = 0;
  uint32_t cmd_sn = 0;
  uint32_t referenced_tag = kReservedTag;
  uint32_t ref_cmd_sn = 0;
  // Text.
  TextCallback text_done;
  std::string text;  // The keys until they are sent, then the answer.
  uint32_t exchanges = 0;
  uint32_t target_transfer_tag = kReservedTag;  // Of the next request.
  // Logout.
  LogoutRequestPdu::Reason reason = LogoutRequestPdu::kCloseSession;
  uint16_t cid = 0;
};
// Requests of which the target gets one at a time.
struct InitiatorRequestLane {
  TaskSlot slot = kNoTask;
  uint16_t generation = 0;
  std::optional<InitiatorRequest> current;
  std::deque<InitiatorRequest> waiting;

  bool empty() const { return !current.has_value() && waiting.empty(); }
  uint32_t tag() const { return MakeTag(slot, generation); }
  uint32_t NextTag() { return MakeTag(slot, ++generation); }
  bool Owns(uint32_t tag) const {
    return current.has_value() && !current->unsent && tag == this->tag();
  }
  // The tag of a request that was given up not long ago.
  bool Retired(uint32_t tag) const {
    const auto age = static_cast<uint16_t>(generation - (tag >> 16));
    return SlotOfTag(tag) == slot && age < 64;
  }
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_INITIATOR_REQUEST_H_
