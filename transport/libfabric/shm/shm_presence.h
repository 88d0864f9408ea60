#ifndef SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PRESENCE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PRESENCE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace skiff::transport {

// Two endpoints of the shm provider in one process work in each other's memory
// through one mapping (smr_map_to_region()): closing one takes it from under
// the other. Connections therefore close in steps. Where a reactor ends before
// they are done, what is left of its endpoints waits here until the peers in
// this process are closed, or are left in the same way. Thread-safe.

// Says that the endpoint of this name is at work in this process.
class ShmPresence {
 public:
  explicit ShmPresence(std::string name);
  ~ShmPresence();
  ShmPresence(const ShmPresence&) = delete;
  ShmPresence& operator=(const ShmPresence&) = delete;

  const std::string& peer() const { return peer_; }
  bool PeerIsHere() const;  // At work in this process.
  void set_peer(std::string peer) { peer_ = std::move(peer); }

 private:
  const std::string name_;
  std::string peer_;
};

// Ends `presences`, and destroys `remains`, which holds their endpoints, once
// none of their peers is at work in this process: now or on another thread.
void BuryShm(std::vector<std::unique_ptr<ShmPresence>> presences,
             std::shared_ptr<void> remains);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_SHM_SHM_PRESENCE_H_
