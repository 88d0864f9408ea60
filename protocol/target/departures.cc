#include "protocol/target/departures.h"

#include <utility>

namespace skiff::protocol {

void Departures::Await(std::set<TargetNode::ConnectionId> connections,
                       Told told) {
  if (connections.empty()) return told(Outcome::kGone);
  if (left_behind_) return told(Outcome::kLeftBehind);
  waiting_.push_back({std::move(connections), std::move(told)});
}

void Departures::Gone(TargetNode::ConnectionId connection) {
  std::vector<Told> gone;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    it->connections.erase(connection);
    if (it->connections.empty()) {
      gone.push_back(std::move(it->told));
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  for (Told& told : gone) told(Outcome::kGone);
}

void Departures::LeaveBehind() {
  left_behind_ = true;
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  for (Waiting& w : waiting) w.told(Outcome::kLeftBehind);
}

}  // namespace skiff::protocol
