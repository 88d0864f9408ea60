#include "protocol/target/server_state.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/reactor/newcomers.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

constexpr char kNoMemory[] = "the system has no memory for it";

// Servers that were shut down while backends, or reactors, had not given back
// what is theirs. Each is kept once for each of its reactors that has something
// left; for ever, where that is how long it takes.
class Abandoned {
 public:
  static void Keep(std::shared_ptr<ServerState> state) {
    const std::lock_guard<std::mutex> lock(Mutex());
    Kept().push_back(std::move(state));
  }
  // Lets go of it once; whoever calls this holds the rest, perhaps the last.
  static std::shared_ptr<ServerState> Drop(const ServerState* state) {
    const std::lock_guard<std::mutex> lock(Mutex());
    const auto found =
        std::find_if(Kept().begin(), Kept().end(),
                     [state](const auto& kept) { return kept.get() == state; });
    if (found == Kept().end()) return nullptr;
    std::shared_ptr<ServerState> out = std::move(*found);
    Kept().erase(found);
    return out;
  }

 private:
  // Never destroyed.
  static std::mutex& Mutex() {
    static auto* const kMutex = new std::mutex;
    return *kMutex;
  }
  static std::vector<std::shared_ptr<ServerState>>& Kept() {
    static auto* const kKept = new std::vector<std::shared_ptr<ServerState>>;
    return *kKept;
  }
};

transport::LogText PortalText(const std::string& portal,
                              absl::string_view reason) {
  return {absl::StrCat(portal, ": ", reason),
          {{transport::kLogPortal, portal},
           {transport::kLogReason, std::string(reason)}}};
}

}  // namespace

ServerShard* ServerState::LeastLoaded() const {
  return std::min_element(
             shards.begin(), shards.end(),
             [](const auto& a, const auto& b) { return a->load < b->load; })
      ->get();
}

ServerPlace::~ServerPlace() {
  if (state_ == nullptr) return;
  state_->shares.Gone(id_);
  --shard_->load;
}
void ServerState::OnRequest(
    const transport::Address& portal,
    std::unique_ptr<transport::ConnectionRequest> request) {
  const transport::SpareMemory::Watch memory;
  try {
    Consider(portal, request.get());
  } catch (const std::bad_alloc&) {
    request->Reject({});
  }
}

void ServerState::Consider(const transport::Address& portal,
                           transport::ConnectionRequest* request) {
  ServerShard* const shard = LeastLoaded();
  const TargetNode::ConnectionId id = next_id++;
  IserCmPrivateData said;
  const std::string refusal = Refusal(id, shard, *request, &said);
  if (!refusal.empty()) {
    // On the first reactor, which listens.
    shards[0]->counts.RefusedConnection();
    const std::string peer = request->peer_address();
    shards[0]->log->Log(LogLevel::kWarning, transport::PeerHost(peer), [&] {
      return transport::LogText{
          absl::StrCat(peer, ": refused a connection: ", refusal),
          {{transport::kLogAddress, peer},
           {transport::kLogPortal, portal.ToString()},
           {transport::kLogReason, refusal}}};
    });
    return request->Reject({});
  }
  ServerArrival arrival = {
      ServerPlace(shared_from_this(), shard, id),
      portal,
      options,
      {shard->iser_memories, MoverOptions(*options), options->capture}};
  arrival.iser.Answers(said);
  transport::AcceptOptions accept = options->accept;
  arrival.iser.FillIn(&accept);
  request->Accept(shard->reactor, accept,
                  [self = shared_from_this(), arrival = std::move(arrival)](
                      absl::StatusOr<transport::Endpoint> endpoint) mutable {
                    transport::Reactor* const reactor =
                        arrival.place.shard()->reactor;
                    reactor->newcomers().RunOrAdd(
                        [self, arrival = std::move(arrival),
                         endpoint = std::move(endpoint)]() mutable {
                          self->Adopt(std::move(arrival), std::move(endpoint));
                        });
                  });
}

