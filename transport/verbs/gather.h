#ifndef SKIFF_TRANSPORT_VERBS_GATHER_H_
#define SKIFF_TRANSPORT_VERBS_GATHER_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

struct GatherResult {
  size_t bytes = 0;
  uint32_t count = 0;
  // False: there are more pieces than fit, or one is longer than 32 bits say.
  bool valid = true;
};

// Writes `from` to `to` as the device takes it. Empty pieces are left out: some
// devices take a length of zero for 2^31. Memory without a region gets the key
// zero, which devices refuse.
GatherResult Gather(absl::Span<const Sge> from, absl::Span<ibv_sge> to);
// For a RECEIVE, which has one empty piece rather than none: Soft-iWARP takes
// no RECEIVE without any.
GatherResult GatherReceive(absl::Span<const Sge> from, absl::Span<ibv_sge> to);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_GATHER_H_
