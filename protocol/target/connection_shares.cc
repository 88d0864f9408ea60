#include "protocol/target/connection_shares.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace skiff::protocol {
namespace {

constexpr char kGaveWay[] =
    "it was quiet, and gave way to a new one: there are too many";

}  // namespace

// Tells whoever gave way when all is said and done, also where memory runs out
// in between: his place is another's.
class ConnectionShares::Evicted {
 public:
  Evicted() = default;
  Evicted(const Evicted&) = delete;
  Evicted& operator=(const Evicted&) = delete;
  ~Evicted() {
    if (end_ == nullptr) return;
    try {
      end_(kGaveWay);
    } catch (const std::bad_alloc&) {
      // Its own time limit ends it.
    }
  }
  bool Set(Ender end) {
    end_ = std::move(end);
    return end_ != nullptr;
  }

 private:
  Ender end_;
};

std::string PeerOfAddress(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (!absl::ConsumePrefix(&host, "[") || !absl::ConsumeSuffix(&host, "]")) {
    return std::string(host);
  }
  in6_addr ip;
  // With a zone, it is link-local, and no host's network.
  if (inet_pton(AF_INET6, std::string(host).c_str(), &ip) != 1 ||
      IN6_IS_ADDR_LINKLOCAL(&ip)) {
    return std::string(host);
  }
  std::fill(ip.s6_addr + 8, ip.s6_addr + 16, uint8_t{0});
  char network[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &ip, network, sizeof(network));
  return absl::StrCat(network, "/64");
}

ConnectionLimits ConnectionLimits::Complete() const {
  const auto half = [](uint32_t* part, uint32_t all) {
    if (*part == 0) *part = std::max(1u, all / 2);
  };
  ConnectionLimits out = *this;
  half(&out.max_logins_per_peer, max_connections_in_login);
  half(&out.max_discovery_per_peer, max_discovery_sessions);
  half(&out.max_sessions_per_peer,
       std::min(max_connections, 2 * kDefaultSessionsPerPeer));
  return out;
}

bool ConnectionShares::Counts::empty() const {
  return std::all_of(std::begin(of), std::end(of),
                     [](uint32_t count) { return count == 0; });
}

uint32_t ConnectionShares::CountOf(const Peers& peers, const std::string& peer,
                                   Stage stage) const {
  const auto found = peers.find(peer);
  return found == peers.end() ? 0
                              : found->second.of[static_cast<size_t>(stage)];
}

size_t ConnectionShares::total() const {
  size_t sum = 0;
  for (const Connections& stage : stages_) sum += stage.size();
  return sum;
}

std::optional<ConnectionShares::Stage> ConnectionShares::StageOf(Id id) const {
  for (size_t i = 0; i < kStages; ++i) {
    if (stages_[i].count(id) != 0) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

// Only who counts for the first time anywhere needs memory for it.
void ConnectionShares::Count(Peers* peers, const std::string& peer, Stage stage,
                             int change) {
  if (peer.empty()) return;
  const auto entry = peers->try_emplace(peer).first;
  entry->second.of[static_cast<size_t>(stage)] += change;
  if (entry->second.empty()) peers->erase(entry);
}

void ConnectionShares::Count(const Connection& connection, Stage stage,
                             int change) {
  Count(&addresses_, connection.address, stage, change);
  Count(&initiators_, connection.initiator, stage, change);
}

void ConnectionShares::Move(Id id, Stage from, Stage to) {
  auto node = At(from).extract(id);
  // In this order: the peer is not forgotten in between.
  Count(node.mapped(), to, +1);
  Count(node.mapped(), from, -1);
  At(to).insert(std::move(node));
}

// It is not asked to go a second time.
ConnectionShares::Ender ConnectionShares::GiveWay(Stage stage, absl::Time now,
                                                  const std::string& newcomer,
                                                  const Filter& among) {
  const auto rank = [&](const Connection& c) {
    // The higher, the sooner it goes.
    return std::make_tuple(CountOf(addresses_, c.address, stage),
                           c.address == newcomer, c.mute, now - c.heard);
  };
  const uint32_t fair = CountOf(addresses_, newcomer, stage) + 1;
  const auto left_alone = [&](const Connection& c) {
    if (c.mute || now - c.heard >= kPatience) return false;
    // Who trickles bytes over many logins takes no place from who has few.
    return stage != Stage::kLogin ||
           CountOf(addresses_, c.address, stage) <= fair;
  };
  const Connections::value_type* chosen = nullptr;
  for (const auto& entry : At(stage)) {
    const Connection& c = entry.second;
    if ((among != nullptr && !among(c)) || left_alone(c)) continue;
    if (chosen == nullptr || rank(c) > rank(chosen->second)) chosen = &entry;
  }
  if (chosen == nullptr) return nullptr;
  const Id id = chosen->first;
  Move(id, stage, Stage::kLeaving);
  return std::move(At(Stage::kLeaving).find(id)->second.end);
}

std::string ConnectionShares::Arrive(Id id, absl::string_view address,
                                     absl::Time now, Ender end) {
  const std::string peer = PeerOfAddress(address);
  Evicted evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t all = total();
    if (all >=
        size_t{limits_.max_connections} + limits_.max_connections_in_login) {
      return "max_connections is reached, and those that end are not gone yet";
    }
    const auto of_peer = [&peer](const Connection& c) {
      return c.address == peer;
    };
    std::string limit;
    bool room = true;
    if (CountOf(addresses_, peer, Stage::kLogin) >=
        limits_.max_logins_per_peer) {
      limit = "max_logins_per_peer is reached";
      room = evicted.Set(GiveWay(Stage::kLogin, now, peer, of_peer));
    } else if (At(Stage::kLogin).size() >= limits_.max_connections_in_login) {
      limit = "max_connections_in_login is reached";
      room = evicted.Set(GiveWay(Stage::kLogin, now, peer, nullptr));
    } else if (all - At(Stage::kLeaving).size() >= limits_.max_connections) {
      limit = "max_connections is reached";
      room = evicted.Set(GiveWay(Stage::kLogin, now, peer, nullptr)) ||
             evicted.Set(GiveWay(Stage::kDiscovery, now, peer, nullptr));
    }
    if (!room) return limit;
    Connection connection;
    connection.address = peer;
    connection.heard = now;
    connection.end = std::move(end);
    const auto added =
        At(Stage::kLogin).emplace(id, std::move(connection)).first;
    try {
      Count(added->second, Stage::kLogin, +1);
    } catch (const std::bad_alloc&) {
      At(Stage::kLogin).erase(added);
      throw;
    }
  }
  return "";
}

void ConnectionShares::Heard(Id id, absl::Time now) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Stage stage : {Stage::kLogin, Stage::kDiscovery}) {
    const auto found = At(stage).find(id);
    if (found == At(stage).end()) continue;
    found->second.heard = now;
    found->second.mute = false;
  }
}

