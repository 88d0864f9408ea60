#ifndef SKIFF_PROTOCOL_TARGET_DEPARTURES_H_
#define SKIFF_PROTOCOL_TARGET_DEPARTURES_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "protocol/target/target_node.h"

namespace skiff::protocol {

// Who waits until connections of a reactor are gone. Lives on that reactor.
class Departures {
 public:
  enum class Outcome : uint8_t { kGone, kLeftBehind };
  using Told = absl::AnyInvocable<void(Outcome)>;

  // `told` runs once, when the last of `connections` is gone; from inside if
  // there are none. It may call Await().
  void Await(std::set<TargetNode::ConnectionId> connections, Told told);
  // The connection is, with all its tasks.
  void Gone(TargetNode::ConnectionId connection);
  // Those that are waited for, and will be, stay: nobody waits any longer.
  void LeaveBehind();

 private:
  struct Waiting {
    std::set<TargetNode::ConnectionId> connections;
    Told told;
  };
  std::vector<Waiting> waiting_;
  bool left_behind_ = false;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_DEPARTURES_H_
