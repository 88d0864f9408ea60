#ifndef SKIFF_BENCH_TRANSPORT_WORKLOAD_H_
#define SKIFF_BENCH_TRANSPORT_WORKLOAD_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/reactor/reactor.h"

namespace skiff::bench {

// What the two ends of a connection do. The connecting end says so to the other
// one: in its private data, or in the first bytes of its stream.
struct Workload {
  // A message between two endpoints; or a request and its answer on a stream.
  enum class Kind : uint8_t { kSend, kWrite, kRead };

  Kind kind = Kind::kSend;
  // To and fro, one at a time; otherwise `depth` operations in one direction.
  // A READ has only the latter.
  bool ping_pong = true;
  uint32_t size = 64;
  uint32_t depth = 1;
  uint32_t inline_bytes = 0;  // Wished for of the endpoints.
  uint32_t read_depth = 16;
};

inline constexpr size_t kWorkloadBytes = 18;
std::vector<uint8_t> Encode(const Workload& workload);
// `bytes` may be longer: fabrics pad private data. False if it is none.
bool Decode(absl::Span<const uint8_t> bytes, Workload* workload);

// One end of a connection, doing its part of the workload.
class End {
 public:
  virtual ~End() = default;
  // Goes on as far as it can without waiting. Returns the events handled.
  virtual int Poll() = 0;
  // From now on `step`, which is to Poll(), runs on the end's reactor when
  // there may be something to do, instead of all the time. It returns what
  // Poll() returned. A WRITE to and fro cannot be run so: nothing tells of the
  // peer's.
  virtual absl::Status RunByEvents(transport::Reactor* reactor,
                                   std::function<int()> step) = 0;
  // Round trips, or operations of the connecting end, that are done.
  uint64_t completed() const { return completed_; }
  // The peer has gone.
  bool closed() const { return closed_; }
  // No new operations from now on; `idle` once the last one is done.
  void Finish() { finishing_ = true; }
  virtual bool idle() const = 0;

 protected:
  uint64_t completed_ = 0;
  bool closed_ = false;
  bool finishing_ = false;
};

}  // namespace skiff::bench

#endif  // SKIFF_BENCH_TRANSPORT_WORKLOAD_H_
