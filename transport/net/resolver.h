#ifndef SKIFF_TRANSPORT_NET_RESOLVER_H_
#define SKIFF_TRANSPORT_NET_RESOLVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "transport/net/socket_address.h"
#include "transport/reactor.h"

namespace skiff::transport {

// Looks a host name up on a helper thread. getaddrinfo() cannot be interrupted,
// so the thread may outlive the lookup; it then throws its result away. At most
// kMaxThreads of them exist in the process.
class NameLookup {
 public:
  using Callback =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<SocketAddress>>)>;
  static constexpr int kMaxThreads = 16;

  // `done` runs once on the reactor's thread, never from inside this call.
  static absl::StatusOr<std::unique_ptr<NameLookup>> Start(
      Reactor* reactor, const std::string& host, uint16_t port, Callback done);

  // Cancels: `done` then never runs.
  ~NameLookup();

 private:
  struct State;
  explicit NameLookup(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_RESOLVER_H_
