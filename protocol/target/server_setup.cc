#include "protocol/target/server_setup.h"

#include <algorithm>
#include <utility>

#include "protocol/negotiation/keys.h"
#include "protocol/session/target_session_options.h"
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
  return std::min<size_t>(options.limits.memory.max_spare_buffer_bytes,
                          budget.use().limit / (4 * kPools * reactors));
}

IserMemoryOptions MemoryOptions(const TargetServerOptions& options,
                                std::shared_ptr<MemoryBudget> budget,
                                size_t spare) {
  IserMemoryOptions memory;
  memory.rdma = options.rdma;
  memory.budget = std::move(budget);
  memory.max_spare_block_bytes = spare;
  return memory;
}

IserDatamoverOptions MoverOptions(const TargetServerOptions& options) {
  // What may come besides commands of the window (docs/iser.md).
  const TargetSessionOptions& session = options.limits.session;
  constexpr uint32_t kOtherRequests = 16;
  IserDatamoverOptions iser;
  iser.receives =
      session.queue_depth + kOtherRequests +
      std::max(session.max_immediate_tasks + session.max_task_management,
               UnexpectedReceives(options.offer.iser));
  if (options.offer.iser.unsolicited_data_out && !options.offer.initial_r2t) {
    iser.unsolicited_commands =
        session.queue_depth + session.max_immediate_tasks;
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

}  // namespace skiff::protocol
