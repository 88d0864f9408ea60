#ifndef SKIFF_TOOLS_SKIFF_DOCTOR_DCB_H_
#define SKIFF_TOOLS_SKIFF_DOCTOR_DCB_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/skiff/doctor/facts.h"

// Data Center Bridging of an interface (IEEE 802.1Q), as its driver tells it
// over netlink (linux/dcbnl.h).

namespace skiff::tools {

// What can be asked for.
enum class DcbQuestion : uint8_t {
  kIeeePfc,  // Priorities with flow control, as IEEE 802.1Qbb has them.
  kCeePfc,   // The same, of what came before the standard.
  kDcbx,     // Who negotiates it.
};

// The message that asks. `interface` is shorter than IFNAMSIZ.
std::string DcbRequest(DcbQuestion question, absl::string_view interface);

// What the kernel has answered: for kDcbx bits of DCB_CAP_DCBX_*, and for the
// others a bit for each priority with flow control. kUnimplemented: the driver,
// or the kernel, does not say.
absl::StatusOr<uint8_t> ParseDcbAnswer(DcbQuestion question,
                                       absl::Span<const uint8_t> answer);

// Asks, and waits no longer than a second for each answer.
DcbFact ReadDcb(absl::string_view interface);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_DOCTOR_DCB_H_
