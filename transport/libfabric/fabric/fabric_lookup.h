#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LOOKUP_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LOOKUP_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/address.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/net/background_call.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// FabricQuery() for an address to connect to, on a helper thread: it asks name
// services and resolves routes, and cannot be interrupted, so the thread may
// outlive the lookup. At most kMaxThreads of them exist in the process.
class FabricLookup {
 public:
  using Call = BackgroundCall<absl::StatusOr<InfoPtr>>;
  using Callback = Call::Callback;
  static constexpr int kMaxThreads = 64;

  // `done` runs once on the reactor's thread, never from inside this call.
  // Destroying the lookup cancels: `done` then never runs.
  static absl::StatusOr<std::unique_ptr<FabricLookup>> Start(
      Reactor* reactor, const Address& address, Callback done);

 private:
  explicit FabricLookup(std::unique_ptr<Call> call) : call_(std::move(call)) {}

  const std::unique_ptr<Call> call_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LOOKUP_H_
