#include "protocol/target/target_server.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"
#include "protocol/target/departures.h"
#include "protocol/target/server_setup.h"
#include "protocol/target/server_state.h"
#include "protocol/target/target_connection.h"
#include "protocol/target/target_node.h"
#include "transport/persistent_listener.h"

namespace skiff::protocol {
namespace {

absl::Status LeftBehind(absl::string_view what) {
  return absl::AbortedError(absl::StrCat(
      what, ": the server shut down before a backend gave back its commands"));
}

// Asks each shard on its reactor, adds the answers to `sum` on the first one,
// and gives it to `done`.
template <typename T>
void GatherFromShards(const std::shared_ptr<ServerState>& state, T sum,
                      T (*ask)(const ServerShard&), void (*add)(const T&, T*),
                      absl::AnyInvocable<void(T)> done) {
  struct Gather {
    size_t left;
    T sum;
    absl::AnyInvocable<void(T)> done;
  };
  auto gather = std::make_shared<Gather>(
      Gather{state->shards.size(), std::move(sum), std::move(done)});
  transport::Reactor* const first = state->shards[0]->reactor;
  for (const std::unique_ptr<ServerShard>& shard : state->shards) {
    shard->reactor->Post([state, shard = shard.get(), first, ask, add, gather] {
      first->Post([gather, add, answer = ask(*shard)] {
        add(answer, &gather->sum);
        if (--gather->left == 0) gather->done(std::move(gather->sum));
      });
    });
  }
}

class TargetServerImpl final : public TargetServer {
 public:
  TargetServerImpl(const transport::Registry* registry,
                   const std::vector<transport::Reactor*>& reactors,
                   const TargetServerOptions& options)
      : registry_(registry),
        state_(std::make_shared<ServerState>(reactors, options)) {}

  // What listens refers to the state, as this does.
  ~TargetServerImpl() override { state_->portals.clear(); }

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

  absl::Status SetAlias(absl::string_view name,
                        absl::string_view alias) override {
    return state_->node.SetAlias(std::string(name), alias);
  }

  absl::StatusOr<transport::Address> Listen(
      const transport::Address& address) override;
  void Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done) override;
  void HandOver(const HandOverOptions& how,
                absl::AnyInvocable<void(ServerHandover)> done) override;
  void TakeOver(ServerHandover handover) override;
  void Expect(const std::vector<HandedOverSession>& sessions) override {
    for (const HandedOverSession& session : sessions) {
      state_->node.Reserve(session.state.tsih);
    }
  }
  void RemoveTarget(absl::string_view name, absl::Duration grace,
                    TargetRemoved done) override;
  void ClosePortal(const transport::Address& address, Done done) override;
  absl::Status ClosePortalHere(const transport::Address& address) override {
    return state_->ClosePortal(address);
  }
  void DropSession(uint64_t id, absl::Duration grace, Done done) override;
  void ListSessions(
      absl::AnyInvocable<void(std::vector<SessionInfo>)> done) override;
  void ReportMemory(absl::AnyInvocable<void(ServerMemory)> done) override;
  void ReportCounts(absl::AnyInvocable<void(ServerCounts)> done) override;

