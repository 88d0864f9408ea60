#include <cassert>
#include <cstring>

#include "protocol/codec/endian.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_flags.h"

namespace skiff::protocol {
namespace {

// AHSLength and AHSType. AHSLength counts what follows them, the reserved byte
// included (RFC 7143 sections 11.2.2.2 and 11.2.2.3).
constexpr size_t kAhsHeader = 3;
constexpr size_t kBidiAhsLength = 5;

constexpr DecodeResult Invalid(const char* field) {
  return {DecodeResult::kInvalidField, field};
}

constexpr size_t Padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

DecodeResult DecodeSegment(uint8_t code, absl::Span<const uint8_t> body,
                           AhsView* out) {
  switch (code) {
    case kAhsExtendedCdb:
      if (!out->extended_cdb.empty()) return Invalid("AHSType");
      // "MUST NOT be used if the CDBLength is less than 17": the reserved byte
      // and at least one of the CDB.
      if (body.size() < 2) return Invalid("AHSLength");
      out->extended_cdb = body.subspan(1);
      return {};
    case kAhsBidiReadLength:
      if (out->has_bidi_read_length) return Invalid("AHSType");
      if (body.size() != kBidiAhsLength) return Invalid("AHSLength");
      out->has_bidi_read_length = true;
      out->bidi_read_length = Load32(body.data() + 1);
      return {};
    default:
      return Invalid("AHSType");
  }
}

size_t StoreAhsHeader(size_t length, uint8_t type, uint8_t* out) {
  Store16(static_cast<uint16_t>(length), out);
  out[2] = type;
  out[3] = 0;
  return 4;
}

}  // namespace

DecodeResult DecodeAhs(absl::Span<const uint8_t> ahs, AhsView* out) {
  *out = AhsView();
  if (ahs.size() % 4 != 0) return Invalid("TotalAHSLength");
  while (!ahs.empty()) {
    const size_t length = Load16(ahs.data());
    const size_t segment = Padded(kAhsHeader + length);
    if (segment > ahs.size()) return Invalid("AHSLength");
    const DecodeResult result = DecodeSegment(
        ahs[2] & kAhsCodeMask, ahs.subspan(kAhsHeader, length), out);
    if (!result.ok()) return result;
    ahs.remove_prefix(segment);
  }
  return {};
}

size_t EncodeAhs(const AhsView& ahs, uint8_t* out) {
  size_t used = 0;
  if (!ahs.extended_cdb.empty()) {
    const size_t length = ahs.extended_cdb.size() + 1;
    const size_t segment = Padded(kAhsHeader + length);
    assert(segment + (ahs.has_bidi_read_length ? 8 : 0) <= kMaxAhsBytes);
    StoreAhsHeader(length, kAhsExtendedCdb, out);
    std::memcpy(out + 4, ahs.extended_cdb.data(), ahs.extended_cdb.size());
    const size_t written = kAhsHeader + length;
    std::memset(out + written, 0, segment - written);
    used += segment;
  }
  if (ahs.has_bidi_read_length) {
    used += StoreAhsHeader(kBidiAhsLength, kAhsBidiReadLength, out + used);
    Store32(ahs.bidi_read_length, out + used);
    used += 4;
  }
  return used;
}

}  // namespace skiff::protocol
