#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_

#include <memory>
#include <string>

#include "testing/transport_conformance/transport_factory.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::testing {

// transport/libfabric over one provider, between the two ends of this process.
// `name` is a row of the expected capabilities, such as "libfabric_tcp";
// `address` says where to listen, for example
// "libfabric://127.0.0.1:0?provider=tcp".
std::unique_ptr<TransportFactory> MakeLibfabricFactory(std::string name,
                                                       std::string address);

// The factory for a provider over the loopback. Reactors that never sleep are
// part of its name: "libfabric_tcp_spinning".
std::unique_ptr<TransportFactory> MakeLibfabricLoopbackFactory(
    const std::string& provider,
    const transport::EpollReactorOptions& reactors = {});

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_