 private:
  const transport::Registry* const registry_;
  const std::shared_ptr<ServerState> state_;
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
  state_->portals.push_back(
      {state_->node.AddPortal(address, (*listener)->addresses()),
       *std::move(listener)});
  return bound;
}

void TargetServerImpl::Shutdown(absl::Duration grace,
                                absl::AnyInvocable<void()> done) {
  state_->Shutdown(grace, std::move(done));
}

void TargetServerImpl::HandOver(const HandOverOptions& how,
                                absl::AnyInvocable<void(ServerHandover)> done) {
  state_->shutting_down = true;
  state_->PostToFirst([state = state_, how, done = std::move(done)]() mutable {
    state->HandOver(how, std::move(done));
  });
}

void TargetServerImpl::TakeOver(ServerHandover handover) {
  for (const auto& [name, was] : handover.targets) {
    const auto target = state_->node.FindTarget(name);
    if (target != nullptr) target->Restore(was);
  }
  for (HandedOverSession& session : handover.sessions) {
    const auto transport = registry_->Find(session.scheme);
    if (!transport.ok()) {
      state_->shards[0]->log->Log(
          LogLevel::kError, "",
          absl::StrCat(session.state.identity.initiator_name,
                       " can't go on here: ", transport.status().message()));
      continue;
    }
    state_->TakeOver(std::move(session), *transport);
  }
}

void TargetServerImpl::RemoveTarget(absl::string_view name,
                                    absl::Duration grace, TargetRemoved done) {
  if (absl::Status begun = state_->node.BeginRemoval(std::string(name));
      !begun.ok()) {
    return state_->PostToFirst(
        [begun, done = std::move(done)]() mutable { done(begun); });
  }
  state_->EndConnections(
      [name = std::string(name)](const TargetConnection& connection) {
        return connection.Serves(name);
      },
      grace, "the target is removed",
      [state = state_, name = std::string(name), done = std::move(done)](
          size_t /*found*/, Departures::Outcome outcome) mutable {
        std::shared_ptr<scsi::Target> target = state->node.FinishRemoval(name);
        if (outcome == Departures::Outcome::kLeftBehind) {
          return done(LeftBehind(absl::StrCat("sessions of target ", name)));
        }
        done(std::move(target));
      });
}

void TargetServerImpl::ClosePortal(const transport::Address& address,
                                   Done done) {
  state_->PostToFirst(
      [state = state_, address, done = std::move(done)]() mutable {
        done(state->ClosePortal(address));
      });
}

void TargetServerImpl::DropSession(uint64_t id, absl::Duration grace,
                                   Done done) {
  state_->EndConnections(
      [id](const TargetConnection& connection) {
        return connection.id() == id;
      },
      grace, "the session is dropped",
      [id, done = std::move(done)](size_t found,
                                   Departures::Outcome outcome) mutable {
        if (found == 0) {
          return done(absl::NotFoundError(absl::StrCat(
              "there is no session ", id, ", or it is gone already")));
        }
        done(outcome == Departures::Outcome::kGone
                 ? absl::OkStatus()
                 : LeftBehind(absl::StrCat("session ", id)));
      });
}

void TargetServerImpl::ListSessions(
    absl::AnyInvocable<void(std::vector<SessionInfo>)> done) {
  using Sessions = std::vector<SessionInfo>;
  GatherFromShards<Sessions>(
      state_, {},
      [](const ServerShard& shard) {
        Sessions found;
        for (const auto& [id, connection] : shard.connections) {
          found.push_back(connection->Info());
        }
        return found;
      },
      [](const Sessions& more, Sessions* sum) {
        sum->insert(sum->end(), more.begin(), more.end());
      },
      std::move(done));
}

void TargetServerImpl::ReportMemory(
    absl::AnyInvocable<void(ServerMemory)> done) {
  ServerMemory of_all;
  of_all.budget = state_->budget->use();
  GatherFromShards<ServerMemory>(
      state_, of_all,
      [](const ServerShard& shard) {
        ServerMemory memory;
        if (shard.worker != nullptr) {
          memory.buffers = shard.worker->buffer_use();
        }
        return memory;
      },
      [](const ServerMemory& more, ServerMemory* all) {
        scsi::BufferUse& sum = all->buffers;
        sum.total_bytes += more.buffers.total_bytes;
        sum.held_bytes += more.buffers.held_bytes;
        sum.waiting_tasks += more.buffers.waiting_tasks;
        sum.given_up += more.buffers.given_up;
        sum.ended += more.buffers.ended;
      },
      std::move(done));
}

void TargetServerImpl::ReportCounts(
    absl::AnyInvocable<void(ServerCounts)> done) {
  GatherFromShards<ServerCounts>(
      state_, {},
      [](const ServerShard& shard) {
        ServerCounts counts = shard.counts.Get();
        for (const auto& [id, connection] : shard.connections) {
          AddToPortal(connection->portal_counts(), connection->Counters(),
                      &counts);
        }
        return counts;
      },
      AddCounts, std::move(done));
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
  if (options.limits.max_account_lookups == 0) {
    return absl::InvalidArgumentError(
        "max_account_lookups is 0, so that nobody who has an account could log "
        "in; it must be at least 1");
  }
  const FailedLoginLimits& failed = options.limits.failed_logins;
  if (failed.window <= absl::ZeroDuration() ||
      failed.max_delay < absl::ZeroDuration() || failed.max_entries == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "of failed_logins, window is ", absl::FormatDuration(failed.window),
        ", max_delay ", absl::FormatDuration(failed.max_delay),
        " and max_entries ", failed.max_entries,
        "; window and max_entries must be more than 0, and max_delay 0 or "
        "more"));
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