#include "transport/libfabric/shm/shm_presence.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

namespace skiff::transport {
namespace {

struct Grave {
  std::vector<std::string> peers;
  std::shared_ptr<void> remains;
};

struct Presences {
  std::mutex mutex;
  std::set<std::string> at_work;  // Guarded by mutex.
  std::vector<Grave> graves;      // Guarded by mutex.
};
Presences& OfThisProcess() {
  static auto* presences = new Presences;
  return *presences;
}

// Destroys the remains that nobody works in any more.
void ClearGraves() {
  Presences& presences = OfThisProcess();
  std::vector<Grave> done;
  {
    const std::lock_guard<std::mutex> lock(presences.mutex);
    const auto first_done = std::partition(
        presences.graves.begin(), presences.graves.end(),
        [&](const Grave& grave) {
          return std::any_of(grave.peers.begin(), grave.peers.end(),
                             [&](const std::string& peer) {
                               return presences.at_work.count(peer) != 0;
                             });
        });
    std::move(first_done, presences.graves.end(), std::back_inserter(done));
    presences.graves.erase(first_done, presences.graves.end());
  }
}

}  // namespace

ShmPresence::ShmPresence(std::string name) : name_(std::move(name)) {
  Presences& presences = OfThisProcess();
  const std::lock_guard<std::mutex> lock(presences.mutex);
  presences.at_work.insert(name_);
}

ShmPresence::~ShmPresence() {
  {
    Presences& presences = OfThisProcess();
    const std::lock_guard<std::mutex> lock(presences.mutex);
    presences.at_work.erase(name_);
  }
  ClearGraves();
}

bool ShmPresence::PeerIsHere() const {
  Presences& presences = OfThisProcess();
  const std::lock_guard<std::mutex> lock(presences.mutex);
  return presences.at_work.count(peer_) != 0;
}

void BuryShm(std::vector<std::unique_ptr<ShmPresence>> presences,
             std::shared_ptr<void> remains) {
  Grave grave;
  for (const auto& presence : presences) {
    grave.peers.push_back(presence->peer());
  }
  grave.remains = std::move(remains);
  {
    Presences& all = OfThisProcess();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.graves.push_back(std::move(grave));
  }
  presences.clear();
  ClearGraves();
}

}  // namespace skiff::transport
