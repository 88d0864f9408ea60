#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_

#include <memory>
#include <string>

#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// transport/libfabric over one provider, between the two ends of this process.
// `name` is a row of the expected capabilities, such as "libfabric_tcp";
// `address` says where to listen, for example
// "libfabric://127.0.0.1:0?provider=tcp".
std::unique_ptr<TransportFactory> MakeLibfabricFactory(std::string name,
                                                       std::string address);

// The factory for a provider over the loopback.
std::unique_ptr<TransportFactory> MakeLibfabricLoopbackFactory(
    const std::string& provider);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_LIBFABRIC_FACTORY_H_
