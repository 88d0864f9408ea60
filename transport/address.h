#ifndef SKIFF_TRANSPORT_ADDRESS_H_
#define SKIFF_TRANSPORT_ADDRESS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace skiff::transport {

// Where to listen or connect: `scheme://host:port[?key=value&...]`, for example
// `tcp://127.0.0.1:3260`, `tcp://[::1]:3260`,
// `libfabric://10.0.0.1:3260?provider=tcp`. The scheme names a transport of the
// registry; the options are that transport's.
struct Address {
  std::string scheme;
  std::string host;  // Name or literal; IPv6 literals without their brackets.
  uint16_t port = 0;
  std::map<std::string, std::string> options;

  // Parses `uri`. `default_port` is used when the URI has none. Errors say
  // which part is wrong.
  static absl::StatusOr<Address> Parse(absl::string_view uri,
                                       uint16_t default_port = 3260);

  // The URI form; IPv6 literals get their brackets back.
  std::string ToString() const;
  // `host:port` as iSCSI's TargetAddress writes it (RFC 7143 section 13.8).
  std::string HostPort() const;

  // Whether who can use one of the two can use the other in the same way: same
  // transport, and same provider below it.
  bool SameTransport(const Address& other) const;

  friend bool operator==(const Address& a, const Address& b) {
    return a.scheme == b.scheme && a.host == b.host && a.port == b.port &&
           a.options == b.options;
  }
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_ADDRESS_H_
