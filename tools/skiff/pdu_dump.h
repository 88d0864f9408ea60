#ifndef SKIFF_TOOLS_SKIFF_PDU_DUMP_H_
#define SKIFF_TOOLS_SKIFF_PDU_DUMP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace skiff::tools {

// The PDUs of a capture that --trace made, one a line (PduText()), in the order
// in which they were complete:
//
//   0.000123 127.0.0.1:41234 > 127.0.0.1:3260 Login Request ITT=0x1 ...
//
// What the capture says beside a PDU follows it after "  # ".
//
// The seconds count from the first packet. Each connection must be there from
// its login on, which says whether digests are to be passed over. A connection
// of which both ends are in the capture is there once. A direction whose bytes
// are no PDUs, or that ends within one, is told on a line of its own.
absl::StatusOr<std::string> DumpPdus(absl::string_view capture);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PDU_DUMP_H_
