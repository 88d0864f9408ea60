#ifndef SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/backend.h"
#include "transport/net/resolver.h"
#include "transport/net/socket_address.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/verbs_endpoint.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// Connects to the first address of a host that answers: address resolution,
// route resolution, queue pair, connect. The addresses are tried in order, each
// with its share of the time that is left.
class VerbsConnector final : public ConnectAttempt, private CmHandler {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsConnector>> Create(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      const VerbsOptions& settings, ConnectCallback done);
  ~VerbsConnector() override = default;

 private:
  VerbsConnector(Reactor* reactor, Address address,
                 const ConnectOptions& options, const VerbsOptions& settings,
                 std::shared_ptr<CmChannel> channel, ConnectCallback done);

  void OnTimer();
  void OnResolved(absl::StatusOr<std::vector<SocketAddress>> resolved);
  void OnCmEvent(const CmEvent& event) override;
  void TryNext();
  absl::Status StartOne(SocketAddress candidate);
  absl::Status ResolveRoute();
  absl::Status SendRequest();
  absl::Status Complete(const CmEvent& event);
  int MillisecondsLeft() const;
  // This candidate did not work; `final` if no other would.
  void Failed(const absl::Status& why, bool final);
  void Finish(absl::StatusOr<Endpoint> result);
  absl::Status Summary() const;

  Reactor* const reactor_;
  const Address address_;
  const ConnectOptions options_;
  const VerbsOptions settings_;
  const std::shared_ptr<CmChannel> channel_;
  ConnectCallback done_;
  const absl::Time deadline_;
  std::unique_ptr<NameLookup> lookup_;
  std::vector<SocketAddress> candidates_;
  size_t next_ = 0;                     // The candidate to try next.
  std::vector<absl::Status> failures_;  // One per candidate tried.
  bool trying_ = false;
  CmId id_;                                  // Until the endpoint has it.
  std::unique_ptr<VerbsEndpoint> endpoint_;  // Once the device is known.
  Timer timer_;  // When the candidate's, or the lookup's, time is up.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_
