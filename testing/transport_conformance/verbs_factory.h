#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_VERBS_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_VERBS_FACTORY_H_

#include <memory>
#include <string>

#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// The verbs transport over the device of the address `url`. `name` is its row
// in expected_capabilities.cc: verbs_rxe or verbs_siw.
std::unique_ptr<TransportFactory> MakeVerbsFactory(std::string name,
                                                   std::string url);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_VERBS_FACTORY_H_
