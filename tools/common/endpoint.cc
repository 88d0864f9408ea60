#include "tools/common/endpoint.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "protocol/negotiation/url.h"

namespace skiff::tools {
namespace {

constexpr char kTransportOption[] = "transport";

// Whether a transport that is named in a URL is what its scheme asks for.
absl::Status CheckNamed(const protocol::Url& url, absl::string_view wanted,
                        const transport::Registry* registry) {
  const bool rdma = url.scheme == "iser";
  if (registry == nullptr) {
    if (wanted == "verbs" || wanted == "libfabric") return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(kTransportOption, "=", wanted,
                     " is no RDMA transport; write verbs or "
                     "libfabric, or leave it out"));
  }
  const auto found = registry->Find(wanted);
  if (!found.ok()) return found.status();
  if (wanted != "auto" && (*found)->capabilities().rdma == rdma) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kTransportOption, "=", wanted, " is no transport of ",
      rdma ? "RDMA, which iser:// needs" : "byte streams, which iscsi:// needs",
      "; name another one, or leave it out"));
}

// Scheme and options of the transport's address.
absl::Status ChooseTransport(const protocol::Url& url,
                             const transport::Registry* registry,
                             transport::Address* portal) {
  portal->options = url.options;
  std::string wanted;
  if (const auto found = portal->options.find(kTransportOption);
      found != portal->options.end()) {
    wanted = found->second;
    portal->options.erase(found);
  }
  const bool may_choose =
      url.scheme == "iser" || (registry != nullptr && url.scheme == "iscsi");
  if (!may_choose && !wanted.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        url.scheme, ":// with ", kTransportOption, "=", wanted,
        ": only iser:// leaves a choice; write iser://, or leave it out"));
  }
  if (!wanted.empty()) {
    portal->scheme = wanted;
    return CheckNamed(url, wanted, registry);
  }
  if (url.scheme == "iscsi") {
    portal->scheme = "tcp";
  } else {
    portal->scheme = "auto";
    const char* policy = url.scheme == "iser" ? "require" : "prefer";
    if (!portal->options.emplace("rdma", policy).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rdma= in a URL of ", url.scheme,
          ":// contradicts the scheme; write iscsi:// for TCP, iser:// for "
          "RDMA, auto:// for RDMA if it can be had"));
    }
  }
  return absl::OkStatus();
}

absl::optional<protocol::ChapCredential> TakeTargetUser(
    std::map<std::string, std::string>* options) {
  const auto user = options->extract("target_user");
  const auto password = options->extract("target_password");
  if (user.empty() && password.empty()) return absl::nullopt;
  return protocol::ChapCredential{
      user.empty() ? "" : user.mapped(),
      protocol::ChapSecret(password.empty() ? "" : password.mapped())};
}

absl::StatusOr<std::vector<protocol::ChapAlgorithm>> TakeChapAlgorithms(
    std::map<std::string, std::string>* options) {
  std::vector<protocol::ChapAlgorithm> algorithms;
  const auto names = options->extract("chap_algorithms");
  if (names.empty()) return algorithms;
  for (const absl::string_view name : absl::StrSplit(names.mapped(), ',')) {
    const auto one = protocol::ParseChapAlgorithm(name);
    if (!one.ok() || absl::c_linear_search(algorithms, *one)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chap_algorithms=", names.mapped(), ": ",
                       one.ok() ? absl::StrCat(name, " is there twice")
                                : std::string(one.status().message())));
    }
    algorithms.push_back(*one);
  }
  return algorithms;
}

// In fe80::/10. All of its addresses have four digits first.
bool IsLinkLocal(absl::string_view host) {
  const std::string lower = absl::AsciiStrToLower(host.substr(0, 5));
  return lower.size() == 5 && absl::StartsWith(lower, "fe") &&
         absl::StrContains("89ab", lower[2]) && lower[4] == ':';
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text,
                                       const transport::Registry* registry) {
  absl::StatusOr<protocol::Url> url = protocol::ParseUrl(text);
  if (!url.ok()) return url.status();
  Endpoint endpoint;
  endpoint.user = {url->user, protocol::ChapSecret(url->password)};
  endpoint.target_user = TakeTargetUser(&url->options);
  auto algorithms = TakeChapAlgorithms(&url->options);
  if (!algorithms.ok()) return algorithms.status();
  endpoint.chap_algorithms = *std::move(algorithms);
  const absl::Status status = ChooseTransport(*url, registry, &endpoint.portal);
  if (!status.ok()) return status;
  // No machine can tell by which of its interfaces (RFC 4007 section 6).
  if (IsLinkLocal(url->portal.host) &&
      !absl::StrContains(url->portal.host, '%')) {
    return absl::InvalidArgumentError(absl::StrCat(
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

absl::StatusOr<absl::optional<protocol::ChapInitiatorOptions>> ChapOf(
    const Endpoint& endpoint) {
  if (endpoint.user.name.empty()) {
    if (!endpoint.target_user.has_value()) return absl::nullopt;
    return absl::InvalidArgumentError(
        "a target that has to authenticate itself (target_user, "
        "target_password) wants to know who asks: write user%password@ before "
        "the host");
  }
  if (endpoint.user.secret.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("user ", endpoint.user.name, " has no password"));
  }
  protocol::ChapInitiatorOptions chap;
  chap.self = endpoint.user;
  chap.target = endpoint.target_user;
  if (!endpoint.chap_algorithms.empty()) {
    chap.algorithms = endpoint.chap_algorithms;
  }
  const absl::Status valid = Validate(chap);
  if (!valid.ok()) return valid;
  return chap;
}

}  // namespace skiff::tools
