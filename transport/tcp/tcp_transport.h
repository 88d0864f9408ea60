#ifndef SKIFF_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define SKIFF_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <memory>

#include "transport/tcp/tcp_options.h"
#include "transport/transport.h"

namespace skiff::transport {

// Plain TCP over IPv4 and IPv6, scheme `tcp`. Endpoints are ByteStreams.
std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& settings = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_TRANSPORT_H_
