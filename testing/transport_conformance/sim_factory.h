#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_SIM_FACTORY_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_SIM_FACTORY_H_

#include <memory>

#include "testing/sim/sim_defects.h"
#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

enum class SimFabric : uint8_t { kInfiniBand, kIwarp, kStream };

// The simulated transport, in virtual time; with a defect on request.
std::unique_ptr<TransportFactory> MakeSimFactory(
    SimFabric fabric, SimDefect defect = SimDefect::kNone);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_SIM_FACTORY_H_
