#ifndef SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_
#define SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_

#include <memory>

#include "transport/backend.h"
#include "transport/trace/pcapng.h"

namespace skiff::transport {

// `inner`, with everything that its byte streams carry given to `sink`. What is
// captured of a stream is what the calls of its user moved; it is copied, which
// costs time. Connections that are RDMA endpoints pass through and are not
// captured: what their messages mean is known above (TargetServerOptions and
// InitiatorOptions have a `capture` for them).
std::unique_ptr<Backend> MakeTracingBackend(std::unique_ptr<Backend> inner,
                                            CaptureSink sink);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_
