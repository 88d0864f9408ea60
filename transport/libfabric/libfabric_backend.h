#ifndef SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_BACKEND_H_
#define SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_BACKEND_H_

#include <memory>

#include "transport/backend.h"
#include "transport/libfabric/libfabric_options.h"

namespace skiff::transport {

// Every fabric that libfabric has a provider for, scheme `libfabric`. Options:
// `provider=` (tcp, verbs, sockets ...; the best one without it) and `domain=`
// (an interface or device). Both ends need the same provider.
//
// Turns libfabric's registration cache off, by setting FI_MR_CACHE_MAX_COUNT=0
// in the environment: make it before there are threads that read that, and
// before anything else uses libfabric.
//
// Backends with different settings share no MemoryDomain.
std::unique_ptr<Backend> MakeLibfabricBackend(
    const LibfabricOptions& settings = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_BACKEND_H_