ConnectionShares::Ender ServerState::EnderOf(ServerShard* shard,
                                             TargetNode::ConnectionId id) {
  return [weak = weak_from_this(), shard, id](absl::string_view why) {
    const std::shared_ptr<ServerState> self = weak.lock();
    if (self == nullptr) return;
    self->PostTo(shard, id,
                 [why = std::string(why)](TargetConnection* connection) {
                   connection->End(why);
                 });
  };
}

// Empty: the connection is counted, until Gone().
std::string ServerState::Refusal(TargetNode::ConnectionId id,
                                 ServerShard* shard,
                                 const transport::ConnectionRequest& request,
                                 IserCmPrivateData* said) {
  if (shutting_down) return "shutting down";
  const transport::SpareMemory::Watch memory;
  try {
    // Byte streams have none, which is fine, too.
    const auto decoded = DecodeIserCmPrivateData(request.private_data());
    if (!decoded.ok()) return "its private data are not iSER's";
    *said = *decoded;
    std::string refusal =
        shares.Arrive(id, request.peer_address(), shards[0]->reactor->Now(),
                      EnderOf(shard, id));
    if (!refusal.empty() || !memory.ran_out()) return refusal;
  } catch (const std::bad_alloc&) {
  }
  shares.Gone(id);
  return kNoMemory;
}

absl::StatusOr<std::unique_ptr<ConnectionTransport<TargetDatamover>>>
ServerState::TransportOf(ServerShard* shard, ServerArrival* arrival,
                         transport::Endpoint endpoint) const {
  if (auto* rdma =
          std::get_if<std::unique_ptr<transport::RdmaEndpoint>>(&endpoint)) {
    return arrival->iser.Take(std::move(*rdma));
  }
  StreamDatamoverOptions stream;
  stream.memory = arrival->options->limits.memory;
  return MakeStreamTransport(
      std::get<std::unique_ptr<transport::ByteStream>>(std::move(endpoint)),
      MakeTargetStreamDatamover(shard->buffers.get(), stream),
      arrival->options->capture);
}

// Makes what the shard's connections share; the first connection pays for it.
absl::Status ServerState::Prepare(ServerShard* shard) {
  if (shard->worker != nullptr) return absl::OkStatus();
  scsi::WorkerOptions with_log = options->worker;
  if (with_log.log == nullptr) {
    with_log.log = options->log;
    with_log.log_limits = options->log_limits;
  }
  auto worker = scsi::Worker::Create(shard->reactor, with_log);
  if (!worker.ok()) return worker.status();
  // Both or none: memory may run out.
  auto buffers = std::make_unique<StreamBuffers>(
      StreamBuffers::kDefaultScratchBytes,
      SpareBytes(*options, *budget, shards.size()), budget.get());
  shard->worker = *std::move(worker);  // Shared with what registers it.
  shard->buffers = std::move(buffers);
  return absl::OkStatus();
}

TargetConnectionContext ServerState::ContextOf(ServerShard* shard,
                                               const ServerArrival& arrival) {
  TargetConnectionContext context;
  context.budget = budget.get();
  context.counts = &shard->counts;
  context.reactor = shard->reactor;
  context.worker = shard->worker.get();
  context.worker_memory = shard->worker;
  context.node = &node;
  context.shares = &shares;
  context.throttle = &throttle;
  context.lookups = &lookups;
  context.options = arrival.options;
  context.log = shard->log.get();
  context.post_to = [weak = weak_from_this(), shard](
                        TargetNode::ConnectionId id,
                        absl::AnyInvocable<void(TargetConnection*)> fn) {
    // From any thread, perhaps when reactors are gone.
    const std::shared_ptr<ServerState> self = weak.lock();
    if (self == nullptr) return;
    const std::lock_guard<std::mutex> lock(self->told_mutex);
    if (!self->closed_to_others) self->PostTo(shard, id, std::move(fn));
  };
  context.find = [shard](TargetNode::ConnectionId id) {
    const auto found = shard->connections.find(id);
    return found == shard->connections.end() ? nullptr : found->second.get();
  };
  context.handed_over = [this](HandedOverSession session) {
    const std::lock_guard<std::mutex> lock(handover_mutex);
    handover.sessions.push_back(std::move(session));
  };
  context.ended = [this, shard](TargetNode::ConnectionId id) {
    Ended(shard, id);
  };
  return context;
}

