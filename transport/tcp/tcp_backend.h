#ifndef SKIFF_TRANSPORT_TCP_TCP_BACKEND_H_
#define SKIFF_TRANSPORT_TCP_TCP_BACKEND_H_

#include <memory>

#include "transport/backend.h"
#include "transport/tcp/tcp_options.h"

namespace skiff::transport {

// Plain TCP over IPv4 and IPv6, scheme `tcp`. Endpoints are ByteStreams.
std::unique_ptr<Backend> MakeTcpBackend(const TcpOptions& settings = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_BACKEND_H_
