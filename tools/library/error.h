#ifndef SKIFF_TOOLS_LIBRARY_ERROR_H_
#define SKIFF_TOOLS_LIBRARY_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace skiff::library {

// What a function of the C interface returns for an error: remembers the
// message for skiff_last_error(), and returns -`error`.
int Fail(int error, absl::string_view message);
// The same for a status that is not OK; OK is 0.
int Fail(const absl::Status& status);

// What skiff_last_error() returns.
const char* LastError();

// The negative errno of a status; 0 for OK. The errno that absl::ErrnoToStatus
// made a status of is not known any more: those come close.
int ErrorOf(const absl::Status& status);

// The same of an I/O or a command.
int IoErrorOf(const absl::Status& status);

// For another thread: copies that are made by copying share what they are made
// of, and ThreadSanitizer does not see how Debian's Abseil counts who does.
std::string MessageOf(const absl::Status& status);

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_ERROR_H_
