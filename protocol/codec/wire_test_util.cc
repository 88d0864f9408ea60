#include "protocol/codec/wire_test_util.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/digest.h"

namespace skiff::protocol {
namespace {

std::string DigestOf(absl::string_view covered) {
  uint8_t digest[kDigestSize];
  StoreDigest(
      FinishDigest(ExtendDigest(kDigestInit, covered.data(), covered.size())),
      digest);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

// Takes a part that a digest may follow off the front of `*wire`; false when it
// is cut off, or the digest is wrong.
bool TakePart(size_t size, bool digest, absl::string_view* wire,
              absl::string_view* part) {
  if (wire->size() < size + (digest ? kDigestSize : 0)) return false;
  *part = wire->substr(0, size);
  wire->remove_prefix(size);
  if (!digest) return true;
  const absl::string_view found = wire->substr(0, kDigestSize);
  wire->remove_prefix(kDigestSize);
  return found == DigestOf(*part);
}

}  // namespace

std::string WireOf(Bhs bhs, absl::string_view ahs, absl::string_view data,
                   WireDigests digests) {
  EncodeLengths(bhs.data(), ahs.size(), static_cast<uint32_t>(data.size()));
  std::string wire(bhs.begin(), bhs.end());
  absl::StrAppend(&wire, ahs);
  if (digests.header) wire += DigestOf(wire);
  const std::string padded =
      absl::StrCat(data, std::string(PaddingFor(data.size()), '\0'));
  wire += padded;
  if (digests.data && !data.empty()) wire += DigestOf(padded);
  return wire;
}

absl::StatusOr<std::vector<WirePdu>> ParseWire(absl::string_view wire,
                                               WireDigests digests) {
  std::vector<WirePdu> pdus;
  while (!wire.empty()) {
    const auto bad = [&pdus](absl::string_view part) {
      return absl::DataLossError(
          absl::StrCat("the ", part, " of PDU ", pdus.size(),
                       " is cut off, or its digest is wrong"));
    };
    if (wire.size() < kBhsSize) return bad("header");
    WirePdu pdu;
    std::copy_n(wire.begin(), kBhsSize, pdu.bhs.begin());
    pdu.frame = DecodeFrame(pdu.bhs.data());
    absl::string_view part;
    if (!TakePart(kBhsSize + pdu.frame.ahs_bytes, digests.header, &wire,
                  &part)) {
      return bad("header");
    }
    pdu.ahs = std::string(part.substr(kBhsSize));
    const uint32_t length = pdu.frame.data_segment_length;
    if (!TakePart(length + PaddingFor(length), digests.data && length > 0,
                  &wire, &part)) {
      return bad("data segment");
    }
    pdu.data = std::string(part.substr(0, length));
    pdus.push_back(std::move(pdu));
  }
  return pdus;
}

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

size_t CopyIn(absl::string_view from, absl::Span<const iovec> to) {
  size_t done = 0;
  for (const iovec& span : to) {
    const size_t n = std::min(span.iov_len, from.size() - done);
    std::copy_n(from.data() + done, n, static_cast<char*>(span.iov_base));
    done += n;
  }
  return done;
}

std::string CopyOut(absl::Span<const iovec> from, size_t limit) {
  std::string out;
  for (const iovec& span : from) {
    out.append(static_cast<const char*>(span.iov_base),
               std::min(span.iov_len, limit - out.size()));
  }
  return out;
}

}  // namespace skiff::protocol
