#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LOOKUP_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LOOKUP_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "transport/address.h"
#include "transport/libfabric/fid.h"
#include "transport/reactor.h"

namespace skiff::transport {

// FabricQuery() for an address to connect to, on a helper thread: it asks name
// services and resolves routes, and cannot be interrupted, so the thread may
// outlive the lookup. At most kMaxThreads of them exist in the process.
class FabricLookup {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<InfoPtr>)>;
  static constexpr int kMaxThreads = 64;

  // `done` runs once on the reactor's thread, never from inside this call.
  static absl::StatusOr<std::unique_ptr<FabricLookup>> Start(
      Reactor* reactor, const Address& address, Callback done);
  // Cancels: `done` then never runs.
  ~FabricLookup();

 private:
  struct State;
  explicit FabricLookup(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LOOKUP_H_
