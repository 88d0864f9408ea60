#ifndef SKIFF_TRANSPORT_VERBS_GATHER_H_
#define SKIFF_TRANSPORT_VERBS_GATHER_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "transport/rdma_endpoint.h"
#include "transport/verbs/verbs_memory.h"

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

// What both make of one piece, if it is as nearly all are: of registered
// memory, and not empty.
inline bool SetUsualPiece(const Sge& piece, ibv_sge* to) {
  if (piece.region == nullptr ||
      piece.length - 1 >= std::numeric_limits<uint32_t>::max()) {
    return false;
  }
  to->addr = reinterpret_cast<uintptr_t>(piece.data);
  to->length = static_cast<uint32_t>(piece.length);
  to->lkey = static_cast<const VerbsRegion*>(piece.region)->local_key();
  return true;
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_GATHER_H_
