#include "protocol/target/target_server.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/codec/iser_cm_private_data.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"
#include "protocol/target/server_setup.h"
#include "protocol/target/target_connection.h"
#include "protocol/target/target_node.h"
#include "transport/persistent_listener.h"
#include "transport/reactor/newcomers.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

constexpr char kNoMemory[] = "the system has no memory for it";

// A server's part on one reactor; touched on that reactor only, but for `load`.
struct Shard {
  transport::Reactor* reactor = nullptr;
  std::atomic<uint32_t> load = 0;  // Connections, also those on their way here.
  std::shared_ptr<scsi::Worker> worker;
  std::unique_ptr<StreamBuffers> buffers;
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
};

struct State;

// What a connection that is on its way has of the shares and of its reactor's
// load. Whoever destroys it, in whatever way the connection failed, gives it
// back.
class Place {
 public:
  // It counts in the shares already.
  Place(std::shared_ptr<State> state, Shard* shard, TargetNode::ConnectionId id)
      : state_(std::move(state)), shard_(shard), id_(id) {
    ++shard_->load;
  }
  Place(Place&&) = default;
  Place& operator=(Place&&) = delete;
  ~Place();

  Shard* shard() const { return shard_; }
  TargetNode::ConnectionId id() const { return id_; }
  // It is the connection's now, until State::Ended().
  void Keep() { state_ = nullptr; }

 private:
  std::shared_ptr<State> state_;  // Null: it is another's.
  Shard* const shard_;
  const TargetNode::ConnectionId id_;
};

// A connection on its way to its shard.
struct Arrival {
  Place place;
  transport::Address portal;
  // As they are now: it goes by them to its end.
  std::shared_ptr<const TargetServerOptions> options;
  IserSetup<TargetDatamover> iser;
};