void ServerState::PostTo(ServerShard* shard, TargetNode::ConnectionId id,
                         absl::AnyInvocable<void(TargetConnection*)> fn) {
  shard->reactor->Post(
      [self = shared_from_this(), shard, id, fn = std::move(fn)]() mutable {
        const auto found = shard->connections.find(id);
        if (found != shard->connections.end()) fn(found->second.get());
      });
}

void ServerState::Adopt(ServerArrival arrival,
                        absl::StatusOr<transport::Endpoint> endpoint) {
  ServerShard* const shard = arrival.place.shard();
  std::string problem;
  try {
    problem = Take(shard, &arrival, &endpoint);
  } catch (const std::bad_alloc&) {
    problem = kNoMemory;
  }
  if (problem.empty()) return arrival.place.Keep();
  endpoint = absl::CancelledError();  // Before the buffers that it was given.
  // Whoever shuts down was told that this is the end.
  if (shard->draining && shard->connections.empty()) return;
  const std::string portal = arrival.portal.ToString();
  shard->log->Log(LogLevel::kWarning, portal,
                  [&] { return PortalText(portal, problem); });
}

std::string ServerState::Take(ServerShard* shard, ServerArrival* arrival,
                              absl::StatusOr<transport::Endpoint>* endpoint) {
  if (!endpoint->ok()) {
    return absl::StrCat("accept failed: ", endpoint->status().message());
  }
  if (shard->draining) return "shutting down";
  if (shares.leaving(arrival->place.id())) {
    return "a connection gave way to a new one before it was accepted";
  }
  const transport::SpareMemory::Watch memory;
  const absl::Status prepared = Prepare(shard);
  if (!prepared.ok()) return std::string(prepared.message());
  auto made = TransportOf(shard, arrival, *std::move(*endpoint));
  if (!made.ok()) return std::string(made.status().message());
  auto connection = std::make_unique<TargetConnection>(
      ContextOf(shard, *arrival), arrival->place.id(), arrival->portal,
      *std::move(made));
  if (memory.ran_out()) return kNoMemory;
  shard->connections.try_emplace(arrival->place.id(), std::move(connection));
  return "";
}

void ServerState::Ended(ServerShard* shard, TargetNode::ConnectionId id) {
  const std::shared_ptr<ServerState> self = shared_from_this();
  shard->connections.erase(id);
  node.Unregister(id);
  shares.Gone(id);
  --shard->load;
  shard->departures.Gone(id);
  if (shard->draining) FinishDrain(shard);
}

void ServerState::ListeningChanged(const transport::Address& portal,
                                   const absl::Status& status) {
  if (status.ok()) {
    shards[0]->log->Log(LogLevel::kWarning, portal.ToString(),
                        absl::StrCat(portal.ToString(), ": listening again"));
    return;
  }
  const absl::Duration retry = options->limits.listen_retry_interval;
  shards[0]->log->Log(LogLevel::kError, portal.ToString(), [&] {
    transport::LogText text = PortalText(portal.ToString(), status.message());
    text.message += retry == absl::ZeroDuration()
                        ? std::string("; listen_retry_interval is 0, restart")
                        : absl::StrCat("; it is tried again every ",
                                       absl::FormatDuration(retry));
    return text;
  });
  // A device may be gone, and cannot go before what was made of it.
  for (const std::unique_ptr<ServerShard>& shard : shards) {
    shard->reactor->Post([self = shared_from_this(), shard = shard.get()] {
      if (shard->iser_memories) shard->iser_memories->DropRemoved();
    });
  }
}

void ServerState::Drain(ServerShard* shard, absl::Duration grace,
                        absl::AnyInvocable<void()> done) {
  shard->draining = true;
  shard->drained.push_back(std::move(done));
  for (auto& [id, connection] : shard->connections) {
    connection->Drain(grace, "shutting down");
  }
  const absl::Time limit =
      shard->reactor->Now() + grace + options->limits.backend_patience;
  if (limit < shard->drain_limit) {
    shard->drain_limit = limit;
    shard->drain_timer = std::make_unique<transport::Timer>(
        shard->reactor, [this, shard] { LeaveBehind(shard); });
    shard->drain_timer->ScheduleAt(limit);
  }
  FinishDrain(shard);
}

