#include "transport/libfabric/datagram/handshake.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

constexpr uint8_t kMagic[4] = {'S', 'k', 'F', 'b'};

template <typename T>
void Put(uint8_t* to, T value) {
  for (size_t i = sizeof(T); i > 0; --i) {
    to[i - 1] = static_cast<uint8_t>(value);
    value = static_cast<T>(value >> 4 >> 4);
  }
}

template <typename T>
T Get(const uint8_t* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = (value << 8) | from[i];
  return static_cast<T>(value);
}

// What a message of a type may have besides its numbers.
struct Shape {
  bool to = false;
  bool count = false;
  bool machine = false;  // With what is to be found there.
  bool text = false;
  bool address = false;
  bool private_data = false;
};

// Null for a type that there is none of.
const Shape* ShapeOf(uint8_t type) {
  static constexpr Shape kConnect = {
      .machine = true, .text = true, .address = true, .private_data = true};
  static constexpr Shape kAccept = {.to = true,
                                    .machine = true,
                                    .text = true,
                                    .address = true,
                                    .private_data = true};
  static constexpr Shape kReject = {
      .to = true, .text = true, .private_data = true};
  static constexpr Shape kBare = {.to = true};
  static constexpr Shape kCounted = {.to = true, .count = true};
  switch (static_cast<HandshakeType>(type)) {
    case HandshakeType::kConnect:
      return &kConnect;
    case HandshakeType::kAccept:
      return &kAccept;
    case HandshakeType::kReject:
      return &kReject;
    case HandshakeType::kProbe:
    case HandshakeType::kDisconnected:
    case HandshakeType::kWake:
    case HandshakeType::kQuiet:
      return &kBare;
    case HandshakeType::kDisconnect:
    case HandshakeType::kCheck:
    case HandshakeType::kChecked:
    case HandshakeType::kSleeping:
      return &kCounted;
  }
  return nullptr;
}

struct Lengths {
  size_t text;
  size_t address;
  size_t private_data;
};

Lengths LengthsIn(const uint8_t* header) {
  return {Get<uint16_t>(header + 48), Get<uint16_t>(header + 50),
          Get<uint16_t>(header + 52)};
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a handshake of Skiff over libfabric: ", what));
}

absl::Status CheckLengths(const Shape& shape, const Lengths& lengths) {
  if (lengths.text > (shape.text ? kMaxHandshakeText : 0)) {
    return Wrong(absl::StrCat(lengths.text, " bytes of text"));
  }
  if (lengths.address > (shape.address ? kMaxHandshakeAddress : 0) ||
      (shape.address && lengths.address == 0)) {
    return Wrong(absl::StrCat(lengths.address, " bytes of address"));
  }
  if (lengths.private_data >
      (shape.private_data ? kMaxHandshakePrivateData : 0)) {
    return Wrong(absl::StrCat(lengths.private_data, " bytes of private data"));
  }
  return absl::OkStatus();
}

bool AllZero(absl::Span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::vector<uint8_t> EncodeHandshake(const HandshakeMessage& message) {
  assert(message.address.size() <= kMaxHandshakeAddress);
  assert(message.private_data.size() <= kMaxHandshakePrivateData);
  std::string text = message.text.substr(0, kMaxHandshakeText);
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return !absl::ascii_isprint(c); }, '?');
  std::vector<uint8_t> out(kHandshakeHeaderBytes);
  std::memcpy(out.data(), kMagic, sizeof(kMagic));
  out[4] = kHandshakeVersion;
  out[5] = static_cast<uint8_t>(message.type);
  Put<uint64_t>(&out[8], message.to);
  Put<uint64_t>(&out[16], message.from);
  Put<uint64_t>(&out[24], message.count);
  std::copy(message.host.begin(), message.host.end(), &out[32]);
  Put<uint16_t>(&out[48], static_cast<uint16_t>(text.size()));
  Put<uint16_t>(&out[50], static_cast<uint16_t>(message.address.size()));
  Put<uint16_t>(&out[52], static_cast<uint16_t>(message.private_data.size()));
  if (message.region_list) Put<uint32_t>(&out[56], *message.region_list + 1);
  out.insert(out.end(), text.begin(), text.end());
  out.insert(out.end(), message.address.begin(), message.address.end());
  out.insert(out.end(), message.private_data.begin(),
             message.private_data.end());
  return out;
}

absl::StatusOr<size_t> HandshakeLength(absl::Span<const uint8_t> header) {
  if (header.size() < kHandshakeHeaderBytes) return Wrong("it is too short");
  if (std::memcmp(header.data(), kMagic, sizeof(kMagic)) != 0) {
    return Wrong("it begins with something else");
  }
  if (header[4] != kHandshakeVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "the peer speaks version ", header[4],
        " of Skiff's handshake over libfabric, and this side ",
        kHandshakeVersion, "; use the same version of Skiff on both sides"));
  }
  const Shape* shape = ShapeOf(header[5]);
  if (shape == nullptr) return Wrong(absl::StrCat("type ", header[5]));
  if (!AllZero(header.subspan(6, 2)) || !AllZero(header.subspan(54, 2))) {
    return Wrong("reserved bytes are not 0");
  }
  const Lengths lengths = LengthsIn(header.data());
  absl::Status status = CheckLengths(*shape, lengths);
  if (!status.ok()) return status;
  return kHandshakeHeaderBytes + lengths.text + lengths.address +
         lengths.private_data;
}

absl::StatusOr<HandshakeMessage> DecodeHandshake(
    absl::Span<const uint8_t> bytes) {
  const auto length = HandshakeLength(bytes);
  if (!length.ok()) return length.status();
  if (*length != bytes.size()) return Wrong("its length is wrong");
  const Shape& shape = *ShapeOf(bytes[5]);
  HandshakeMessage out;
  out.type = static_cast<HandshakeType>(bytes[5]);
  out.to = Get<uint64_t>(&bytes[8]);
  out.from = Get<uint64_t>(&bytes[16]);
  out.count = Get<uint64_t>(&bytes[24]);
  std::copy_n(&bytes[32], out.host.size(), out.host.begin());
  if (out.from == 0 || (out.to != 0) != shape.to) {
    return Wrong("a number of the connection is wrong");
  }
  if (out.count != 0 && !shape.count) return Wrong("it counts something");
  if (!shape.machine && !AllZero(out.host)) return Wrong("it names a machine");
  if (const auto list = Get<uint32_t>(&bytes[56]); list != 0) {
    if (!shape.machine) return Wrong("it names a list of memory");
    out.region_list = list - 1;
  }
  const Lengths lengths = LengthsIn(bytes.data());
  const auto* text = reinterpret_cast<const char*>(&bytes[0]);
  out.text.assign(text + kHandshakeHeaderBytes, lengths.text);
  if (!std::all_of(out.text.begin(), out.text.end(),
                   [](unsigned char c) { return absl::ascii_isprint(c); })) {
    return Wrong("its text cannot be printed");
  }
  const auto* next = bytes.begin() + kHandshakeHeaderBytes + lengths.text;
  out.address.assign(next, next + lengths.address);
  next += lengths.address;
  out.private_data.assign(next, next + lengths.private_data);
  return out;
}

}  // namespace skiff::transport
