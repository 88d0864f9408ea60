#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ERROR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// The status for a libfabric return code, negative or positive: `what`, the
// code's text, and what a person can do about it.
absl::Status FabricStatus(int64_t code, absl::string_view what);

// What a failed operation is to its poster. `error` is fi_cq_err_entry::err,
// `provider_error` its prov_errno, `provider` fi_fabric_attr::prov_name.
CompletionStatus MapOperationError(absl::string_view provider,
                                   OperationKind kind, int error,
                                   int provider_error);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_ERROR_H_
