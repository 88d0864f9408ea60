#ifndef SKIFF_TESTING_SIM_SIM_TRANSPORT_H_
#define SKIFF_TESTING_SIM_SIM_TRANSPORT_H_

#include <memory>

#include "testing/sim/sim_defects.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_reactor.h"
#include "testing/sim/sim_world.h"
#include "transport/transport.h"

namespace skiff::testing {

struct SimTransportOptions {
  SimRdmaOptions rdma = SimRdmaOptions::InfiniBand();
  SimDefect defect = SimDefect::kNone;
};

// A transport with both endpoint kinds over the world's network, scheme `sim`:
// `sim://host:port?kind=stream` (the default) or `?kind=rdma`. The two kinds
// have ports of their own. A host is a name; the connecting side's is that of
// its reactor, which must be a SimReactor of the same world. Of two transports
// that meet, the connecting one's options count.
std::unique_ptr<transport::Transport> MakeSimTransport(
    SimWorld* world, const SimTransportOptions& options = {});

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_TRANSPORT_H_
