#ifndef SKIFF_TOOLS_COMMON_READ_FILE_H_
#define SKIFF_TOOLS_COMMON_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace skiff::tools {

// Of a configuration, wherever it comes from.
inline constexpr size_t kMaxFileBytes = 16u << 20;

// The contents of a small file, such as a configuration. It may be a pipe,
// which is waited for. Errors name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes = kMaxFileBytes);

// The same, of a regular file alone: what is in its place is not waited for.
// For those who have something else to do.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes = kMaxFileBytes);

// Until the end of a descriptor, which stays open. `name`: for errors.
absl::StatusOr<std::string> ReadDescriptor(int fd, const std::string& name,
                                           size_t max_bytes = kMaxFileBytes);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_READ_FILE_H_
