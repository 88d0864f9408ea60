#ifndef SKIFF_PROTOCOL_SESSION_COMMAND_WINDOW_H_
#define SKIFF_PROTOCOL_SESSION_COMMAND_WINDOW_H_

#include <cstdint>

#include "protocol/codec/serial.h"

namespace skiff::protocol {

// The initiator's CmdSN, ExpCmdSN and MaxCmdSN (RFC 7143 section 4.2.2.1).
class CommandWindow {
 public:
  explicit CommandWindow(uint32_t initial_cmd_sn)
      : cmd_sn_(initial_cmd_sn),
        exp_cmd_sn_(initial_cmd_sn),
        max_cmd_sn_(initial_cmd_sn - 1) {}

  // The next command may be sent.
  bool open() const { return SerialLessEqual(cmd_sn_, max_cmd_sn_); }
  uint32_t cmd_sn() const { return cmd_sn_; }
  uint32_t exp_cmd_sn() const { return exp_cmd_sn_; }
  uint32_t max_cmd_sn() const { return max_cmd_sn_; }

  // Takes the number for a command that is not immediate.
  uint32_t Take() { return cmd_sn_++; }
  // It was not sent.
  void GiveBack() { --cmd_sn_; }

  // What a PDU of the target said. Returns false if it acknowledges commands
  // that were never sent.
  bool Update(uint32_t exp_cmd_sn, uint32_t max_cmd_sn) {
    if (SerialLess(max_cmd_sn, exp_cmd_sn - 1)) return true;  // Both ignored.
    if (SerialLess(cmd_sn_, exp_cmd_sn)) return false;
    if (SerialLess(max_cmd_sn_, max_cmd_sn)) max_cmd_sn_ = max_cmd_sn;
    if (SerialLess(exp_cmd_sn_, exp_cmd_sn)) exp_cmd_sn_ = exp_cmd_sn;
    return true;
  }

 private:
  uint32_t cmd_sn_;
  uint32_t exp_cmd_sn_;
  uint32_t max_cmd_sn_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_COMMAND_WINDOW_H_
