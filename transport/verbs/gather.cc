#include "transport/verbs/gather.h"

#include <limits>

#include "transport/verbs/verbs_memory.h"

namespace skiff::transport {

GatherResult Gather(absl::Span<const Sge> from, absl::Span<ibv_sge> to) {
  GatherResult result;
  for (const Sge& piece : from) {
    if (piece.length == 0) continue;
    if (result.count == to.size() ||
        piece.length > std::numeric_limits<uint32_t>::max()) {
      result.valid = false;
      return result;
    }
    ibv_sge& sge = to[result.count++];
    sge.addr = reinterpret_cast<uintptr_t>(piece.data);
    sge.length = static_cast<uint32_t>(piece.length);
    sge.lkey = piece.region == nullptr
                   ? 0
                   : static_cast<const VerbsRegion*>(piece.region)->local_key();
    result.bytes += piece.length;
  }
  return result;
}

GatherResult GatherReceive(absl::Span<const Sge> from, absl::Span<ibv_sge> to) {
  GatherResult result = Gather(from, to);
  if (result.count == 0) {
    to[0] = {};
    result.count = 1;
  }
  return result;
}

}  // namespace skiff::transport
