#include <gtest/gtest.h>

#include <set>
#include <string>

#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

TEST(PduNamesTest, Opcodes) {
  EXPECT_EQ(OpcodeName(0x01), "SCSI Command");
  EXPECT_EQ(OpcodeName(0x31), "R2T");
  EXPECT_EQ(OpcodeName(0x3f), "Reject");
  EXPECT_EQ(OpcodeName(0x1c), "0x1c (vendor-specific)");
  EXPECT_EQ(OpcodeName(0x3e), "0x3e (vendor-specific)");
  EXPECT_EQ(OpcodeName(0x07), "0x07 (unassigned)");
  EXPECT_EQ(OpcodeName(0xff), "0xff (unassigned)");
}

TEST(PduNamesTest, OpcodesAreDistinct) {
  std::set<std::string> names;
  for (int opcode = 0; opcode < 256; ++opcode) {
    names.insert(OpcodeName(static_cast<uint8_t>(opcode)));
  }
  EXPECT_EQ(names.size(), 256u);
}

TEST(PduNamesTest, LoginStatus) {
  EXPECT_EQ(LoginStatusName(0, 0), "success (0x0000)");
  EXPECT_EQ(LoginStatusName(2, 3), "target not found (0x0203)");
  EXPECT_EQ(LoginStatusName(3, 2), "out of resources (0x0302)");
  EXPECT_EQ(LoginStatusName(2, 0x77), "initiator error (0x0277)");
  EXPECT_EQ(LoginStatusName(1, 0x77), "redirection (0x0177)");
  EXPECT_EQ(LoginStatusName(9, 1), "unknown status class (0x0901)");
}

TEST(PduNamesTest, RejectReasons) {
  EXPECT_EQ(RejectReasonName(0x04), "protocol error (0x04)");
  EXPECT_EQ(RejectReasonName(0x0b), "negotiation reset (0x0b)");
  EXPECT_EQ(RejectReasonName(0x01), "unassigned reason (0x01)");
  std::set<std::string> names;
  for (uint8_t reason = 2; reason <= 0x0c; ++reason) {
    names.insert(RejectReasonName(reason).substr(0, 12));
  }
  EXPECT_EQ(names.size(), 11u);
}

}  // namespace
}  // namespace skiff::protocol
