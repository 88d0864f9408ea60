#include "protocol/codec/iser_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes HeaderBytes(const IserControlHeader& header) {
  Bytes bytes(kIserHeaderSize, 0xee);
  Encode(header, bytes.data());
  return bytes;
}

// A command with `ahs` and `data`, and `trailing` bytes after it.
Bytes Message(const IserControlHeader& header, size_t ahs_bytes,
              uint32_t data_bytes, size_t trailing) {
  Bytes message = HeaderBytes(header);
  ScsiCommandPdu command;
  command.initiator_task_tag = 0x12345678;
  Bhs bhs;
  Encode(command, bhs.data());
  EncodeLengths(bhs.data(), ahs_bytes, data_bytes);
  message.insert(message.end(), bhs.begin(), bhs.end());
  message.insert(message.end(), ahs_bytes, 0xa5);
  message.insert(message.end(), data_bytes, 0xda);
  message.insert(message.end(), trailing, 0x00);
  return message;
}

void ExpectBadLength(const Bytes& message, absl::string_view problem) {
  IserMessage decoded;
  const IserDecodeResult result = DecodeIserMessage(message, &decoded);
  EXPECT_EQ(result.code, IserDecodeResult::kLength);
  EXPECT_EQ(result.problem, problem);
}

TEST(IserHeaderTest, EncodesTheBytesOfFigure3) {
  IserControlHeader header;
  header.write_stag_valid = true;
  header.write_stag = 0x01020304;
  header.write_base_offset = 0x1112131415161718;
  header.read_stag_valid = true;
  header.read_stag = 0x21222324;
  header.read_base_offset = 0x3132333435363738;
  EXPECT_EQ(
      HeaderBytes(header),
      (Bytes{0x1c, 0,    0,    0,                                // Flags.
             0x01, 0x02, 0x03, 0x04,                             // Write.
             0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,     // Offset.
             0x21, 0x22, 0x23, 0x24,                             // Read.
             0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38}));  // Offset.
}

TEST(IserHeaderTest, WritesZerosForStagsThatAreNotValid) {
  IserControlHeader header;
  header.write_stag = 1;
  header.write_base_offset = 2;
  header.read_stag = 3;
  header.read_base_offset = 4;
  Bytes expected(kIserHeaderSize, 0);
  expected[0] = 0x10;
  EXPECT_EQ(HeaderBytes(header), expected);
}

TEST(IserHeaderTest, DecodesOneDirectionOnly) {
  IserControlHeader header;
  header.read_stag_valid = true;
  header.read_stag = 7;
  header.read_base_offset = 0xfedcba9876543210;
  IserMessage decoded;
  ASSERT_TRUE(DecodeIserMessage(Message(header, 0, 0, 0), &decoded).ok());
  EXPECT_EQ(decoded.opcode, IserOpcode::kControl);
  EXPECT_FALSE(decoded.control.write_stag_valid);
  EXPECT_TRUE(decoded.control.read_stag_valid);
  EXPECT_EQ(decoded.control.read_stag, 7u);
  EXPECT_EQ(decoded.control.read_base_offset, 0xfedcba9876543210u);
}

TEST(IserHeaderTest, IgnoresStagsWithoutTheirFlagAndReservedBits) {
  Bytes message = Message({}, 0, 0, 0);
  message[0] |= 0x03;
  std::fill(message.begin() + 1, message.begin() + kIserHeaderSize, 0xff);
  IserMessage decoded;
  ASSERT_TRUE(DecodeIserMessage(message, &decoded).ok());
  EXPECT_FALSE(decoded.control.write_stag_valid);
  EXPECT_FALSE(decoded.control.read_stag_valid);
  EXPECT_EQ(decoded.control.write_stag, 0u);
  EXPECT_EQ(decoded.control.write_base_offset, 0u);
  EXPECT_EQ(decoded.control.read_stag, 0u);
  EXPECT_EQ(decoded.control.read_base_offset, 0u);
}

TEST(IserHeaderTest, CutsAMessageIntoItsParts) {
  for (size_t trailing = 0; trailing <= 3; ++trailing) {
    const Bytes message = Message({}, 8, 5, trailing);
    IserMessage decoded;
    ASSERT_TRUE(DecodeIserMessage(message, &decoded).ok()) << trailing;
    EXPECT_EQ(decoded.bhs, message.data() + kIserHeaderSize);
    EXPECT_EQ(decoded.frame.opcode, static_cast<int>(Opcode::kScsiCommand));
    EXPECT_EQ(decoded.frame.initiator_task_tag, 0x12345678u);
    EXPECT_EQ(Bytes(decoded.ahs.begin(), decoded.ahs.end()), Bytes(8, 0xa5));
    EXPECT_EQ(Bytes(decoded.data.begin(), decoded.data.end()), Bytes(5, 0xda));
  }
}

