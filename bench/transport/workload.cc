#include "bench/transport/workload.h"

#include <cstddef>
#include <cstring>

namespace skiff::bench {

std::vector<uint8_t> Encode(const Workload& workload) {
  std::vector<uint8_t> out = {static_cast<uint8_t>(workload.kind),
                              static_cast<uint8_t>(workload.ping_pong)};
  for (const uint32_t number : {workload.size, workload.depth,
                                workload.inline_bytes, workload.read_depth}) {
    const size_t at = out.size();
    out.resize(at + sizeof(number));
    std::memcpy(&out[at], &number, sizeof(number));
  }
  return out;
}

bool Decode(absl::Span<const uint8_t> bytes, Workload* workload) {
  if (bytes.size() < kWorkloadBytes || bytes[0] > 2 || bytes[1] > 1) {
    return false;
  }
  workload->kind = static_cast<Workload::Kind>(bytes[0]);
  workload->ping_pong = bytes[1] == 1;
  size_t at = 2;
  for (uint32_t* number : {&workload->size, &workload->depth,
                           &workload->inline_bytes, &workload->read_depth}) {
    std::memcpy(number, &bytes[at], sizeof(*number));
    at += sizeof(*number);
  }
  return workload->size > 0 && workload->depth > 0;
}

}  // namespace skiff::bench