std::string ConnectionShares::Identify(Id id, absl::string_view initiator,
                                       absl::Time now) {
  Evicted evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = At(Stage::kLogin).find(id);
    if (found == At(Stage::kLogin).end()) return "";
    Connection& connection = found->second;
    connection.heard = now;
    connection.mute = false;
    if (!connection.initiator.empty()) return "";
    std::string name(initiator);
    if (CountOf(initiators_, name, Stage::kLogin) >=
        limits_.max_logins_per_peer) {
      if (!evicted.Set(GiveWay(
              Stage::kLogin, now, connection.address,
              [&name](const Connection& c) { return c.initiator == name; }))) {
        return "max_logins_per_peer is reached";
      }
    }
    Count(&initiators_, name, Stage::kLogin, +1);
    connection.initiator = std::move(name);
  }
  return "";
}

std::string ConnectionShares::Enter(Id id, bool discovery, absl::Time now,
                                    std::optional<Id> replaced) {
  const Stage stage = discovery ? Stage::kDiscovery : Stage::kSession;
  Evicted evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = At(Stage::kLogin).find(id);
    // It has given way meanwhile, and the end is on its way to it.
    if (found == At(Stage::kLogin).end()) return "its place is another's";
    Connection& connection = found->second;
    connection.heard = now;
    connection.mute = false;
    const Connection* leaves = nullptr;
    if (replaced.has_value()) {
      const auto old = At(stage).find(*replaced);
      if (old != At(stage).end()) leaves = &old->second;
    }
    const auto full = [&](uint32_t limit) {
      const auto reached = [&](const Peers& peers,
                               std::string Connection::*peer) {
        const std::string& name = connection.*peer;
        const bool same = leaves != nullptr && leaves->*peer == name;
        return CountOf(peers, name, stage) >= limit + (same ? 1 : 0);
      };
      return reached(addresses_, &Connection::address) ||
             (!connection.initiator.empty() &&
              reached(initiators_, &Connection::initiator));
    };
    if (!discovery) {
      if (full(limits_.max_sessions_per_peer)) {
        return "max_sessions_per_peer is reached";
      }
    } else if (full(limits_.max_discovery_per_peer)) {
      if (!evicted.Set(GiveWay(stage, now, connection.address,
                               [&connection](const Connection& c) {
                                 return c.address == connection.address ||
                                        c.initiator == connection.initiator;
                               }))) {
        return "max_discovery_per_peer is reached";
      }
    } else if (At(stage).size() >= limits_.max_discovery_sessions &&
               !evicted.Set(GiveWay(stage, now, connection.address, nullptr))) {
      return "max_discovery_sessions is reached";
    }
    if (leaves != nullptr) Move(*replaced, stage, Stage::kLeaving);
    Move(id, Stage::kLogin, stage);
  }
  return "";
}

void ConnectionShares::Leave(Id id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<Stage> stage = StageOf(id);
  if (stage.has_value() && *stage != Stage::kLeaving) {
    Move(id, *stage, Stage::kLeaving);
  }
}

bool ConnectionShares::leaving(Id id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stages_[static_cast<size_t>(Stage::kLeaving)].count(id) != 0;
}

void ConnectionShares::Gone(Id id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<Stage> stage = StageOf(id);
  if (!stage.has_value()) return;
  Count(At(*stage).at(id), *stage, -1);
  At(*stage).erase(id);
}

}  // namespace skiff::protocol