TEST(IserHeaderTest, RefusesLengthsThatDoNotMatchTheMessage) {
  ExpectBadLength({}, "the iSER header is cut short");
  ExpectBadLength(Bytes(kIserHeaderSize - 1, 0x10),
                  "the iSER header is cut short");
  Bytes message = Message({}, 0, 0, 0);
  message.pop_back();
  ExpectBadLength(message, "the Basic Header Segment is cut short");
  message = Message({}, 8, 0, 0);
  message.pop_back();
  ExpectBadLength(message, "TotalAHSLength is more than was received");
  message = Message({}, 8, 1, 0);
  message.pop_back();
  ExpectBadLength(message, "DataSegmentLength is more than was received");
  ExpectBadLength(Message({}, 8, 4, 4),
                  "DataSegmentLength is less than was received");
}

TEST(IserHeaderTest, RefusesUnassignedOpcodes) {
  for (uint8_t opcode = 0; opcode < 16; ++opcode) {
    if (opcode >= 1 && opcode <= 3) continue;
    Bytes message = Message({}, 0, 0, 0);
    message[0] = static_cast<uint8_t>(opcode << 4);
    IserMessage decoded;
    EXPECT_EQ(DecodeIserMessage(message, &decoded).code,
              IserDecodeResult::kWrongOpcode);
  }
}

TEST(IserHeaderTest, EncodesAndDecodesAHello) {
  Bytes bytes(kIserHeaderSize, 0xee);
  Encode(IserHello{.iser_ird = 0x0102}, bytes.data());
  Bytes expected(kIserHeaderSize, 0);
  std::copy_n(Bytes{0x20, 0xaa, 0x01, 0x02}.begin(), 4, expected.begin());
  EXPECT_EQ(bytes, expected);

  bytes[1] = 0xb9;
  IserMessage decoded;
  ASSERT_TRUE(DecodeIserMessage(bytes, &decoded).ok());
  EXPECT_EQ(decoded.opcode, IserOpcode::kHello);
  EXPECT_EQ(decoded.hello.max_version, 11);
  EXPECT_EQ(decoded.hello.min_version, 9);
  EXPECT_EQ(decoded.hello.iser_ird, 0x0102);

  bytes.push_back(0);
  ExpectBadLength(bytes, "an iSER Hello is a header and nothing else");
}

TEST(IserHeaderTest, EncodesAndDecodesAHelloReply) {
  for (const bool reject : {false, true}) {
    Bytes bytes(kIserHeaderSize, 0xee);
    Encode(IserHelloReply{.reject = reject, .iser_ord = 0xfffe}, bytes.data());
    EXPECT_EQ(bytes[0], reject ? 0x31 : 0x30);
    EXPECT_EQ(bytes[1], 0xaa);
    IserMessage decoded;
    ASSERT_TRUE(DecodeIserMessage(bytes, &decoded).ok());
    EXPECT_EQ(decoded.opcode, IserOpcode::kHelloReply);
    EXPECT_EQ(decoded.hello_reply.reject, reject);
    EXPECT_EQ(decoded.hello_reply.max_version, kIserVersion);
    EXPECT_EQ(decoded.hello_reply.current_version, kIserVersion);
    EXPECT_EQ(decoded.hello_reply.iser_ord, 0xfffe);
    bytes.push_back(0);
    ExpectBadLength(bytes, "an iSER HelloReply is a header and nothing else");
  }
}

TEST(IserHeaderTest, ComparesVersions) {
  EXPECT_TRUE(IserVersionsOverlap(10, 10));
  EXPECT_TRUE(IserVersionsOverlap(1, 15));
  EXPECT_FALSE(IserVersionsOverlap(11, 15));
  EXPECT_FALSE(IserVersionsOverlap(1, 9));
  EXPECT_FALSE(IserVersionsOverlap(11, 9));
}

TEST(IserHeaderTest, NamesOpcodes) {
  EXPECT_EQ(IserOpcodeName(1), "iSCSI control-type PDU");
  EXPECT_EQ(IserOpcodeName(2), "iSER Hello");
  EXPECT_EQ(IserOpcodeName(3), "iSER HelloReply");
  EXPECT_EQ(IserOpcodeName(15), "0xf (unassigned)");
}

}  // namespace
}  // namespace skiff::protocol
