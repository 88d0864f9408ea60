#ifndef SKIFF_TOOLS_SKIFF_BASE_ENDPOINT_H_
#define SKIFF_TOOLS_SKIFF_BASE_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/common/endpoint.h"

namespace skiff::tools {

// True for what is meant as a URL of a logical unit and not as a file's path.
bool IsUrl(absl::string_view text);

// Parses a URL that must name a portal, perhaps with a target, a target, or a
// logical unit; and no more than that, since more would be ignored. Usage
// errors show what is accepted.
absl::StatusOr<Endpoint> ParsePortal(const std::string& url);
absl::StatusOr<Endpoint> ParsePortalOrTarget(const std::string& url);
absl::StatusOr<Endpoint> ParseTarget(const std::string& url);
absl::StatusOr<Endpoint> ParseLun(const std::string& url);

// A secret in the environment is neither used nor ignored.
absl::Status RefuseSecrets();

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_ENDPOINT_H_
