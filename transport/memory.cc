#include "transport/memory.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<MemoryWindow>> MemoryDomain::AllocateWindow() {
  return absl::UnimplementedError(
      absl::StrCat(name(), " has no memory windows"));
}

absl::StatusOr<std::shared_ptr<CompletionQueue>>
MemoryDomain::CreateCompletionQueue(Reactor* /*reactor*/,
                                    uint32_t /*entries*/) {
  return absl::UnimplementedError(
      absl::StrCat(name(), " has no completion queues of the caller's own"));
}

absl::StatusOr<std::shared_ptr<SharedReceiveQueue>>
MemoryDomain::CreateSharedReceiveQueue(Reactor* /*reactor*/,
                                       uint32_t /*entries*/,
                                       uint32_t /*max_sges*/) {
  return absl::UnimplementedError(
      absl::StrCat(name(), " has no shared receive queues"));
}

}  // namespace skiff::transport
