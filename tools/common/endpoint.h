#ifndef SKIFF_TOOLS_COMMON_ENDPOINT_H_
#define SKIFF_TOOLS_COMMON_ENDPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/address.h"
#include "transport/registry.h"

namespace skiff::tools {

// What a URL names: iscsi://host[:port][/target[/lun]][?key=value[&...]]. The
// scheme says how to get there: iscsi:// is TCP, iser:// RDMA, auto:// RDMA if
// it can be had, else TCP. `transport=` picks the transport of iser://; all
// other options are the transport's.
struct Endpoint {
  transport::Address portal;
  std::string target;  // Empty: the portal.
  bool has_lun = false;
  uint32_t lun = 0;
};

// Credentials are refused as long as there is nothing to use them for. With a
// registry, `transport=` may name any transport of it: one of byte streams for
// iscsi://, one of RDMA for iser://.
absl::StatusOr<Endpoint> ParseEndpoint(
    const std::string& text, const transport::Registry* registry = nullptr);

// Says that of `given`.
std::string NoAuthentication(absl::string_view given);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_ENDPOINT_H_
