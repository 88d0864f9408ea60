#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_HANDSHAKE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/libfabric/fabric/private_data_limit.h"

namespace skiff::transport {

// Connections over reliable datagrams (FI_EP_RDM), which have none of their
// own: what the two ends tell each other. Every message but kProbe goes over a
// TCP connection beside the fabric. All numbers are big-endian:
//
//    0  4  magic "SkFb"
//    4  1  version
//    5  1  type
//    6  2  0
//    8  8  to: the receiver's number of the connection; 0 in kConnect
//   16  8  from: the sender's
//   24  8  count
//   32 16  host
//   48  2  length of text
//   50  2  length of address
//   52  2  length of private data
//   54  2  0
//   56  4  1 + the descriptor of the sender's ShmRegionList, or 0
//   60     text, address, private data
enum class HandshakeType : uint8_t {
  kConnect = 1,
  kAccept = 2,
  kReject = 3,
  kProbe = 4,  // Over the fabric: it works, and these two ends use it.
  // The end, from both sides: each step needs the one before of both.
  kDisconnect = 5,    // The sender posts nothing any more.
  kDisconnected = 6,  // All that the receiver posted was done.
  kCheck = 7,
  kChecked = 8,   // All that was posted before the kCheck was seen.
  kSleeping = 9,  // The sender does not look at the fabric until kWake.
  kWake = 10,
  kQuiet = 11,  // The sender does not touch the receiver's memory any more.
};

struct HandshakeMessage {
  HandshakeType type = HandshakeType::kProbe;
  // Random, and never 0, so that what is left of an earlier connection, or
  // comes from somebody else, is not taken for this one's.
  uint64_t to = 0;
  uint64_t from = 0;
  // kDisconnect: messages that the sender has sent; kSleeping: that it has
  // received. kCheck: one-sided operations that it has posted; kChecked: that
  // it has served.
  uint64_t count = 0;
  // The machine as it runs since its last boot; kConnect and kAccept.
  std::array<uint8_t, 16> host = {};
  // The descriptor of its ShmRegionList, where the sender has one; kConnect and
  // kAccept.
  std::optional<uint32_t> region_list;
  std::string text;              // The provider; of a kReject: why, for people.
  std::vector<uint8_t> address;  // In the fabric; kConnect and kAccept.
  std::vector<uint8_t> private_data;  // And kReject.

  friend bool operator==(const HandshakeMessage& a, const HandshakeMessage& b) {
    return a.type == b.type && a.to == b.to && a.from == b.from &&
           a.count == b.count && a.host == b.host &&
           a.region_list == b.region_list && a.text == b.text &&
           a.address == b.address && a.private_data == b.private_data;
  }
};

inline constexpr uint8_t kHandshakeVersion = 3;
inline constexpr size_t kHandshakeHeaderBytes = 60;
inline constexpr size_t kMaxHandshakeText = 256;
inline constexpr size_t kMaxHandshakeAddress = 256;
inline constexpr size_t kMaxHandshakeBytes =
    kHandshakeHeaderBytes + kMaxHandshakeText + kMaxHandshakeAddress +
    kMaxHandshakePrivateData;

// The message must be one that DecodeHandshake() takes. Text is cut to its
// limit, and what cannot be printed in it becomes '?'.
std::vector<uint8_t> EncodeHandshake(const HandshakeMessage& message);

// How long the message is that begins with these kHandshakeHeaderBytes bytes.
// An error says what is wrong with the header.
absl::StatusOr<size_t> HandshakeLength(absl::Span<const uint8_t> header);

// `bytes` is one message, no more and no less.
absl::StatusOr<HandshakeMessage> DecodeHandshake(
    absl::Span<const uint8_t> bytes);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_HANDSHAKE_H_
