#include "transport/trace/pcapng.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/address.h"
#include "transport/trace/pcapng_format.h"

namespace skiff::transport {
namespace {

constexpr uint8_t kNanoseconds = 9;  // 10^-9.

constexpr uint8_t kTtl = 64;
constexpr uint16_t kDoNotFragment = 0x4000;
constexpr uint8_t kPushAndAck = 0x18;
constexpr uint16_t kWindow = 0xffff;

// Integers of a capture are in the byte order of who wrote it; those of packets
// are big-endian.
template <typename T>
void AppendNative(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}
void Append16(uint16_t value, std::string* out) {
  out->push_back(static_cast<char>(value >> 8));
  out->push_back(static_cast<char>(value));
}
void Append32(uint32_t value, std::string* out) {
  Append16(static_cast<uint16_t>(value >> 16), out);
  Append16(static_cast<uint16_t>(value), out);
}

void Pad(std::string* out) { out->resize((out->size() + 3) & ~size_t{3}); }

void AppendOption(uint16_t code, absl::string_view value, std::string* out) {
  AppendNative(code, out);
  AppendNative(static_cast<uint16_t>(value.size()), out);
  absl::StrAppend(out, value);
  Pad(out);
}

std::string Block(uint32_t type, absl::string_view body) {
  const auto length = static_cast<uint32_t>(body.size() + kBlockFrame);
  std::string block;
  AppendNative(type, &block);
  AppendNative(length, &block);
  absl::StrAppend(&block, body);
  AppendNative(length, &block);
  return block;
}

uint16_t Ipv4Checksum(absl::string_view header) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < header.size(); i += 2) {
    sum += (static_cast<uint8_t>(header[i]) << 8) |
           static_cast<uint8_t>(header[i + 1]);
  }
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(~sum);
}

// The address's bytes, or nothing if it is neither of the two kinds.
std::string AddressBytes(const std::string& host) {
  std::string bytes(16, '\0');
  const std::string numeric = host.substr(0, host.find('%'));
  if (inet_pton(AF_INET6, numeric.c_str(), bytes.data()) == 1) return bytes;
  if (inet_pton(AF_INET, numeric.c_str(), bytes.data()) == 1) {
    return bytes.substr(0, 4);
  }
  return {};
}

}  // namespace

std::string PcapngHeader() {
  std::string section;
  AppendNative(kByteOrderMagic, &section);
  AppendNative(uint16_t{1}, &section);  // Version 1.0.
  AppendNative(uint16_t{0}, &section);
  AppendNative(~uint64_t{0}, &section);  // The section's length is not known.
  std::string interface;
  AppendNative(kLinkTypeRaw, &interface);
  AppendNative(uint16_t{0}, &interface);
  AppendNative(uint32_t{0}, &interface);  // Packets are not cut.
  AppendOption(kOptionTimestampResolution, std::string(1, kNanoseconds),
               &interface);
  AppendOption(kOptionEnd, "", &interface);
  return absl::StrCat(Block(kSectionHeaderBlock, section),
                      Block(kInterfaceDescriptionBlock, interface));
}

absl::StatusOr<PcapngConversation> PcapngConversation::Create(
    absl::string_view local, absl::string_view peer) {
  PcapngConversation conversation;
  const std::pair<absl::string_view, Side*> sides[] = {
      {local, &conversation.local_}, {peer, &conversation.peer_}};
  size_t address_size = 0;
  for (const auto& [text, side] : sides) {
    const absl::StatusOr<Address> address =
        Address::Parse(absl::StrCat("tcp://", text));
    if (!address.ok()) return address.status();
    const std::string bytes = AddressBytes(address->host);
    if (bytes.empty() || (address_size != 0 && bytes.size() != address_size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a capture needs numeric addresses of one kind, not ",
                       local, " and ", peer));
    }
    address_size = bytes.size();
    std::copy(bytes.begin(), bytes.end(), side->address.begin());
    side->port = address->port;
  }
  conversation.v6_ = address_size == 16;
  return conversation;
}

std::string PcapngConversation::Packet(bool sent, absl::string_view bytes) {
  Side& from = sent ? local_ : peer_;
  const Side& to = sent ? peer_ : local_;
  const size_t address_size = v6_ ? 16 : 4;
  const auto append_address = [&](const Side& side, std::string* out) {
    out->append(reinterpret_cast<const char*>(side.address.data()),
                address_size);
  };
  const auto tcp_length = static_cast<uint16_t>(kTcpHeader + bytes.size());
  std::string packet;
  if (v6_) {
    Append32(0x60000000, &packet);
    Append16(tcp_length, &packet);
    packet.push_back(static_cast<char>(kIpProtocolTcp));
    packet.push_back(static_cast<char>(kTtl));
    append_address(from, &packet);
    append_address(to, &packet);
  } else {
    Append16(0x4500, &packet);
    Append16(static_cast<uint16_t>(20 + tcp_length), &packet);
    Append16(0, &packet);
    Append16(kDoNotFragment, &packet);
    packet.push_back(static_cast<char>(kTtl));
    packet.push_back(static_cast<char>(kIpProtocolTcp));
    Append16(0, &packet);
    append_address(from, &packet);
    append_address(to, &packet);
    const uint16_t checksum = Ipv4Checksum(packet);
    packet[10] = static_cast<char>(checksum >> 8);
    packet[11] = static_cast<char>(checksum);
  }
  Append16(from.port, &packet);
  Append16(to.port, &packet);
  Append32(from.next_sequence, &packet);
  Append32(to.next_sequence, &packet);
  packet.push_back(static_cast<char>((kTcpHeader / 4) << 4));
  packet.push_back(static_cast<char>(kPushAndAck));
  Append16(kWindow, &packet);
  Append16(0, &packet);  // The checksum; readers do not check it by default.
  Append16(0, &packet);
  absl::StrAppend(&packet, bytes);
  from.next_sequence += static_cast<uint32_t>(bytes.size());
  return packet;
}

std::string PcapngConversation::Data(bool sent, absl::Time when,
                                     absl::string_view bytes,
                                     absl::string_view comment) {
  const auto stamp = static_cast<uint64_t>(absl::ToUnixNanos(when));
  std::string blocks;
  while (!bytes.empty()) {
    const absl::string_view segment = bytes.substr(0, kMaxSegment);
    bytes.remove_prefix(segment.size());
    const std::string packet = Packet(sent, segment);
    const auto length = static_cast<uint32_t>(packet.size());
    std::string body;
    AppendNative(uint32_t{0}, &body);  // The interface.
    AppendNative(static_cast<uint32_t>(stamp >> 32), &body);
    AppendNative(static_cast<uint32_t>(stamp), &body);
    AppendNative(length, &body);
    AppendNative(length, &body);
    absl::StrAppend(&body, packet);
    Pad(&body);
    if (!comment.empty()) {
      AppendOption(kOptionComment, comment, &body);
      AppendOption(kOptionEnd, "", &body);
      comment = {};
    }
    absl::StrAppend(&blocks, Block(kEnhancedPacketBlock, body));
  }
  return blocks;
}

}  // namespace skiff::transport
