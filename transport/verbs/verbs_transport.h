#ifndef SKIFF_TRANSPORT_VERBS_VERBS_TRANSPORT_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_TRANSPORT_H_

#include <memory>

#include "transport/transport.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// RDMA by ibverbs and rdma_cm, scheme `verbs`: InfiniBand, RoCE, iWARP.
// Endpoints are RdmaEndpoints. Connections are those of RDMA_PS_TCP, as any
// program that uses rdma_cm makes them.
std::unique_ptr<Transport> MakeVerbsTransport(
    const VerbsOptions& settings = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_TRANSPORT_H_
