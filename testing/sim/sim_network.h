#ifndef SKIFF_TESTING_SIM_SIM_NETWORK_H_
#define SKIFF_TESTING_SIM_SIM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "testing/sim/sim_world.h"

namespace skiff::testing {

// The shape and the steady faults of the way from one host to another. What
// arrives keeps its order within a connection.
struct LinkOptions {
  absl::Duration latency_min = absl::Microseconds(5);
  absl::Duration latency_max = absl::Microseconds(30);
  uint64_t bytes_per_second = 0;  // 0: unlimited. Per connection and direction.

  // Byte streams only from here on.
  // Bytes on the way or unread by the peer; a write takes no more.
  size_t send_buffer = 256 << 10;
  // A write travels in pieces of random size up to this; 0: in one piece.
  size_t max_segment = 16 << 10;
  // The chance that a read or write moves fewer bytes than it could.
  double short_transfer = 0.2;
  // The chance that a read or write answers kWouldBlock although it could go
  // on; the observer is told soon after.
  double spurious_would_block = 0.05;

  // After this many payload bytes in both directions the connection is reset at
  // both ends. 0: never. Both endpoint kinds.
  uint64_t reset_after_bytes = 0;

  // A well-behaved link: constant latency, no short transfers.
  static LinkOptions Calm();
};

class SimAcceptor;
class SimPipe;

// A connection that faults can hit.
class SimConnection {
 public:
  virtual ~SimConnection() = default;
  virtual void FaultReset() = 0;
};

// Links, their faults, and who listens where. One per world. Faults are set by
// the test, now or by SimWorld::At().
class SimNetwork {
 public:
  explicit SimNetwork(SimWorld* world) : world_(world) {}
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // For links that have no options of their own. Connections that exist notice
  // changes, apart from reset_after_bytes.
  void SetDefaultLink(const LinkOptions& options) { default_ = options; }
  // Both directions between two hosts.
  void SetLink(const std::string& a, const std::string& b,
               const LinkOptions& options);
  const LinkOptions& link(const std::string& from, const std::string& to) const;

  // From now on nothing gets through, silently. What is sent waits, as if it
  // were retransmitted, and arrives after Heal() if the connection still lives
  // then.
  void Blackhole(const std::string& a, const std::string& b);
  void BlackholeOneWay(const std::string& from, const std::string& to);
  void Heal(const std::string& a, const std::string& b);
  bool IsDown(const std::string& from, const std::string& to) const {
    return down_.count({from, to}) > 0;
  }

  // Resets every connection between two hosts, at both ends.
  void ResetConnections(const std::string& a, const std::string& b);

  // For the transport. Who listens where, by a name that includes the endpoint
  // kind.
  bool AddAcceptor(const std::string& key, SimAcceptor* acceptor);
  void RemoveAcceptor(const std::string& key) { acceptors_.erase(key); }
  SimAcceptor* FindAcceptor(const std::string& key) const;
  uint16_t AllocatePort(const std::string& host);

 private:
  friend class SimPipe;
  friend class SimWorld;
  friend class SimConnectionEntry;
  using Direction = std::pair<std::string, std::string>;

  void SetDown(const Direction& direction, bool down);
  // For the end of the world.
  void DropParcels();

  SimWorld* const world_;
  LinkOptions default_;
  std::map<Direction, LinkOptions> links_;
  std::set<Direction> down_;
  uint64_t next_id_ = 0;
  // Ordered by age: the order of these must not depend on addresses in memory.
  std::map<uint64_t, SimPipe*> pipes_;
  std::map<uint64_t, std::pair<Direction, SimConnection*>> connections_;
  std::map<std::string, SimAcceptor*> acceptors_;
  std::map<std::string, uint16_t> last_port_;
};

// Keeps a connection known to the network for as long as it lives.
class SimConnectionEntry {
 public:
  SimConnectionEntry(SimNetwork* network, std::string a, std::string b,
                     SimConnection* connection);
  ~SimConnectionEntry() { network_->connections_.erase(id_); }
  SimConnectionEntry(const SimConnectionEntry&) = delete;
  SimConnectionEntry& operator=(const SimConnectionEntry&) = delete;

 private:
  SimNetwork* const network_;
  const uint64_t id_;
};

// One direction of one connection: what is sent arrives later, in order.
class SimPipe {
 public:
  // What the user of a pipe is told when the link goes down.
  class Observer {
   public:
    virtual ~Observer() = default;
    // Something waits that cannot get through, since stalled_since().
    virtual void OnStalled(SimPipe* pipe) = 0;
    virtual void OnLinkDown(SimPipe* pipe) = 0;
  };

  // `observer` may be null.
  SimPipe(SimWorld* world, std::string from, std::string to,
          Observer* observer);
  ~SimPipe();
  SimPipe(const SimPipe&) = delete;
  SimPipe& operator=(const SimPipe&) = delete;

  // Runs `deliver` when `bytes` bytes have travelled.
  void Send(size_t bytes, absl::AnyInvocable<void()> deliver);
  // Loses what is on the way.
  void Clear();

  const LinkOptions& link() const;
  bool down() const;
  // InfiniteFuture() while all is well.
  absl::Time stalled_since() const { return stalled_since_; }
  // Counts the times that the link went down.
  uint64_t down_epoch() const { return down_epoch_; }

 private:
  friend class SimNetwork;
  struct Parcel {
    absl::Time arrival;
    absl::AnyInvocable<void()> deliver;
  };

  void Schedule();
  void Deliver();
  void CancelDelivery();
  void LinkWentDown();
  void LinkCameUp();

  SimWorld* const world_;
  const std::string from_;
  const std::string to_;
  Observer* const observer_;
  const uint64_t id_;
  std::deque<Parcel> parcels_;
  bool delivery_scheduled_ = false;
  SimWorld::EventId delivery_;
  absl::Time last_arrival_ = absl::InfinitePast();
  absl::Time line_free_ = absl::InfinitePast();
  absl::Time stalled_since_ = absl::InfiniteFuture();
  uint64_t down_epoch_ = 0;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_NETWORK_H_
