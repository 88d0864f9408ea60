#include "protocol/target/server_setup.h"

#include <algorithm>
#include <utility>

#include "protocol/negotiation/keys.h"
#include "protocol/session/target_session.h"
#include "scsi/backend/memory_limit.h"

namespace skiff::protocol {

std::shared_ptr<MemoryBudget> MakeBudget(const TargetServerOptions& options) {
  if (options.budget != nullptr) return options.budget;
  const uint64_t limit = options.limits.memory_budget;
  return std::make_shared<MemoryBudget>(
      limit != 0 ? limit : MemoryBudget::DefaultLimit(scsi::UsableMemory()));
}

size_t SpareBytes(const TargetServerOptions& options,
                  const MemoryBudget& budget, size_t reactors) {
  constexpr size_t kPools = 2;
  return std::min<size_t>(options.limits.max_spare_buffer_bytes,
                          budget.use().limit / (4 * kPools * reactors));
}

IserMemoryOptions MemoryOptions(const TargetServerOptions& options,
                                std::shared_ptr<MemoryBudget> budget,
                                size_t spare) {
  IserMemoryOptions memory;
  memory.lasting_keys = options.lasting_keys;
  memory.message_memory = options.message_memory;
  memory.budget = std::move(budget);
  memory.max_spare_block_bytes = spare;
  return memory;
}

IserDatamoverOptions MoverOptions(const TargetServerOptions& options) {
  // What may come besides commands of the window (docs/iser.md).
  TargetSessionOptions session;
  session.queue_depth = options.limits.queue_depth;
  constexpr uint32_t kOtherRequests = 16;
  IserDatamoverOptions iser;
  iser.receives =
      options.limits.queue_depth + kOtherRequests +
      std::max(session.max_immediate_tasks + session.max_task_management,
               UnexpectedReceives(options.offer.iser));
  if (options.offer.iser.unsolicited_data_out && !options.offer.initial_r2t) {
    iser.unsolicited_commands =
        options.limits.queue_depth + session.max_immediate_tasks;
    iser.unsolicited_receives = static_cast<uint32_t>(UnsolicitedReceives(
        iser.unsolicited_commands, options.offer.first_burst_length,
        options.offer.iser.target_recv_data_segment_length));
  }
  // The window goes on when a response leaves, so that the receives of its
  // commands must not be held back while the other responses wait.
  iser.max_queued_messages = std::max(
      iser.max_queued_messages,
      session.max_tasks() + session.max_task_management + kOtherRequests);
  return iser;
}

ConnectionLimits SharesOf(const TargetServerLimits& limits) {
  const auto part = [](uint32_t set, uint32_t all) {
    return set != 0 ? set : std::max(1u, all / 2);
  };
  ConnectionLimits out;
  out.connections = limits.max_connections;
  out.in_login = limits.max_connections_in_login;
  out.discovery = limits.max_discovery_sessions;
  out.in_login_per_peer = part(limits.max_logins_per_peer, out.in_login);
  out.discovery_per_peer = part(limits.max_discovery_per_peer, out.discovery);
  out.sessions_per_peer =
      part(limits.max_sessions_per_peer,
           std::min(out.connections,
                    2 * TargetServerLimits::kDefaultSessionsPerPeer));
  return out;
}

}  // namespace skiff::protocol
