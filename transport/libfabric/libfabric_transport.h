#ifndef SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TRANSPORT_H_
#define SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TRANSPORT_H_

#include <memory>

#include "transport/libfabric/fabric/libfabric_options.h"
#include "transport/transport.h"

namespace skiff::transport {

// Every fabric that libfabric has a provider for, scheme `libfabric`. Options:
// `provider=` (tcp, verbs, sockets ...; the best one without it) and `domain=`
// (an interface or device). Both ends need the same provider.
//
// libfabric is loaded when an address or the devices ask for it first, which
// takes 0.2 s (fabric/libfabric_library.h has it done before). Its registration
// cache is then turned off, by FI_MR_CACHE_MAX_COUNT=0 in the environment:
// anything else that uses libfabric has to come later.
//
// Transports with different settings share no MemoryDomain.
std::unique_ptr<Transport> MakeLibfabricTransport(
    const LibfabricOptions& settings = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_LIBFABRIC_TRANSPORT_H_
