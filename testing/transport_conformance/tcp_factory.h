#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_TCP_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_TCP_FACTORY_H_

#include <memory>

#include "testing/transport_conformance/transport_factory.h"
#include "transport/address.h"

namespace skiff::testing {

// The byte streams of transport/tcp, between the two ends of this process.
// `url` says where to listen; null: 127.0.0.1.
std::unique_ptr<TransportFactory> MakeTcpFactory(
    const transport::Address* url = nullptr);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_TCP_FACTORY_H_
