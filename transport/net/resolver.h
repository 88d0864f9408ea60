#ifndef SKIFF_TRANSPORT_NET_RESOLVER_H_
#define SKIFF_TRANSPORT_NET_RESOLVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/net/background_call.h"
#include "transport/net/socket_address.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// Looks a host name up on a helper thread. getaddrinfo() cannot be interrupted,
// so the thread may outlive the lookup. At most kMaxThreads of them exist in
// the process. A numeric literal needs no thread.
class NameLookup {
 public:
  using Call = BackgroundCall<absl::StatusOr<std::vector<SocketAddress>>>;
  using Callback = Call::Callback;
  static constexpr int kMaxThreads = 16;

  // `done` runs once on the reactor's thread, never from inside this call.
  // Destroying the lookup cancels: `done` then never runs.
  static absl::StatusOr<std::unique_ptr<NameLookup>> Start(
      Reactor* reactor, const std::string& host, uint16_t port, Callback done);

 private:
  explicit NameLookup(std::unique_ptr<Call> call) : call_(std::move(call)) {}

  const std::unique_ptr<Call> call_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_RESOLVER_H_
