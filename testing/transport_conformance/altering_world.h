#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_ALTERING_WORLD_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_ALTERING_WORLD_H_

#include <cstdint>
#include <memory>

#include "testing/transport_conformance/transport_factory.h"

namespace skiff::testing {

// What a transport of RDMA endpoints can make wrong of the options that it is
// given, one rule of ConnectOptions (transport/transport.h) each.
enum class OptionFault : uint8_t {
  kNone,
  kNoPrepare,        // prepare() does not run.
  kNoAcceptPrepare,  // It does not where the connection is accepted.
  kRenamedError,     // The error of prepare() becomes another one.
  kNoPrivateDataOf,  // private_data_of() does not run.
  kCutPrivateData,   // The last byte of private data is lost.
  kShortenedData,    // Too much private data is cut to what there is room for.
  kNoRejectData,     // A rejection loses its private data.
  kNoResources,      // resources() does not run.
  kShortenedQueue,   // A queue beyond the limit is made shorter.
  kNoOnDisconnect,   // on_disconnect does not run,
  kSecondOnDisconnect,  // or does so twice.
};

// `world`, whose transport then has that fault.
std::unique_ptr<TransportWorld> MakeAlteringWorld(
    std::unique_ptr<TransportWorld> world, OptionFault fault);

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_ALTERING_WORLD_H_
