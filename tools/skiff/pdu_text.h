#ifndef SKIFF_TOOLS_SKIFF_PDU_TEXT_H_
#define SKIFF_TOOLS_SKIFF_PDU_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace skiff::tools {

// What a PDU says, in one line without its end: its name, and those of its
// fields that tell something. `bhs` is its 48 bytes; what cannot be decoded is
// named with the field at fault. The keys of a Login or Text PDU follow, each
// on an indented line of its own.
std::string PduText(const uint8_t* bhs, absl::string_view data);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PDU_TEXT_H_
