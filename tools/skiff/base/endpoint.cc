#include "tools/skiff/base/endpoint.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/portal.h"
#include "protocol/negotiation/url.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr char kPasswordVariable[] = "SKIFF_PASSWORD";

absl::StatusOr<Endpoint> Parse(const std::string& text) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) return UsageError(endpoint.status().message());
  return endpoint;
}

// A portal alone is often written without the scheme.
std::string WithScheme(const std::string& url) {
  return IsUrl(url) ? url : absl::StrCat("iscsi://", url);
}

absl::StatusOr<Endpoint> WithoutLun(const std::string& url,
                                    absl::StatusOr<Endpoint> endpoint) {
  if (endpoint.ok() && endpoint->has_lun) {
    return UsageError(absl::StrCat(
        protocol::WithoutPasswords(url), " names logical unit ", endpoint->lun,
        ", but this is not about one; leave it out"));
  }
  return endpoint;
}

}  // namespace

bool IsUrl(absl::string_view text) { return absl::StrContains(text, "://"); }

absl::StatusOr<Endpoint> ParsePortal(const std::string& url) {
  absl::StatusOr<Endpoint> endpoint = Parse(WithScheme(url));
  if (endpoint.ok() && !endpoint->target.empty()) {
    return UsageError(absl::StrCat(
        protocol::WithoutPasswords(url),
        " names a target, but this is about the whole portal; write ",
        protocol::FormatPortal(
            {endpoint->portal.host, endpoint->portal.port})));
  }
  return endpoint;
}

absl::StatusOr<Endpoint> ParsePortalOrTarget(const std::string& url) {
  return WithoutLun(url, Parse(WithScheme(url)));
}

absl::StatusOr<Endpoint> ParseTarget(const std::string& url) {
  absl::StatusOr<Endpoint> endpoint = Parse(url);
  if (endpoint.ok() && endpoint->target.empty()) {
    return UsageError(absl::StrCat(
        protocol::WithoutPasswords(url),
        " names no target; write iscsi://host[:port]/target-name"));
  }
  return WithoutLun(url, std::move(endpoint));
}

absl::StatusOr<Endpoint> ParseLun(const std::string& url) {
  absl::StatusOr<Endpoint> endpoint = Parse(url);
  if (endpoint.ok() && !endpoint->has_lun) {
    return UsageError(absl::StrCat(
        protocol::WithoutPasswords(url),
        " names no logical unit; write iscsi://host[:port]/target-name/lun"));
  }
  return endpoint;
}

absl::Status RefuseSecrets() {
  if (std::getenv(kPasswordVariable) == nullptr) return absl::OkStatus();
  return UsageError(absl::StrCat(
      "environment variable ", kPasswordVariable,
      ": other programs can see it; write the password to a file, and give "
      "--password-file"));
}

}  // namespace skiff::tools
