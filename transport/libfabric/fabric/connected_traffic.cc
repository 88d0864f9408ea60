#include "transport/libfabric/fabric/connected_traffic.h"

#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <utility>

namespace skiff::transport {

ssize_t ConnectedTraffic::IssueNothing(fid_ep* endpoint, FabricQueuePair* owner,
                                       OperationKind kind) {
  const bool read = kind == OperationKind::kRead;
  nothing_.queue_pair = owner;
  nothing_.outcome.kind = kind;
  // Of an empty list, the provider uses the first entry of a WRITE, and
  // Soft-iWARP what the place in its queue had before: of a READ nothing, as
  // that is among the first operations. A key of 0 is special to some devices
  // (siw_qp_mpa_rts()).
  const iovec piece = {&nothing_, 0};
  const fi_rma_iov target = {0, 0, 1};
  const fi_msg_rma message = {
      &piece,  nullptr, read ? 0U : 1U,    FI_ADDR_UNSPEC,
      &target, 1,       &nothing_.context, 0};
  const ssize_t result = read ? fi_readmsg(endpoint, &message, FI_COMPLETION)
                              : fi_writemsg(endpoint, &message, FI_COMPLETION);
  under_way_ = result == 0;
  return result;
}

std::optional<OperationKind> ConnectedTraffic::NothingDone() {
  if (!std::exchange(under_way_, false)) return std::nullopt;
  return nothing_.outcome.kind;
}

}  // namespace skiff::transport
