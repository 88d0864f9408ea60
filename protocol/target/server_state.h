#ifndef SKIFF_PROTOCOL_TARGET_SERVER_STATE_H_
#define SKIFF_PROTOCOL_TARGET_SERVER_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/target/account_lookups.h"
#include "protocol/target/connection_shares.h"
#include "protocol/target/departures.h"
#include "protocol/target/handover.h"
#include "protocol/target/login_throttle.h"
#include "protocol/target/server_setup.h"
#include "protocol/target/shard_counts.h"
#include "protocol/target/target_connection.h"
#include "protocol/target/target_node.h"
#include "protocol/target/target_server.h"
#include "transport/reactor/reactor.h"
#include "transport/transport.h"

namespace skiff::protocol {

// A server's part on one reactor; touched on that reactor only, but for `load`.
struct ServerShard {
  transport::Reactor* reactor = nullptr;
  std::atomic<uint32_t> load = 0;  // Connections, also those on their way here.
  std::shared_ptr<scsi::Worker> worker;
  std::unique_ptr<StreamBuffers> buffers;
  ShardCounts counts;
  // Of what happens on this reactor.
  std::unique_ptr<transport::LimitedLog> log;
  std::shared_ptr<IserMemories> iser_memories;
  std::map<TargetNode::ConnectionId, std::unique_ptr<TargetConnection>>
      connections;
  bool draining = false;
  // Once no connection is left, or those that are left are not waited for.
  std::vector<absl::AnyInvocable<void()>> drained;
  absl::Time drain_limit = absl::InfiniteFuture();
  std::unique_ptr<transport::Timer> drain_timer;
  bool left_behind = false;
  Departures departures;
};

struct ServerState;

// What a connection that is on its way has of the shares and of its reactor's
// load. Whoever destroys it, in whatever way the connection failed, gives it
// back.
class ServerPlace {
 public:
  // It counts in the shares already.
  ServerPlace(std::shared_ptr<ServerState> state, ServerShard* shard,
              TargetNode::ConnectionId id)
      : state_(std::move(state)), shard_(shard), id_(id) {
    ++shard_->load;
  }
  ServerPlace(ServerPlace&&) = default;
  ServerPlace& operator=(ServerPlace&&) = delete;
  ~ServerPlace();

  ServerShard* shard() const { return shard_; }
  TargetNode::ConnectionId id() const { return id_; }
  // It is the connection's now, until ServerState::Ended().
  void Keep() { state_ = nullptr; }

 private:
  std::shared_ptr<ServerState> state_;  // Null: it is another's.
  ServerShard* const shard_;
  const TargetNode::ConnectionId id_;
};

// A connection on its way to its shard.
struct ServerArrival {
  ServerPlace place;
  transport::Address portal;
  // As they are now: it goes by them to its end.
  std::shared_ptr<const TargetServerOptions> options;
  IserSetup<TargetDatamover> iser;
};

// Where a server listens.
struct OpenPortal {
  TargetNode::PortalId id = 0;
  std::unique_ptr<transport::Listener> listener;
};

// What posted functions hold: they may outlive the server.
struct ServerState : std::enable_shared_from_this<ServerState> {
  ServerState(const std::vector<transport::Reactor*>& reactors,
              const TargetServerOptions& server_options)
      : options(std::make_shared<const TargetServerOptions>(server_options)),
        budget(MakeBudget(server_options)),
        shares(server_options.limits.connections),
        throttle(server_options.limits.failed_logins),
        lookups(server_options.limits.max_account_lookups) {
    for (transport::Reactor* reactor : reactors) {
      shards.push_back(std::make_unique<ServerShard>());
      shards.back()->reactor = reactor;
      shards.back()->log = std::make_unique<transport::LimitedLog>(
          reactor, server_options.log, server_options.log_limits);
      shards.back()->iser_memories = std::make_shared<IserMemories>(
          IserMemories::Role::kTarget,
          MemoryOptions(server_options, budget,
                        SpareBytes(server_options, *budget, reactors.size())));
    }
  }

