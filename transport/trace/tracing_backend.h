#ifndef SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_
#define SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "transport/backend.h"

namespace skiff::transport {

// Takes whole blocks of a capture, of any connection, to go after
// PcapngHeader() (pcapng.h). Called on the threads of reactors, and so perhaps
// on several at once.
using CaptureSink = std::function<void(absl::string_view blocks)>;

// `inner`, with everything that its byte streams carry given to `sink`. What is
// captured of a stream is what the calls of its user moved; it is copied, which
// costs time. Connections that are RDMA endpoints pass through and are not
// captured.
std::unique_ptr<Backend> MakeTracingBackend(std::unique_ptr<Backend> inner,
                                            CaptureSink sink);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRACE_TRACING_BACKEND_H_
