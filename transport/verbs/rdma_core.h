#ifndef SKIFF_TRANSPORT_VERBS_RDMA_CORE_H_
#define SKIFF_TRANSPORT_VERBS_RDMA_CORE_H_

#include "absl/status/status.h"

namespace skiff::transport {

// Loads libibverbs and librdmacm, when called first (SystemLibrary::Load says
// more). To be asked before their functions are called, which this package has
// forwarders for; a function that is needed anew belongs in the lists there.
absl::Status LoadRdmaCore();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_RDMA_CORE_H_
