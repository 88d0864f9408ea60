#ifndef SKIFF_SCSI_INITIATOR_PARSE_UTIL_H_
#define SKIFF_SCSI_INITIATOR_PARSE_UTIL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace skiff::scsi {

using Bytes = absl::Span<const uint8_t>;

// The error of a parser that needs `needed` bytes and has `data`.
inline absl::Status TooShort(absl::string_view what, Bytes data,
                             size_t needed) {
  return absl::DataLossError(absl::StrCat("the device returned ", data.size(),
                                          " bytes of ", what, ", at least ",
                                          needed, " are needed"));
}

// The part of `data` that a length field says is there: `header` bytes and
// `length` more, but never beyond what arrived.
inline Bytes Limit(Bytes data, size_t header, uint64_t length) {
  return data.subspan(
      0, static_cast<size_t>(std::min<uint64_t>(data.size(), header + length)));
}

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_PARSE_UTIL_H_
