// How a server ends, and how it goes on in another process.

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/target/server_state.h"

namespace skiff::protocol {
namespace {

// Whether another process may go on with it.
bool MayGoOn(const TargetConnection& connection, const HandOverOptions& how) {
  if (!connection.MayBeHandedOver()) return false;
  return how.wanted == nullptr || how.wanted(connection.TargetName());
}

}  // namespace

void ServerState::Shutdown(absl::Duration grace,
                           absl::AnyInvocable<void()> done) {
  shutting_down = true;
  // The first shard's reactor gathers: it owns the listeners.
  transport::Reactor* const first = shards[0]->reactor;
  first->Post([state = shared_from_this(), first, grace,
               done = std::move(done)]() mutable {
    state->portals.clear();
    struct Gather {
      size_t left;
      absl::AnyInvocable<void()> done;
      std::unique_ptr<transport::Timer> limit;
    };
    auto gather = std::make_shared<Gather>();
    gather->left = state->shards.size();
    gather->done = std::move(done);
    // A reactor that a backend blocks does not answer.
    gather->limit = std::make_unique<transport::Timer>(
        first, [state, weak = std::weak_ptr<Gather>(gather)] {
          const std::shared_ptr<Gather> late = weak.lock();
          if (late == nullptr || late->done == nullptr) return;
          state->shards[0]->log->Log(
              LogLevel::kError, "",
              absl::StrCat(late->left,
                           " reactors do not turn: what is on them is left "
                           "behind"));
          state->Keep();
          state->CloseToOthers();
          {
            const std::lock_guard<std::mutex> lock(state->told_mutex);
            state->told = true;
          }
          std::exchange(late->done, nullptr)();
        });
    gather->limit->ScheduleAfter(grace +
                                 state->options->limits.backend_patience +
                                 TargetServerLimits::kShutdownMargin);
    for (const std::unique_ptr<ServerShard>& shard : state->shards) {
      shard->reactor->Post([state, shard = shard.get(), grace, gather] {
        state->Drain(shard, grace, [state, gather] {
          state->PostToFirst([state, gather] {
            if (--gather->left > 0) return;
            gather->limit.reset();
            if (!gather->done) return;
            state->CloseToOthers();
            std::exchange(gather->done, nullptr)();
          });
        });
      });
    }
  });
}

// Those that can't go on come first, while the others are still served.
void ServerState::HandOver(const HandOverOptions& how,
                           absl::AnyInvocable<void(ServerHandover)> done) {
  for (const OpenPortal& portal : portals) {
    for (transport::ListeningDescriptor& one :
         portal.listener->ReleaseDescriptors()) {
      handover.portals.push_back(
          {transport::ScopedFd(one.descriptor), std::move(one.address)});
    }
  }
  portals.clear();
  // Whichever comes first: a backend may keep commands for ever.
  struct Next {
    absl::AnyInvocable<void(ServerHandover)> done;
    std::unique_ptr<transport::Timer> limit;
  };
  auto next = std::make_shared<Next>();
  next->done = std::move(done);
  const auto go_on = [self = shared_from_this(), how](Next* once) {
    if (once->done == nullptr) return;
    once->limit->Cancel();
    self->HandOverSessions(how, std::exchange(once->done, nullptr));
  };
  next->limit = std::make_unique<transport::Timer>(
      shards[0]->reactor, [weak = std::weak_ptr<Next>(next), go_on] {
        const std::shared_ptr<Next> held = weak.lock();
        if (held != nullptr) go_on(held.get());
      });
  next->limit->ScheduleAfter(how.grace + options->limits.backend_patience);
  EndConnections(
      [how](const TargetConnection& connection) {
        return !MayGoOn(connection, how);
      },
      how.grace, "the server restarts",
      [go_on, next](size_t /*found*/, Departures::Outcome /*outcome*/) {
        go_on(next.get());
      });
}

void ServerState::HandOverSessions(
    const HandOverOptions& how, absl::AnyInvocable<void(ServerHandover)> done) {
  for (const std::unique_ptr<ServerShard>& shard : shards) {
    shard->reactor->Post([self = shared_from_this(), shard = shard.get(), how] {
      for (auto& [id, connection] : shard->connections) {
        if (MayGoOn(*connection, how)) connection->HandOver(how.patience);
      }
    });
  }
  Shutdown(how.patience,
           [self = shared_from_this(), done = std::move(done)]() mutable {
             ServerHandover all;
             {
               const std::lock_guard<std::mutex> lock(self->handover_mutex);
               all = std::move(self->handover);
             }
             for (const auto& target : self->node.Targets()) {
               all.targets[std::string(target->name())] = target->State();
             }
             done(std::move(all));
           });
}

void ServerState::TakeOver(HandedOverSession session,
                           transport::Transport* transport) {
  ServerShard* const shard = LeastLoaded();
  ServerPlace place(shared_from_this(), shard, next_id++);
  shard->reactor->Post([self = shared_from_this(), place = std::move(place),
                        session = std::move(session), transport]() mutable {
    ServerShard* const shard = place.shard();
    absl::Status taken;
    try {
      taken = self->TakeOver(&place, &session, transport);
    } catch (const std::bad_alloc&) {
      taken = NoMemoryForPeer();
    }
    if (taken.ok()) return;
    const std::string who = session.state.identity.initiator_name;
    shard->log->Log(
        LogLevel::kWarning, who,
        absl::StrCat(who, " can't go on here, and has to log in again: ",
                     taken.message()));
  });
}

absl::Status ServerState::TakeOver(ServerPlace* place,
                                   HandedOverSession* session,
                                   transport::Transport* transport) {
  ServerShard* const shard = place->shard();
  const TargetNode::ConnectionId id = place->id();
  auto stream = transport->Adopt(shard->reactor, session->connection.Release(),
                                 std::move(session->state.unread));
  if (!stream.ok()) return stream.status();
  const std::string limit = shares.Arrive(
      id, (*stream)->peer_address(), shard->reactor->Now(), EnderOf(shard, id));
  if (!limit.empty()) return absl::ResourceExhaustedError(limit);
  // A window that was told stays.
  auto with_window = std::make_shared<TargetServerOptions>(*options);
  TargetSessionOptions& limits = with_window->limits.session;
  limits.queue_depth = std::clamp(session->state.queue_depth, 1u,
                                  TargetSessionOptions::kMaxQueueDepth);
  limits.max_immediate_tasks = std::min(session->state.max_immediate_tasks,
                                        kMaxTaskSlots - 2 * limits.queue_depth);
  ServerArrival arrival = {
      std::move(*place),
      session->portal,
      std::move(with_window),
      {shard->iser_memories, MoverOptions(*options), options->capture}};
  absl::StatusOr<transport::Endpoint> endpoint(*std::move(stream));
  const std::string problem = Take(shard, &arrival, &endpoint);
  if (!problem.empty()) return absl::UnavailableError(problem);
  arrival.place.Keep();
  TargetConnection* const connection = shard->connections[id].get();
  absl::Status taken;
  try {
    taken = connection->TakeOver(session->state);
  } catch (const std::bad_alloc&) {
    taken = NoMemoryForPeer();
  }
  if (!taken.ok()) connection->End("it can't go on here");
  return taken;
}

}  // namespace skiff::protocol
