#include "transport/backend.h"

#include "absl/strings/str_cat.h"

namespace skiff::transport {

absl::Status CheckConnect(const Address& address,
                          const ConnectOptions& options) {
  if (address.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot connect to ", address.ToString(),
                     ": port 0 is for listening only"));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot connect to ", address.ToString(), ": the timeout ",
                     absl::FormatDuration(options.timeout), " leaves no time"));
  }
  return absl::OkStatus();
}

absl::Status CheckListen(const Address& address, const ListenOptions& options) {
  if (options.backlog < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address.ToString(), ": backlog ",
                     options.backlog, " is less than 1"));
  }
  return absl::OkStatus();
}

}  // namespace skiff::transport
