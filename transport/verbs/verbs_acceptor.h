#ifndef SKIFF_TRANSPORT_VERBS_VERBS_ACCEPTOR_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_ACCEPTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/verbs_endpoint.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

using AcceptedCallback = absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>;

class VerbsConnectionRequest final : public ConnectionRequest,
                                     private CmHandler {
 public:
  // `pending` counts the requests that nobody has answered.
  VerbsConnectionRequest(CmId id, const CmEvent& event,
                         const VerbsOptions& settings,
                         std::shared_ptr<int> pending);
  ~VerbsConnectionRequest() override;

  std::string local_address() const override { return local_address_; }
  std::string peer_address() const override { return peer_address_; }
  absl::Span<const uint8_t> private_data() const override {
    return event_.private_data;
  }
  void Accept(Reactor* home, const AcceptOptions& options,
              AcceptedCallback done) override;
  void Reject(absl::Span<const uint8_t> private_data) override;

 private:
  // The peer gave up: answering then fails.
  void OnCmEvent(const CmEvent& /*event*/) override {}

  CmId id_;  // Until it is answered.
  const CmEvent event_;
  const VerbsOptions settings_;
  const std::shared_ptr<int> pending_;
  const std::string local_address_;
  const std::string peer_address_;
};

// Accepts a connection, on the reactor that will have it. The reactor owns it
// from Start() on, until `done` runs; a deadline sees to that.
class VerbsAcceptor final : public ReactorObject, private CmHandler {
 public:
  static void Start(Reactor* reactor, CmId id, CmEvent request,
                    const AcceptOptions& options, const VerbsOptions& settings,
                    AcceptedCallback done);

 private:
  VerbsAcceptor(Reactor* reactor, std::unique_ptr<VerbsEndpoint> endpoint,
                CmEvent request, absl::Duration timeout, AcceptedCallback done);
  absl::Status SendReply();
  void OnCmEvent(const CmEvent& event) override;
  // Destroys the acceptor.
  void Finish(const absl::Status& status);

  Reactor* const reactor_;
  std::unique_ptr<VerbsEndpoint> endpoint_;
  const CmEvent request_;
  const absl::Duration timeout_;
  AcceptedCallback done_;
  Timer deadline_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_ACCEPTOR_H_