void ServerState::FinishDrain(ServerShard* shard) {
  std::shared_ptr<ServerState> kept;
  if (shard->connections.empty()) {
    // Registrations hold on to the worker's buffers.
    shard->iser_memories.reset();
    shard->worker.reset();
    shard->buffers.reset();
    shard->drain_timer.reset();
    if (std::exchange(shard->left_behind, false)) kept = Abandoned::Drop(this);
  } else if (!shard->left_behind) {
    return;
  }
  shard->log->Close();
  auto drained = std::move(shard->drained);
  shard->drained.clear();
  for (auto& done : drained) done();
}

// A backend may still write to the memory of its requests, and tell of their
// end, for as long as it wants: what they belong to stays.
void ServerState::LeaveBehind(ServerShard* shard) {
  if (shard->connections.empty() || shard->left_behind) return;
  for (const auto& [id, connection] : shard->connections) {
    const SessionInfo session = connection->Info();
    shard->log->Log(
        LogLevel::kError, transport::PeerHost(session.peer), [&session] {
          return transport::LogText{
              absl::StrCat(session.peer, ": commands of ",
                           session.initiator_name, " at ", session.target_name,
                           " have not come back from their backend: the "
                           "session is left behind"),
              {{transport::kLogAddress, session.peer},
               {transport::kLogPortal, session.portal},
               {transport::kLogInitiator, session.initiator_name},
               {transport::kLogTarget, session.target_name}}};
        });
  }
  shard->left_behind = true;
  Keep();
  shard->departures.LeaveBehind();
  FinishDrain(shard);
}

void ServerState::Keep() { Abandoned::Keep(shared_from_this()); }

absl::Status ServerState::ClosePortal(const transport::Address& portal) {
  const auto found = std::find_if(portals.begin(), portals.end(),
                                  [&portal](const OpenPortal& open) {
                                    return open.listener->address() == portal;
                                  });
  if (found == portals.end()) {
    return absl::NotFoundError(
        absl::StrCat("the server does not listen at ", portal.ToString()));
  }
  node.RemovePortal(found->id);
  portals.erase(found);
  return absl::OkStatus();
}

void ServerState::EndConnections(
    const std::function<bool(const TargetConnection&)>& wanted,
    absl::Duration grace, absl::string_view why, ConnectionsEnded done) {
  // Of the first reactor.
  struct Gather {
    size_t left;
    size_t found = 0;
    Departures::Outcome outcome = Departures::Outcome::kGone;
    ConnectionsEnded done;
  };
  auto gather = std::make_shared<Gather>();
  gather->left = shards.size();
  gather->done = std::move(done);
  for (const std::unique_ptr<ServerShard>& shard : shards) {
    shard->reactor->Post([self = shared_from_this(), shard = shard.get(),
                          wanted, grace, why = std::string(why), gather] {
      std::set<TargetNode::ConnectionId> ids;
      for (auto& [id, connection] : shard->connections) {
        if (!wanted(*connection)) continue;
        ids.insert(id);
        connection->Drain(grace, why);
      }
      const size_t count = ids.size();
      shard->departures.Await(
          std::move(ids), [self, gather, count](Departures::Outcome outcome) {
            self->PostToFirst([gather, count, outcome] {
              gather->found += count;
              if (outcome != Departures::Outcome::kGone) {
                gather->outcome = outcome;
              }
              if (--gather->left == 0) {
                gather->done(gather->found, gather->outcome);
              }
            });
          });
    });
  }
}

void ServerState::PostToFirst(absl::AnyInvocable<void()> fn) {
  const std::lock_guard<std::mutex> lock(told_mutex);
  if (!told) shards[0]->reactor->Post(std::move(fn));
}

}  // namespace skiff::protocol
