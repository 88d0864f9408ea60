#include "transport/auto/auto_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

absl::Status Bad(const Address& address, const std::string& key,
                 absl::string_view accepted) {
  return absl::InvalidArgumentError(
      absl::StrCat(address.ToString(), ": option ", key, " must be ", accepted,
                   ", not \"", address.options.at(key), "\""));
}

}  // namespace

absl::StatusOr<AutoOptions> ParseAutoOptions(const Address& address,
                                             const AutoOptions& defaults) {
  AutoOptions out = defaults;
  for (const auto& [key, value] : address.options) {
    if (key == "rdma") {
      if (value == "require") {
        out.policy = RdmaPolicy::kRequire;
      } else if (value == "prefer") {
        out.policy = RdmaPolicy::kPrefer;
      } else if (value == "off") {
        out.policy = RdmaPolicy::kTcpOnly;
      } else {
        return Bad(address, key, "require, prefer or off");
      }
    } else if (key == "emulated") {
      if (value != "yes" && value != "no")
        return Bad(address, key, "yes or no");
      out.allow_emulated = value == "yes";
    } else if (key == "stagger") {
      if (!absl::ParseDuration(value, &out.stagger) ||
          out.stagger < absl::ZeroDuration()) {
        return Bad(address, key, "a duration such as 250ms");
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          address.ToString(), ": option \"", key,
          "\" is unknown; auto has rdma=, emulated= and stagger=. Options of "
          "one transport need its own scheme"));
    }
  }
  return out;
}

}  // namespace skiff::transport
