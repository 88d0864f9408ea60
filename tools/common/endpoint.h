#ifndef SKIFF_TOOLS_COMMON_ENDPOINT_H_
#define SKIFF_TOOLS_COMMON_ENDPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "protocol/auth/chap.h"
#include "protocol/auth/chap_algorithm.h"
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
  // What to log in with. No name: nothing; no secret: it was left out.
  protocol::ChapCredential user;
  // What the target has to log in with, too: target_user= and target_password=.
  absl::optional<protocol::ChapCredential> target_user;
  // Offered for CHAP, best first: chap_algorithms=. Empty: all.
  std::vector<protocol::ChapAlgorithm> chap_algorithms;
};

// How to log in: by nothing without a user. Errors have nothing of a secret.
absl::StatusOr<absl::optional<protocol::ChapInitiatorOptions>> ChapOf(
    const Endpoint& endpoint);

// With a registry, `transport=` may name any transport of it: one of byte
// streams for iscsi://, one of RDMA for iser://.
absl::StatusOr<Endpoint> ParseEndpoint(
    const std::string& text, const transport::Registry* registry = nullptr);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_ENDPOINT_H_
