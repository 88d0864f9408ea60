#ifndef SKIFF_TRANSPORT_VERBS_VERBS_STATUS_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_STATUS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

CompletionStatus ToCompletionStatus(ibv_wc_status status, OperationKind kind);
DamageScope ToDamageScope(ibv_wc_status status);

// For people: "RDMA READ".
absl::string_view OperationName(OperationKind kind);

// Why a connection ended when one of its operations failed.
absl::Status OperationError(ibv_wc_status status, OperationKind kind,
                            uint32_t vendor_error);

// A failed call on the control path: `what` names the call's purpose and the
// device; the message adds the errno's text, and what to do about it.
absl::Status CallError(absl::string_view what, int error_number);

// "8 MiB" or "unlimited".
std::string LockedMemoryLimit();

// Why ibv_reg_mr() failed.
absl::Status RegisterError(absl::string_view device, size_t size,
                           int error_number);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_STATUS_H_
