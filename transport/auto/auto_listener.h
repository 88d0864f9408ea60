#ifndef SKIFF_TRANSPORT_AUTO_AUTO_LISTENER_H_
#define SKIFF_TRANSPORT_AUTO_AUTO_LISTENER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/auto/auto_options.h"
#include "transport/auto/candidates.h"
#include "transport/auto/choice_report.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace skiff::transport {

// Listens by every usable transport on one address and port. Byte streams take
// the port first, since every peer has them; transports that share TCP's port
// space (iWARP, emulated RDMA) then fail to, which the report says: give them
// an address of their own. Listening succeeds if one of them does. A transport
// that stops to listen by itself is tried again, if
// ListenOptions::retry_interval says so. Lives on one reactor; not thread-safe.
class AutoListener final : public Listener {
 public:
  // `observer` (may not be null) gets the report before this returns, and again
  // when a transport stops to listen by itself, or resumes.
  // `options.on_failure` runs when the last one has stopped, unless they are
  // tried again.
  static absl::StatusOr<std::unique_ptr<AutoListener>> Create(
      const Registry& registry, Reactor* reactor, const Address& address,
      const AutoOptions& auto_options, const ListenOptions& options,
      ChoiceObserver observer, AcceptCallback on_request);

  Address address() const override { return address_; }
  std::vector<Address> addresses() const override;
  std::vector<ListeningDescriptor> ReleaseDescriptors() override;
  const ChoiceReport& report() const { return report_; }

 private:
  AutoListener(const Address& address, const ListenOptions& options,
               ChoiceObserver observer, AcceptCallback on_request);

  void Start(Reactor* reactor, const Candidate& candidate);
  // Of a transport that listened: why it stopped, or OK again.
  void OnChange(const Candidate& candidate, const absl::Status& status);

  Address address_;
  const ListenOptions options_;
  ChoiceObserver observer_;
  AcceptCallback on_request_;
  ChoiceReport report_;
  absl::Status failure_;  // The first.
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_AUTO_LISTENER_H_
