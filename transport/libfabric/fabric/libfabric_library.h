#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_LIBRARY_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_LIBRARY_H_

#include "absl/status/status.h"

namespace skiff::transport {

// Loads libfabric, when called first (SystemLibrary::Load says more), with its
// registration cache turned off. To be asked before its functions are called,
// which this package has forwarders for; a function that is needed anew belongs
// in the list there.
absl::Status LoadLibfabric();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_LIBRARY_H_
