#include "tools/skiff/base/endpoint.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/url.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr char kTransportOption[] = "transport";
constexpr char kPasswordVariable[] = "SKIFF_PASSWORD";

absl::Status NoAuthentication(absl::string_view given) {
  return UsageError(absl::StrCat(
      given,
      ": this program has no authentication (CHAP) yet; leave the credentials "
      "out to log in without"));
}

// Scheme and options of the transport's address.
absl::Status ChooseTransport(const protocol::Url& url,
                             transport::Address* portal) {
  portal->options = url.options;
  std::string wanted;
  if (const auto found = portal->options.find(kTransportOption);
      found != portal->options.end()) {
    wanted = found->second;
    portal->options.erase(found);
  }
  if (url.scheme != "iser" && !wanted.empty()) {
    return UsageError(absl::StrCat(
        url.scheme, ":// with ", kTransportOption, "=", wanted,
        ": only iser:// leaves a choice; write iser://, or leave it out"));
  }
  if (url.scheme == "iscsi") {
    portal->scheme = "tcp";
  } else if (!wanted.empty()) {
    if (wanted != "verbs" && wanted != "libfabric") {
      return UsageError(absl::StrCat(kTransportOption, "=", wanted,
                                     " is no RDMA transport; write verbs or "
                                     "libfabric, or leave it out"));
    }
    portal->scheme = wanted;
  } else {
    portal->scheme = "auto";
    const char* policy = url.scheme == "iser" ? "require" : "prefer";
    if (!portal->options.emplace("rdma", policy).second) {
      return UsageError(absl::StrCat(
          "rdma= in a URL of ", url.scheme,
          ":// contradicts the scheme; write iscsi:// for TCP, iser:// for "
          "RDMA, auto:// for RDMA if it can be had"));
    }
  }
  return absl::OkStatus();
}

// In fe80::/10. All of its addresses have four digits first.
bool IsLinkLocal(absl::string_view host) {
  const std::string lower = absl::AsciiStrToLower(host.substr(0, 5));
  return lower.size() == 5 && absl::StartsWith(lower, "fe") &&
         absl::StrContains("89ab", lower[2]) && lower[4] == ':';
}

absl::StatusOr<Endpoint> Parse(const std::string& text) {
  const absl::StatusOr<protocol::Url> url = protocol::ParseUrl(text);
  if (!url.ok()) return UsageError(url.status().message());
  if (!url->user.empty()) {
    return NoAuthentication(absl::StrCat("user ", url->user));
  }
  Endpoint endpoint;
  const absl::Status status = ChooseTransport(*url, &endpoint.portal);
  if (!status.ok()) return status;
  // No machine can tell by which of its interfaces (RFC 4007 section 6).
  if (IsLinkLocal(url->portal.host) &&
      !absl::StrContains(url->portal.host, '%')) {
    return UsageError(absl::StrCat(
        url->portal.host, " is a link-local address: write by which interface ",
        "it is reached, as in [", url->portal.host, "%25eth0]"));
  }
  endpoint.portal.host = url->portal.host;
  endpoint.portal.port = url->portal.port;
  endpoint.target = url->target;
  endpoint.has_lun = url->has_lun;
  endpoint.lun = url->lun;
  return endpoint;
}

// A portal alone is often written without the scheme.
std::string WithScheme(const std::string& url) {
  return IsUrl(url) ? url : absl::StrCat("iscsi://", url);
}

absl::StatusOr<Endpoint> WithoutLun(const std::string& url,
                                    absl::StatusOr<Endpoint> endpoint) {
  if (endpoint.ok() && endpoint->has_lun) {
    return UsageError(
        absl::StrCat(url, " names logical unit ", endpoint->lun,
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
        url, " names a target, but this is about the whole portal; write ",
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
        url, " names no target; write iscsi://host[:port]/target-name"));
  }
  return WithoutLun(url, std::move(endpoint));
}

absl::StatusOr<Endpoint> ParseLun(const std::string& url) {
  absl::StatusOr<Endpoint> endpoint = Parse(url);
  if (endpoint.ok() && !endpoint->has_lun) {
    return UsageError(absl::StrCat(
        url,
        " names no logical unit; write iscsi://host[:port]/target-name/lun"));
  }
  return endpoint;
}

absl::Status RefuseSecrets(const CommonOptions& options) {
  if (!options.password_file.empty()) {
    return NoAuthentication("--password-file");
  }
  if (std::getenv(kPasswordVariable) != nullptr) {
    return NoAuthentication(
        absl::StrCat("environment variable ", kPasswordVariable));
  }
  return absl::OkStatus();
}

}  // namespace skiff::tools
