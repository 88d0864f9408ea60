#ifndef SKIFF_PROTOCOL_TARGET_CONNECTION_SHARES_H_
#define SKIFF_PROTOCOL_TARGET_CONNECTION_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::protocol {

// How many connections a server has, over all portals. Of more, quiet ones give
// way to new ones while they log in or discover; otherwise the new one is
// closed.
struct ConnectionLimits {
  uint32_t max_connections = 4096;
  uint32_t max_connections_in_login = 256;
  uint32_t max_discovery_sessions = 256;
  // What each peer may have of these. A peer is an address, and once it has
  // said it, an initiator name: each counts for itself. Zero: half of it, but
  // no more than kDefaultSessionsPerPeer sessions.
  uint32_t max_logins_per_peer = 0;
  uint32_t max_discovery_per_peer = 0;
  uint32_t max_sessions_per_peer = 0;
  static constexpr uint32_t kDefaultSessionsPerPeer = 1024;

  // With what zero stands for.
  ConnectionLimits Complete() const;
};

// Who of a `peer_address()` ("host:port") shares with whom: the host, of IPv6
// the network of 64 bits that one host may have whole (RFC 6177 section 2).
std::string PeerOfAddress(absl::string_view address);

// Decides which connections of a server may come, and which have to go for
// them. Where a login has no place, one that was quiet gives way to it: of the
// address that has the most, the one that has said nothing yet and is the
// oldest, or else the one that was heard of last the longest time ago, if that
// is kPatience or more, or if its address has more logins than the new one's
// will have. Discovery sessions do the same among themselves.
// Sessions never give way.
//
// Thread-safe; used when connections come and go, and at login. Where memory
// runs out, std::bad_alloc is thrown, and the counts are as before.
class ConnectionShares {
 public:
  using Id = uint64_t;
  // Ends a connection, soon. Called on any thread, with nothing of this locked.
  using Ender = std::function<void(absl::string_view why)>;
  // How long whoever has said something is left alone.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  explicit ConnectionShares(const ConnectionLimits& limits)
      : limits_(limits.Complete()) {}

  // A connection from `address` wants to log in. Empty: it may. Otherwise which
  // limit it would exceed; it is not known then.
  std::string Arrive(Id id, absl::string_view address, absl::Time now,
                     Ender end);
  // It has sent a Login Request, or a request of a discovery session.
  void Heard(Id id, absl::Time now);
  // It says who it is; as Arrive().
  std::string Identify(Id id, absl::string_view initiator, absl::Time now);
  // Its login is complete; as Arrive(). `replaced`, if there is one, is the
  // session whose place it takes: it leaves, unless a limit refuses the new
  // one.
  std::string Enter(Id id, bool discovery, absl::Time now,
                    std::optional<Id> replaced = std::nullopt);
  // It is being ended, and does not count any more as its peers' unless that
  // takes so long that too many do.
  void Leave(Id id);
  bool leaving(Id id) const;
  // It is no more.
  void Gone(Id id);

 private:
  enum class Stage : uint8_t { kLogin, kDiscovery, kSession, kLeaving };
  static constexpr size_t kStages = 4;
  struct Connection {
    std::string address;
    std::string initiator;  // Empty: not known yet.
    absl::Time heard;       // Or when it came.
    bool mute = true;
    Ender end;
  };
  using Connections = std::map<Id, Connection>;
  struct Counts {
    uint32_t of[kStages] = {};
    bool empty() const;
  };
  using Peers = std::map<std::string, Counts>;
  using Filter = std::function<bool(const Connection&)>;
  class Evicted;

  Connections& At(Stage stage) { return stages_[static_cast<size_t>(stage)]; }
  uint32_t CountOf(const Peers& peers, const std::string& peer,
                   Stage stage) const;
  size_t total() const;
  std::optional<Stage> StageOf(Id id) const;
  static void Count(Peers* peers, const std::string& peer, Stage stage,
                    int change);
  void Count(const Connection& connection, Stage stage, int change);
  void Move(Id id, Stage from, Stage to);
  // Takes the one that gives way, if there is one, out of `stage`.
  Ender GiveWay(Stage stage, absl::Time now, const std::string& newcomer,
                const Filter& among);

  const ConnectionLimits limits_;
  mutable std::mutex mutex_;
  Connections stages_[kStages];
  Peers addresses_;
  Peers initiators_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_CONNECTION_SHARES_H_
