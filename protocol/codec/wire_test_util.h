#ifndef SKIFF_PROTOCOL_CODEC_WIRE_TEST_UTIL_H_
#define SKIFF_PROTOCOL_CODEC_WIRE_TEST_UTIL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {

// PDUs as bytes and back, for tests and fuzz targets, apart from the code that
// does so for connections.

struct WireDigests {
  bool header = false;
  bool data = false;
};

// A PDU as it travelled.
struct WirePdu {
  BhsFrame frame;
  Bhs bhs;
  std::string ahs;
  std::string data;

  Opcode opcode() const { return static_cast<Opcode>(frame.opcode); }
};

// One PDU's bytes: BHS (which gets its lengths here), AHS, digests, data and
// padding.
std::string WireOf(Bhs bhs, absl::string_view ahs, absl::string_view data,
                   WireDigests digests);

template <typename Pdu>
std::string ToWire(const Pdu& pdu, absl::string_view data = "",
                   WireDigests digests = {}) {
  Bhs bhs;
  Encode(pdu, bhs.data());
  return WireOf(bhs, "", data, digests);
}

// Cuts whole PDUs. An error says which is cut off, or has a wrong digest.
absl::StatusOr<std::vector<WirePdu>> ParseWire(absl::string_view wire,
                                               WireDigests digests = {});

// The same bytes for the same seed.
std::string RandomBytes(size_t size, uint32_t seed);

inline absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Moves bytes as a socket would: into as many of the spans as there are bytes
// for, and out of them up to a limit. CopyIn returns how many went.
size_t CopyIn(absl::string_view from, absl::Span<const iovec> to);
std::string CopyOut(absl::Span<const iovec> from, size_t limit = ~size_t{0});

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_WIRE_TEST_UTIL_H_
