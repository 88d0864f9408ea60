#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_TEST_UTIL_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session_harness.h"

namespace skiff::protocol {

// A PDU that was sent.
template <typename Pdu>
Pdu As(const WirePdu& wire) {
  Pdu pdu;
  EXPECT_TRUE(Decode(wire.bhs.data(), &pdu).ok());
  return pdu;
}

// A session of a target, and an initiator that sends what a test makes.
class TargetSessionTest : public ::testing::Test {
 protected:
  void Start(absl::string_view keys = "InitialR2T=No|",
             bool discovery = false) {
    harness_.reset();
    harness_ = std::make_unique<TargetSessionHarness>(options_);
    ASSERT_TRUE(harness_->Login(keys, discovery)) << harness_->close_reason();
    cmd_sn_ = 1;
    // The unit attention of a new nexus.
    if (!discovery) Send(TestUnitReady());
    harness_->TakePdus();
  }

  ScsiCommandPdu Command(uint8_t operation) {
    ScsiCommandPdu pdu;
    pdu.initiator_task_tag = next_tag_++;
    pdu.cmd_sn = cmd_sn_++;
    pdu.cdb[0] = operation;
    return pdu;
  }
  ScsiCommandPdu TestUnitReady() { return Command(0x00); }
  // READ(10) and WRITE(10).
  ScsiCommandPdu Transfer(bool write, uint32_t lba, uint16_t blocks) {
    ScsiCommandPdu pdu = Command(write ? 0x2a : 0x28);
    pdu.read = !write;
    pdu.write = write;
    pdu.expected_data_transfer_length = uint32_t{blocks} * 512;
    for (int i = 0; i < 4; ++i)
      pdu.cdb[2 + i] = static_cast<uint8_t>(lba >> (24 - 8 * i));
    pdu.cdb[7] = static_cast<uint8_t>(blocks >> 8);
    pdu.cdb[8] = static_cast<uint8_t>(blocks);
    return pdu;
  }
  template <typename Pdu>
  void Send(const Pdu& pdu, absl::string_view data = "") {
    harness_->Receive(ToWire(pdu, data));
  }
  // Exactly one PDU must have been sent, of this kind.
  template <typename Pdu>
  Pdu Answer(Opcode opcode) {
    const std::vector<WirePdu> pdus = harness_->TakePdus();
    EXPECT_EQ(pdus.size(), 1u);
    if (pdus.size() != 1 || pdus[0].opcode() != opcode) {
      ADD_FAILURE() << "expected " << OpcodeName(static_cast<uint8_t>(opcode));
      return Pdu();
    }
    data_ = pdus[0].data;
    return As<Pdu>(pdus[0]);
  }
  RejectPdu Rejected() { return Answer<RejectPdu>(Opcode::kReject); }
  void ExpectWorks() {
    Send(TestUnitReady());
    EXPECT_EQ(Answer<ScsiResponsePdu>(Opcode::kScsiResponse).status, 0);
  }

  TargetSessionHarness::Options options_;
  std::unique_ptr<TargetSessionHarness> harness_;
  uint32_t cmd_sn_ = 1;
  uint32_t next_tag_ = 100;
  std::string data_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_TEST_UTIL_H_
