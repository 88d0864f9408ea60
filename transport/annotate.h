#ifndef SKIFF_TRANSPORT_ANNOTATE_H_
#define SKIFF_TRANSPORT_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace skiff::transport {

// `why` with `where` before its message; payloads stay.
absl::Status Annotate(const absl::Status& why, absl::string_view where);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_ANNOTATE_H_
