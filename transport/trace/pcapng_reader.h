#ifndef SKIFF_TRANSPORT_TRACE_PCAPNG_READER_H_
#define SKIFF_TRANSPORT_TRACE_PCAPNG_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::transport {

// The payload of one captured TCP segment.
struct CapturedSegment {
  absl::Time when;
  std::string from;  // Numeric `host:port` forms, IPv6 in brackets.
  std::string to;
  uint32_t sequence = 0;
  absl::string_view bytes;  // Points into what was read.
  std::string comment;
};

// Reads what pcapng.h writes, of either byte order. Blocks of other kinds, and
// packets that are not TCP over IP or have no payload, are passed over; a link
// type other than raw IP is an error, as is a block that is cut off or says
// that it holds more than it does. The error says where in the file.
absl::StatusOr<std::vector<CapturedSegment>> ReadPcapng(absl::string_view file);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRACE_PCAPNG_READER_H_