// What posted functions hold: they may outlive the server.
struct State : std::enable_shared_from_this<State> {
  State(const std::vector<transport::Reactor*>& reactors,
        const TargetServerOptions& server_options)
      : options(std::make_shared<const TargetServerOptions>(server_options)),
        budget(MakeBudget(server_options)),
        shares(server_options.limits.connections) {
    for (transport::Reactor* reactor : reactors) {
      shards.push_back(std::make_unique<Shard>());
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
  std::string Refusal(TargetNode::ConnectionId id, Shard* shard,
                      const transport::ConnectionRequest& request,
                      IserCmPrivateData* said);
  void Consider(const transport::Address& portal,
                transport::ConnectionRequest* request);
  void Adopt(Arrival arrival, absl::StatusOr<transport::Endpoint> endpoint);
  // Why not; empty: it is one of the shard's connections now.
  std::string Take(Shard* shard, Arrival* arrival,
                   absl::StatusOr<transport::Endpoint>* endpoint);
  // Thread-safe.
  void PostTo(Shard* shard, TargetNode::ConnectionId id,
              absl::AnyInvocable<void(TargetConnection*)> fn);
  absl::StatusOr<std::unique_ptr<ConnectionTransport<TargetDatamover>>>
  TransportOf(Shard* shard, Arrival* arrival,
              transport::Endpoint endpoint) const;
  absl::Status Prepare(Shard* shard);
  TargetConnectionContext ContextOf(Shard* shard, const Arrival& arrival);
  void Ended(Shard* shard, TargetNode::ConnectionId id);
  // Of a portal: why it ended, or OK again.
  void ListeningChanged(const transport::Address& portal,
                        const absl::Status& status);
  void Abandon(Shard* shard, absl::string_view why);
  void Drain(Shard* shard, absl::Duration grace,
             absl::AnyInvocable<void()> done);
  void FinishDrain(Shard* shard);
  void LeaveBehind(Shard* shard);

  const std::shared_ptr<const TargetServerOptions> options;
  const std::shared_ptr<MemoryBudget> budget;  // Outlives the shards.
  TargetNode node;
  std::vector<std::unique_ptr<Shard>> shards;
  ConnectionShares shares;
  std::atomic<TargetNode::ConnectionId> next_id = 1;
  std::atomic<bool> shutting_down = false;
};

// Servers that were shut down while backends, or reactors, had not given back
// what is theirs. Each is kept once for each of its reactors that has something
// left; for ever, where that is how long it takes.
class Abandoned {
 public:
  static void Keep(std::shared_ptr<State> state) {
    const std::lock_guard<std::mutex> lock(Mutex());
    Kept().push_back(std::move(state));
  }
  // Lets go of it once; whoever calls this holds the rest, perhaps the last.
  static std::shared_ptr<State> Drop(const State* state) {
    const std::lock_guard<std::mutex> lock(Mutex());
    const auto found =
        std::find_if(Kept().begin(), Kept().end(),
                     [state](const auto& kept) { return kept.get() == state; });
    if (found == Kept().end()) return nullptr;
    std::shared_ptr<State> out = std::move(*found);
    Kept().erase(found);
    return out;
  }

 private:
  // Never destroyed.
  static std::mutex& Mutex() {
    static auto* const kMutex = new std::mutex;
    return *kMutex;
  }
  static std::vector<std::shared_ptr<State>>& Kept() {
    static auto* const kKept = new std::vector<std::shared_ptr<State>>;
    return *kKept;
  }
};

Place::~Place() {
  if (state_ == nullptr) return;
  state_->shares.Gone(id_);
  --shard_->load;
}

// Spreads connections: the reactor with the fewest gets the next.
Shard* LeastLoaded(const std::vector<std::unique_ptr<Shard>>& shards) {
  return std::min_element(
             shards.begin(), shards.end(),
             [](const auto& a, const auto& b) { return a->load < b->load; })
      ->get();
}

void State::OnRequest(const transport::Address& portal,
                      std::unique_ptr<transport::ConnectionRequest> request) {
  const transport::SpareMemory::Watch memory;
  try {
    Consider(portal, request.get());
  } catch (const std::bad_alloc&) {
    request->Reject({});
  }
}

void State::Consider(const transport::Address& portal,
                     transport::ConnectionRequest* request) {
  Shard* const shard = LeastLoaded(shards);
  const TargetNode::ConnectionId id = next_id++;
  IserCmPrivateData said;
  const std::string refusal = Refusal(id, shard, *request, &said);
  if (!refusal.empty()) {
    // On the first reactor, which listens.
    shards[0]->log->Log(LogLevel::kWarning,
                        transport::PeerHost(request->peer_address()),
                        absl::StrCat(request->peer_address(),
                                     ": refused a connection: ", refusal));
    return request->Reject({});
  }
  Arrival arrival = {
      Place(shared_from_this(), shard, id),
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

// Empty: the connection is counted, until Gone().
std::string State::Refusal(TargetNode::ConnectionId id, Shard* shard,
                           const transport::ConnectionRequest& request,
                           IserCmPrivateData* said) {
  if (shutting_down) return "shutting down";
  const transport::SpareMemory::Watch memory;
  try {
    // Byte streams have none, which is fine, too.
    const auto decoded = DecodeIserCmPrivateData(request.private_data());
    if (!decoded.ok()) return "its private data are not iSER's";
    *said = *decoded;
    std::string refusal = shares.Arrive(
        id, request.peer_address(), shards[0]->reactor->Now(),
        [weak = weak_from_this(), shard, id](absl::string_view why) {
          const std::shared_ptr<State> self = weak.lock();
          if (self == nullptr) return;
          self->PostTo(shard, id,
                       [why = std::string(why)](TargetConnection* connection) {
                         connection->End(why);
                       });
        });
    if (!refusal.empty() || !memory.ran_out()) return refusal;
  } catch (const std::bad_alloc&) {
  }
  shares.Gone(id);
  return kNoMemory;
}

absl::StatusOr<std::unique_ptr<ConnectionTransport<TargetDatamover>>>
State::TransportOf(Shard* shard, Arrival* arrival,
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
absl::Status State::Prepare(Shard* shard) {
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

TargetConnectionContext State::ContextOf(Shard* shard, const Arrival& arrival) {
  TargetConnectionContext context;
  context.budget = budget.get();
  context.reactor = shard->reactor;
  context.worker = shard->worker.get();
  context.worker_memory = shard->worker;
  context.node = &node;
  context.shares = &shares;
  context.options = arrival.options;
  context.log = shard->log.get();
  context.post_to = [weak = weak_from_this(), shard](
                        TargetNode::ConnectionId id,
                        absl::AnyInvocable<void(TargetConnection*)> fn) {
    const std::shared_ptr<State> self = weak.lock();
    if (self != nullptr) self->PostTo(shard, id, std::move(fn));
  };
  context.find = [shard](TargetNode::ConnectionId id) {
    const auto found = shard->connections.find(id);
    return found == shard->connections.end() ? nullptr : found->second.get();
  };
  context.ended = [this, shard](TargetNode::ConnectionId id) {
    Ended(shard, id);
  };
  return context;
}

void State::PostTo(Shard* shard, TargetNode::ConnectionId id,
                   absl::AnyInvocable<void(TargetConnection*)> fn) {
  shard->reactor->Post(
      [self = shared_from_this(), shard, id, fn = std::move(fn)]() mutable {
        const auto found = shard->connections.find(id);
        if (found != shard->connections.end()) fn(found->second.get());
      });
}

void State::Adopt(Arrival arrival,
                  absl::StatusOr<transport::Endpoint> endpoint) {
  Shard* const shard = arrival.place.shard();
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
                  absl::StrCat(portal, ": ", problem));
}

std::string State::Take(Shard* shard, Arrival* arrival,
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

void State::Ended(Shard* shard, TargetNode::ConnectionId id) {
  const std::shared_ptr<State> self = shared_from_this();
  shard->connections.erase(id);
  node.Unregister(id);
  shares.Gone(id);
  --shard->load;
  if (shard->draining) FinishDrain(shard);
}

void State::ListeningChanged(const transport::Address& portal,
                             const absl::Status& status) {
  if (status.ok()) {
    shards[0]->log->Log(LogLevel::kWarning, portal.ToString(),
                        absl::StrCat(portal.ToString(), ": listening again"));
    return;
  }
  const absl::Duration retry = options->limits.listen_retry_interval;
  shards[0]->log->Log(
      LogLevel::kError, portal.ToString(),
      absl::StrCat(portal.ToString(), ": ", status.message(),
                   retry == absl::ZeroDuration()
                       ? std::string("; listen_retry_interval is 0, restart")
                       : absl::StrCat("; it is tried again every ",
                                      absl::FormatDuration(retry))));
  // A device may be gone, and cannot go before what was made of it.
  for (const std::unique_ptr<Shard>& shard : shards) {
    shard->reactor->Post([self = shared_from_this(), shard = shard.get()] {
      if (shard->iser_memories) shard->iser_memories->DropRemoved();
    });
  }
}

void State::Drain(Shard* shard, absl::Duration grace,
                  absl::AnyInvocable<void()> done) {
  shard->draining = true;
  shard->drained.push_back(std::move(done));
  for (auto& [id, connection] : shard->connections) connection->Drain(grace);
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

void State::FinishDrain(Shard* shard) {
  std::shared_ptr<State> kept;
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
void State::LeaveBehind(Shard* shard) {
  if (shard->connections.empty() || shard->left_behind) return;
  for (const auto& [id, connection] : shard->connections) {
    const SessionInfo session = connection->Info();
    shard->log->Log(
        LogLevel::kError, transport::PeerHost(session.peer),
        absl::StrCat(session.peer, ": commands of ", session.initiator_name,
                     " at ", session.target_name,
                     " have not come back from their backend: the session is "
                     "left behind"));
  }
  shard->left_behind = true;
  Abandoned::Keep(shared_from_this());
  FinishDrain(shard);
}

class TargetServerImpl final : public TargetServer {
 public:
  TargetServerImpl(const transport::Registry* registry,
                   const std::vector<transport::Reactor*>& reactors,
                   const TargetServerOptions& options)
      : registry_(registry),
        state_(std::make_shared<State>(reactors, options)) {}

  absl::Status AddTarget(std::shared_ptr<scsi::Target> target,
                         absl::string_view alias,
                         std::vector<PortalGroup> portal_groups) override {
    const absl::StatusOr<std::string> name = NormalizeName(target->name());
    if (!name.ok()) return name.status();
    if (*name != target->name()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "target name ", target->name(), " must be written ", *name));
    }
    return state_->node.AddTarget(std::move(target), alias,
                                  std::move(portal_groups));
  }

  absl::StatusOr<transport::Address> Listen(
      const transport::Address& address) override;
  void Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done) override;
  void ListSessions(
      absl::AnyInvocable<void(std::vector<SessionInfo>)> done) override;
  void ReportMemory(absl::AnyInvocable<void(ServerMemory)> done) override;

 private:
  const transport::Registry* const registry_;
  const std::shared_ptr<State> state_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
};

absl::StatusOr<transport::Address> TargetServerImpl::Listen(
    const transport::Address& address) {
  const absl::StatusOr<transport::Transport*> transport =
      registry_->Find(address.scheme);
  if (!transport.ok()) return transport.status();
  transport::ListenOptions options = state_->options->listen;
  options.retry_interval = state_->options->limits.listen_retry_interval;
  options.on_change =
      [state = state_, address,
       theirs = std::move(options.on_change)](const absl::Status& status) {
        state->ListeningChanged(address, status);
        if (theirs != nullptr) theirs(status);
      };
  options.on_trouble =
      [state = state_, address,
       theirs = std::move(options.on_trouble)](const absl::Status& status) {
        state->shards[0]->log->Log(
            LogLevel::kError, address.ToString(),
            absl::StrCat(address.ToString(), ": ", status.message()));
        if (theirs != nullptr) theirs(status);
      };
  auto listener = transport::PersistentListener::Create(
      *transport, state_->shards[0]->reactor, address, options,
      [state = state_, portal = address](
          std::unique_ptr<transport::ConnectionRequest> request) {
        state->OnRequest(portal, std::move(request));
      });
  if (!listener.ok()) return listener.status();
  const transport::Address bound = (*listener)->address();
  state_->node.AddPortal(address, (*listener)->addresses());
  listeners_.push_back(*std::move(listener));
  return bound;
}

void TargetServerImpl::Shutdown(absl::Duration grace,
                                absl::AnyInvocable<void()> done) {
  state_->shutting_down = true;
  // The first shard's reactor gathers: it owns the listeners.
  transport::Reactor* const first = state_->shards[0]->reactor;
  first->Post([this, first, grace, done = std::move(done)]() mutable {
    listeners_.clear();
    struct Gather {
      size_t left;
      absl::AnyInvocable<void()> done;
      std::unique_ptr<transport::Timer> limit;
      // Once told without some reactors, the first one may be gone when they
      // turn again.
      std::mutex mutex;
      bool told = false;
    };
    auto gather = std::make_shared<Gather>();
    gather->left = state_->shards.size();
    gather->done = std::move(done);
    // A reactor that a backend blocks does not answer.
    gather->limit = std::make_unique<transport::Timer>(
        first, [state = state_, weak = std::weak_ptr<Gather>(gather)] {
          const std::shared_ptr<Gather> late = weak.lock();
          if (late == nullptr || late->done == nullptr) return;
          state->shards[0]->log->Log(
              LogLevel::kError, "",
              absl::StrCat(late->left,
                           " reactors do not turn: what is on them is left "
                           "behind"));
          Abandoned::Keep(state);
          {
            const std::lock_guard<std::mutex> lock(late->mutex);
            late->told = true;
          }
          std::exchange(late->done, nullptr)();
        });
    gather->limit->ScheduleAfter(grace +
                                 state_->options->limits.backend_patience +
                                 TargetServerLimits::kShutdownMargin);
    for (const std::unique_ptr<Shard>& shard : state_->shards) {
      shard->reactor->Post(
          [state = state_, shard = shard.get(), grace, first, gather] {
            state->Drain(shard, grace, [first, gather] {
              const std::lock_guard<std::mutex> lock(gather->mutex);
              if (gather->told) return;
              first->Post([gather] {
                if (--gather->left > 0) return;
                gather->limit.reset();
                if (gather->done) std::exchange(gather->done, nullptr)();
              });
            });
          });
    }
  });
}

void TargetServerImpl::ListSessions(
    absl::AnyInvocable<void(std::vector<SessionInfo>)> done) {
  struct Gather {
    size_t left;
    std::vector<SessionInfo> sessions;
    absl::AnyInvocable<void(std::vector<SessionInfo>)> done;
  };
  auto gather = std::make_shared<Gather>();
  gather->left = state_->shards.size();
  gather->done = std::move(done);
  transport::Reactor* const first = state_->shards[0]->reactor;
  for (const std::unique_ptr<Shard>& shard : state_->shards) {
    shard->reactor->Post([state = state_, shard = shard.get(), first, gather] {
      std::vector<SessionInfo> found;
      for (const auto& [id, connection] : shard->connections) {
        found.push_back(connection->Info());
      }
      first->Post([gather, found = std::move(found)] {
        gather->sessions.insert(gather->sessions.end(), found.begin(),
                                found.end());
        if (--gather->left == 0) gather->done(std::move(gather->sessions));
      });
    });
  }
}

void TargetServerImpl::ReportMemory(
    absl::AnyInvocable<void(ServerMemory)> done) {
  struct Gather {
    size_t left;
    ServerMemory memory;
    absl::AnyInvocable<void(ServerMemory)> done;
  };
  auto gather = std::make_shared<Gather>();
  gather->left = state_->shards.size();
  gather->memory.budget = state_->budget->use();
  gather->done = std::move(done);
  transport::Reactor* const first = state_->shards[0]->reactor;
  for (const std::unique_ptr<Shard>& shard : state_->shards) {
    shard->reactor->Post([state = state_, shard = shard.get(), first, gather] {
      scsi::BufferUse use;
      if (shard->worker != nullptr) use = shard->worker->buffer_use();
      first->Post([gather, use] {
        scsi::BufferUse& sum = gather->memory.buffers;
        sum.total_bytes += use.total_bytes;
        sum.held_bytes += use.held_bytes;
        sum.waiting_tasks += use.waiting_tasks;
        sum.given_up += use.given_up;
        sum.ended += use.ended;
        if (--gather->left == 0) gather->done(gather->memory);
      });
    });
  }
}

}  // namespace

uint64_t IserMemoryOfSession(const TargetServerOptions& options) {
  const IserDatamoverOptions iser = MoverOptions(options);
  return (uint64_t{iser.receives} + iser.unsolicited_receives +
          iser.send_buffers) *
         IserMemory::kPairBytes;
}

absl::StatusOr<std::unique_ptr<TargetServer>> TargetServer::Create(
    const transport::Registry* registry,
    const std::vector<transport::Reactor*>& reactors,
    const TargetServerOptions& options) {
  if (reactors.empty())
    return absl::InvalidArgumentError("a server needs a reactor");
  const absl::Status valid = Validate(options.offer, Role::kTarget);
  if (!valid.ok()) return valid;
  const uint32_t depth = options.limits.session.queue_depth;
  if (depth == 0 || depth > TargetSessionOptions::kMaxQueueDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue depth ", depth, " is not in 1..",
                     TargetSessionOptions::kMaxQueueDepth));
  }
  const uint32_t immediate = options.limits.session.max_immediate_tasks;
  if (immediate > kMaxTaskSlots - 2 * depth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_immediate_tasks is ", immediate, "; with queue depth ", depth,
        " it can be ", kMaxTaskSlots - 2 * depth, " at most"));
  }
  const uint32_t functions = options.limits.session.max_task_management;
  if (functions > kMaxTaskSlots) {
    return absl::InvalidArgumentError(absl::StrCat("max_task_management is ",
                                                   functions, "; it can be ",
                                                   kMaxTaskSlots, " at most"));
  }
  if (options.rdma.message_memory < IserMemoryOfSession(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("message_memory is ", options.rdma.message_memory,
                     " bytes; a session of ", "queue depth ", depth, " needs ",
                     IserMemoryOfSession(options)));
  }
  const absl::Duration delay = options.limits.coalesce_delay;
  if (delay < absl::ZeroDuration() ||
      delay > TargetServerLimits::kMaxCoalesceDelay) {
    return absl::InvalidArgumentError(absl::StrCat(
        "coalesce_delay is ", absl::FormatDuration(delay),
        "; it must be between 0 (commands do not wait for each other) and ",
        absl::FormatDuration(TargetServerLimits::kMaxCoalesceDelay)));
  }
  const absl::Duration retry = options.limits.listen_retry_interval;
  if (retry != absl::ZeroDuration() &&
      retry < TargetServerLimits::kMinListenRetryInterval) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen_retry_interval is ", absl::FormatDuration(retry),
        "; it must be 0 (never), or at least ",
        absl::FormatDuration(TargetServerLimits::kMinListenRetryInterval)));
  }
  return std::make_unique<TargetServerImpl>(registry, reactors, options);
}

}  // namespace skiff::protocol
