#ifndef SKIFF_TOOLS_COMMON_READ_FILE_H_
#define SKIFF_TOOLS_COMMON_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace skiff::tools {

// The contents of a small file, such as a configuration or a password. Errors
// name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes = 16u << 20);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_READ_FILE_H_
