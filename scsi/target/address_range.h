#ifndef SKIFF_SCSI_TARGET_ADDRESS_RANGE_H_
#define SKIFF_SCSI_TARGET_ADDRESS_RANGE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace skiff::scsi {

// IP addresses with a common beginning, as in "10.0.0.0/8" or "fd00::/16".
class AddressRange {
 public:
  // A range, or one address. An IPv4 address that is written as IPv6
  // ("::ffff:10.0.0.1") is the IPv4 address. Errors say what to write.
  static absl::StatusOr<AddressRange> Parse(absl::string_view text);

  // Whether a numeric address is in it; a zone ("%eth0") does not count. What
  // is no IP address is in no range.
  bool Contains(absl::string_view address) const;
  // Whether all addresses of `other` are in it.
  bool Covers(const AddressRange& other) const;
  // Of the same addresses.
  bool operator==(const AddressRange&) const = default;
  // "10.0.0.0/8".
  std::string ToString() const;

 private:
  using Bytes = std::array<uint8_t, 16>;
  struct Ip {
    int family = 0;    // AF_INET or AF_INET6.
    Bytes bytes = {};  // Of IPv4, the first four.

    bool operator==(const Ip&) const = default;
  };

  static bool ParseIp(absl::string_view text, Ip* out);
  bool Begins(const Ip& ip) const;

  Ip first_;
  int prefix_ = 0;  // Bits.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_ADDRESS_RANGE_H_
