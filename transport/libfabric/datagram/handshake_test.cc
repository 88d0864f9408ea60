#include "transport/libfabric/datagram/handshake.h"

#include <optional>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

HandshakeMessage Message(HandshakeType type) {
  HandshakeMessage message;
  message.type = type;
  message.from = 0x0102030405060708;
  if (type != HandshakeType::kConnect) message.to = 0x1112131415161718;
  switch (type) {
    case HandshakeType::kConnect:
    case HandshakeType::kAccept:
      message.host = {9, 8, 7};
      message.region_list = 0;
      message.text = "tcp;ofi_rxm";
      message.address = {1, 2, 3};
      message.private_data = {4, 5, 6, 7};
      break;
    case HandshakeType::kReject:
      message.text = "another machine";
      message.private_data = {8};
      break;
    case HandshakeType::kDisconnect:
    case HandshakeType::kCheck:
    case HandshakeType::kChecked:
    case HandshakeType::kSleeping:
      message.count = 77;
      break;
    default:
      break;
  }
  return message;
}

class EveryType : public ::testing::TestWithParam<int> {
 protected:
  const HandshakeMessage message_ =
      Message(static_cast<HandshakeType>(GetParam()));
  std::vector<uint8_t> bytes_ = EncodeHandshake(message_);

  bool Taken() const { return DecodeHandshake(bytes_).ok(); }
};

TEST_P(EveryType, ComesBackAsItWas) {
  EXPECT_EQ(HandshakeLength(bytes_).value(), bytes_.size());
  const auto decoded = DecodeHandshake(bytes_);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, message_);
}

TEST_P(EveryType, NoOtherLengthIsTaken) {
  for (size_t length = 0; length < bytes_.size(); ++length) {
    EXPECT_FALSE(DecodeHandshake({bytes_.data(), length}).ok()) << length;
  }
  bytes_.push_back(0);
  EXPECT_FALSE(Taken());
}

TEST_P(EveryType, FieldsOfOtherTypesAreRefused) {
  const HandshakeType type = message_.type;
  const bool opens =
      type == HandshakeType::kConnect || type == HandshakeType::kAccept;
  HandshakeMessage changed = message_;
  changed.count = 78;
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(),
            message_.count != 0);
  changed = message_;
  changed.host[15] = 1;
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(), opens);
  changed = message_;
  changed.region_list = 0x01020304;
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(), opens);
  changed = message_;
  changed.text = "x";
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(),
            opens || type == HandshakeType::kReject);
  changed = message_;
  changed.address = {1};
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(), opens);
  changed = message_;
  changed.private_data = {1};
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(changed)).ok(),
            opens || type == HandshakeType::kReject);
}

TEST_P(EveryType, NumbersOfTheConnectionAreNeeded) {
  HandshakeMessage changed = message_;
  changed.from = 0;
  EXPECT_FALSE(DecodeHandshake(EncodeHandshake(changed)).ok());
  changed = message_;
  changed.to = message_.type == HandshakeType::kConnect ? 1 : 0;
  EXPECT_FALSE(DecodeHandshake(EncodeHandshake(changed)).ok());
}

TEST_P(EveryType, ReservedBytesMustBeZero) {
  for (const size_t offset : {6, 7, 54, 55}) {
    bytes_[offset] = 1;
    EXPECT_FALSE(Taken()) << offset;
    bytes_[offset] = 0;
  }
  EXPECT_TRUE(Taken());
}

INSTANTIATE_TEST_SUITE_P(Handshake, EveryType, ::testing::Range(1, 12));

TEST(HandshakeTest, AnotherVersionIsNamed) {
  std::vector<uint8_t> bytes =
      EncodeHandshake(Message(HandshakeType::kConnect));
  bytes[4] = kHandshakeVersion + 1;
  const auto length = HandshakeLength(bytes);
  EXPECT_EQ(length.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(length.status().message(), "version 4"))
      << length.status();
}

TEST(HandshakeTest, OtherProtocolsAreNotTakenForIt) {
  std::vector<uint8_t> bytes =
      EncodeHandshake(Message(HandshakeType::kConnect));
  bytes[0] = 'G';
  EXPECT_EQ(HandshakeLength(bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
  bytes[0] = 'S';
  for (const int type : {0, 12, 255}) {
    bytes[5] = static_cast<uint8_t>(type);
    EXPECT_FALSE(HandshakeLength(bytes).ok()) << type;
  }
}

TEST(HandshakeTest, AListOfMemoryMayBeMissing) {
  HandshakeMessage message = Message(HandshakeType::kAccept);
  message.region_list = 1023;
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(message)).value().region_list,
            1023u);
  message.region_list.reset();
  EXPECT_EQ(DecodeHandshake(EncodeHandshake(message)).value().region_list,
            std::nullopt);
}

TEST(HandshakeTest, LimitsHold) {
  HandshakeMessage message = Message(HandshakeType::kConnect);
  message.text.assign(kMaxHandshakeText, 't');
  message.address.assign(kMaxHandshakeAddress, 1);
  message.private_data.assign(kMaxHandshakePrivateData, 2);
  std::vector<uint8_t> bytes = EncodeHandshake(message);
  EXPECT_EQ(bytes.size(), kMaxHandshakeBytes);
  EXPECT_EQ(DecodeHandshake(bytes).value(), message);
  for (const size_t low_byte : {49, 51, 53}) {
    std::vector<uint8_t> longer = bytes;
    ++longer[low_byte];
    EXPECT_FALSE(HandshakeLength(longer).ok()) << low_byte;
  }
  message.address.clear();
  EXPECT_FALSE(DecodeHandshake(EncodeHandshake(message)).ok());
}

TEST(HandshakeTest, TextIsForPeople) {
  HandshakeMessage message = Message(HandshakeType::kReject);
  message.text = std::string("a\nb\0c", 5) + std::string(1000, 'x');
  std::vector<uint8_t> bytes = EncodeHandshake(message);
  const auto decoded = DecodeHandshake(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->text.substr(0, 5), "a?b?c");
  EXPECT_EQ(decoded->text.size(), kMaxHandshakeText);
  bytes[kHandshakeHeaderBytes] = '\n';
  EXPECT_FALSE(DecodeHandshake(bytes).ok());
}

}  // namespace
}  // namespace skiff::transport