  void OnRequest(const transport::Address& portal,
                 std::unique_ptr<transport::ConnectionRequest> request);
  // The one with the fewest connections gets the next.
  ServerShard* LeastLoaded() const;
  ConnectionShares::Ender EnderOf(ServerShard* shard,
                                  TargetNode::ConnectionId id);
  std::string Refusal(TargetNode::ConnectionId id, ServerShard* shard,
                      const transport::ConnectionRequest& request,
                      IserCmPrivateData* said);
  void Consider(const transport::Address& portal,
                transport::ConnectionRequest* request);
  void Adopt(ServerArrival arrival,
             absl::StatusOr<transport::Endpoint> endpoint);
  // Why not; empty: it is one of the shard's connections now.
  std::string Take(ServerShard* shard, ServerArrival* arrival,
                   absl::StatusOr<transport::Endpoint>* endpoint);
  // Thread-safe.
  void PostTo(ServerShard* shard, TargetNode::ConnectionId id,
              absl::AnyInvocable<void(TargetConnection*)> fn);
  absl::StatusOr<std::unique_ptr<ConnectionTransport<TargetDatamover>>>
  TransportOf(ServerShard* shard, ServerArrival* arrival,
              transport::Endpoint endpoint) const;
  absl::Status Prepare(ServerShard* shard);
  TargetConnectionContext ContextOf(ServerShard* shard,
                                    const ServerArrival& arrival);
  void Ended(ServerShard* shard, TargetNode::ConnectionId id);
  // Of a portal: why it ended, or OK again.
  void ListeningChanged(const transport::Address& portal,
                        const absl::Status& status);
  void Drain(ServerShard* shard, absl::Duration grace,
             absl::AnyInvocable<void()> done);
  void FinishDrain(ServerShard* shard);
  void LeaveBehind(ServerShard* shard);
  // server_handover.cc, on the first reactor:
  void HandOver(const HandOverOptions& how,
                absl::AnyInvocable<void(ServerHandover)> done);
  void HandOverSessions(const HandOverOptions& how,
                        absl::AnyInvocable<void(ServerHandover)> done);
  // Thread-safe.
  void TakeOver(HandedOverSession session, transport::Transport* transport);
  // On the shard's reactor. `*place` goes where it may go on.
  absl::Status TakeOver(ServerPlace* place, HandedOverSession* session,
                        transport::Transport* transport);
  // TargetServer::Shutdown.
  void Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done);
  // Stays in memory until its shards have come to their ends.
  void Keep();

  // On the first reactor, which listens. `portal` is as Listen() returned it.
  absl::Status ClosePortal(const transport::Address& portal);
  // How many there were; whether they are gone, or some left behind.
  using ConnectionsEnded =
      absl::AnyInvocable<void(size_t found, Departures::Outcome)>;
  // Thread-safe. Asks those that are `wanted` to log out, and drops what is
  // left after `grace`. Then `done` runs on the first reactor.
  void EndConnections(
      const std::function<bool(const TargetConnection&)>& wanted,
      absl::Duration grace, absl::string_view why, ConnectionsEnded done);
  // Thread-safe. Runs `fn` there, unless it may be gone: see `told`.
  void PostToFirst(absl::AnyInvocable<void()> fn);
  // Whoever is no reactor posts nothing any more: they may be gone.
  void CloseToOthers() {
    const std::lock_guard<std::mutex> lock(told_mutex);
    closed_to_others = true;
  }

  const std::shared_ptr<const TargetServerOptions> options;
  const std::shared_ptr<MemoryBudget> budget;  // Outlives the shards.
  TargetNode node;
  std::vector<std::unique_ptr<ServerShard>> shards;
  ConnectionShares shares;
  LoginThrottle throttle;
  AccountLookups lookups;
  std::atomic<TargetNode::ConnectionId> next_id = 1;
  std::atomic<bool> shutting_down = false;
  std::mutex handover_mutex;
  ServerHandover handover;  // So far. Under it.
  // On the first reactor only.
  std::vector<OpenPortal> portals;
  std::mutex told_mutex;
  // Shutdown() has called back without some reactors. When these turn again,
  // the first one may be gone. Under `told_mutex`.
  bool told = false;
  bool closed_to_others = false;  // The same.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_SERVER_STATE_H_
