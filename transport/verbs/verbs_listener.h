#ifndef SKIFF_TRANSPORT_VERBS_VERBS_LISTENER_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_LISTENER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// Listens on one address: that of a device, or the wildcard for every device.
// A host name stands for its first address that can be bound; looking it up may
// block.
class VerbsListener final : public Listener, private CmHandler {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Create(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      const VerbsOptions& settings, AcceptCallback on_request);
  ~VerbsListener() override { *destroyed_ = true; }

  Address address() const override { return address_; }

 private:
  VerbsListener(Reactor* reactor, Address address, const ListenOptions& options,
                const VerbsOptions& settings,
                std::shared_ptr<CmChannel> channel, CmId id,
                AcceptCallback on_request);
  void OnCmEvent(const CmEvent& event) override;

  Address address_;
  const ListenOptions options_;
  const VerbsOptions settings_;
  const std::shared_ptr<CmChannel> channel_;
  CmId id_;
  AcceptCallback on_request_;
  // Requests that nobody has answered yet.
  const std::shared_ptr<int> pending_ = std::make_shared<int>(0);
  Timer failed_;
  absl::Status failure_;
  // The callbacks may destroy the listener.
  const std::shared_ptr<bool> destroyed_ = std::make_shared<bool>(false);
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_LISTENER_H_
