#ifndef SKIFF_PROTOCOL_TARGET_SERVER_SETUP_H_
#define SKIFF_PROTOCOL_TARGET_SERVER_SETUP_H_

#include <cstddef>
#include <memory>

#include "protocol/connection/connection_transport.h"
#include "protocol/datamover/memory_budget.h"
#include "protocol/target/target_server.h"

namespace skiff::protocol {

// What a server makes of its options.

std::shared_ptr<MemoryBudget> MakeBudget(const TargetServerOptions& options);

// What one pool of blocks may keep for later. All pools, of which a reactor has
// one for streams and one for a device, keep a quarter of the budget at most:
// idle ones would take the rest from those that have work.
size_t SpareBytes(const TargetServerOptions& options,
                  const MemoryBudget& budget, size_t reactors);

IserMemoryOptions MemoryOptions(const TargetServerOptions& options,
                                std::shared_ptr<MemoryBudget> budget,
                                size_t spare);

IserDatamoverOptions MoverOptions(const TargetServerOptions& options);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_SERVER_SETUP_H_
