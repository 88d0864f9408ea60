#include "scsi/target/address_range.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace skiff::scsi {
namespace {

// Of IPv4 addresses in IPv6, RFC 4291 section 2.5.5.2.
constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

int Bits(int family) { return family == AF_INET ? 32 : 128; }

}  // namespace

bool AddressRange::ParseIp(absl::string_view text, Ip* out) {
  const std::string address(text);
  *out = {};
  if (inet_pton(AF_INET, address.c_str(), out->bytes.data()) == 1) {
    out->family = AF_INET;
    return true;
  }
  out->family = AF_INET6;
  return inet_pton(AF_INET6, address.c_str(), out->bytes.data()) == 1;
}

absl::StatusOr<AddressRange> AddressRange::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  AddressRange range;
  // What is behind a NUL would not be looked at.
  if (parts.size() > 2 || text.find('\0') != absl::string_view::npos ||
      !ParseIp(parts[0], &range.first_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is no IP address and no range of them; write one such "
                     "as 10.0.0.1, 10.0.0.0/8 or fd00::/16"));
  }
  const int bits = Bits(range.first_.family);
  range.prefix_ = bits;
  if (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &range.prefix_) ||
                            range.prefix_ < 0 || range.prefix_ > bits)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' has a bad prefix length; it can be 0 to ", bits));
  }
  AddressRange clean = range;
  for (int bit = range.prefix_; bit < bits; ++bit) {
    clean.first_.bytes[bit / 8] &= static_cast<uint8_t>(~(0x80u >> (bit % 8)));
  }
  if (clean.first_.bytes != range.first_.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' has bits beyond its prefix length; write ",
                     clean.ToString(), " for that range, or ", parts[0],
                     " for the one address"));
  }
  if (range.first_.family == AF_INET6 && range.prefix_ >= kMappedBits &&
      std::equal(std::begin(kMapped), std::end(kMapped),
                 range.first_.bytes.begin())) {
    Ip v4{.family = AF_INET};
    std::copy_n(range.first_.bytes.begin() + 12, 4, v4.bytes.begin());
    range.first_ = v4;
    range.prefix_ -= kMappedBits;
  }
  return range;
}

bool AddressRange::Begins(const Ip& ip) const {
  if (ip.family != first_.family) return false;
  const int whole = prefix_ / 8;
  const int rest = prefix_ % 8;
  if (!std::equal(ip.bytes.begin(), ip.bytes.begin() + whole,
                  first_.bytes.begin())) {
    return false;
  }
  return rest == 0 ||
         ((ip.bytes[whole] ^ first_.bytes[whole]) >> (8 - rest)) == 0;
}

bool AddressRange::Contains(absl::string_view address) const {
  // An address is a range of one.
  const absl::StatusOr<AddressRange> one =
      Parse(address.substr(0, address.find('%')));
  return one.ok() && Covers(*one);
}

bool AddressRange::Covers(const AddressRange& other) const {
  return other.prefix_ >= prefix_ && Begins(other.first_);
}

std::string AddressRange::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(first_.family, first_.bytes.data(), text, sizeof(text));
  return absl::StrCat(text, "/", prefix_);
}

}  // namespace skiff::scsi
