#ifndef SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_TEST_UTIL_H_
#define SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_TEST_UTIL_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "protocol/datamover/initiator_datamover.h"
#include "protocol/negotiation/target_login.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {

// A datamover whose other end is the test.
class ScriptedDatamover final : public InitiatorDatamover {
 public:
  struct Control {
    Bhs bhs;
    std::string data;
    Opcode opcode() const { return static_cast<Opcode>(bhs[0] & 0x3f); }
  };
  struct Command {
    TaskSlot slot;
    ScsiCommandPdu pdu;
    std::string extended_cdb;
    uint32_t bidi_read_length = 0;
  };

  void SetClient(InitiatorDatamoverClient* c, uint32_t) override { client = c; }
  void EnableDatamover(const Parameters&) override { enabled = true; }
  void SendControl(const uint8_t* bhs, absl::Span<const uint8_t> data) override;
  absl::Status SendCommand(const OutgoingCommand& command) override;
  Progress DeallocateTaskResources(TaskSlot task) override;
  void ConnectionTerminate() override { terminated = true; }
  bool congested() const override { return is_congested; }
  ConnectionCounters counters() const override { return {}; }

  InitiatorDatamoverClient* client = nullptr;
  std::deque<Control> controls;
  std::deque<Command> commands;
  std::vector<TaskSlot> deallocated;
  bool hold_task_done = false;  // TaskDone is then the test's to call.
  absl::Status refusal;         // Of every command.
  bool is_congested = false;
  bool enabled = false;
  bool terminated = false;
};

// A session, the target's side of its PDUs, and time.
class InitiatorSessionTest : public testing::Test {
 protected:
  InitiatorSessionTest();

  // Sends the first request; a target answers.
  void Start();
  void AnswerLogin(LoginStatus status = LoginStatus::kSuccess);
  // Both; the session is in full feature phase with a window of `window`.
  void LogIn(uint32_t window = 8);

  // The oldest control PDU that was sent, decoded. Fails if it is another.
  template <typename Pdu>
  Pdu Sent(std::string* data = nullptr) {
    Pdu pdu;
    if (mover_.controls.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return pdu;
    }
    const DecodeResult result =
        Decode(mover_.controls.front().bhs.data(), &pdu);
    EXPECT_TRUE(result.ok()) << result.field;
    if (data != nullptr) *data = mover_.controls.front().data;
    mover_.controls.pop_front();
    return pdu;
  }

  // Delivers a PDU of the target. Fields that every response carries are
  // filled in; StatSN is used up unless `uses_stat_sn` is false.
  template <typename Pdu>
  void Deliver(Pdu pdu, const std::string& data = "",
               bool uses_stat_sn = true) {
    pdu.stat_sn = stat_sn_;
    if (uses_stat_sn) ++stat_sn_;
    pdu.exp_cmd_sn = exp_cmd_sn_;
    pdu.max_cmd_sn = max_cmd_sn_;
    DeliverRaw(pdu, data);
  }
  template <typename Pdu>
  void DeliverRaw(const Pdu& pdu, const std::string& data = "") {
    Bhs bhs;
    Encode(pdu, bhs.data());
    DeliverBhs(bhs, data);
  }
  void DeliverBhs(Bhs bhs, const std::string& data);

  // A command that reads or writes `length` bytes (each must outlive the test).
  scsi::Command* MakeRead(uint32_t length);
  scsi::Command* MakeWrite(uint32_t length);
  // Issues it, and returns what the datamover got.
  ScriptedDatamover::Command Issue(scsi::Command* command);
  // Answers an issued command.
  void Respond(const ScriptedDatamover::Command& to, uint8_t status = 0,
               const std::string& data = "");
  void Respond(const ScriptedDatamover::Command& to, ScsiResponsePdu response,
               const std::string& data = "");

  // Lets time pass and the session work.
  absl::Time Advance(absl::Duration by = absl::ZeroDuration());
  // Time passes, and the target was heard just now.
  absl::Time AdvanceHearing(absl::Duration by);
  // Runs the completion queue; returns the commands that completed.
  std::vector<scsi::Command*> Completed();

  void ExpectLost(InitiatorSession::Loss loss, const std::string& why);

  InitiatorSessionOptions options_;
  ScriptedDatamover mover_;
  CallbackQueue completions_;
  std::unique_ptr<InitiatorSession> session_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  absl::Time last_receive_ = now_;
  uint32_t stat_sn_ = 0xfffffffe;  // Wraps soon.
  uint32_t exp_cmd_sn_ = 0;
  uint32_t max_cmd_sn_ = 0;
  std::vector<std::string> log_;
  std::vector<scsi::Command*> completed_;

 private:
  scsi::Command* MakeCommand();

  std::deque<scsi::Command> storage_;
  std::deque<std::string> buffers_;
  std::deque<iovec> iovecs_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_INITIATOR_SESSION_TEST_UTIL_H_
