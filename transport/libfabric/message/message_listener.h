#ifndef SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LISTENER_H_
#define SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LISTENER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_event_queue.h"
#include "transport/libfabric/fabric/fabric_request.h"
#include "transport/transport.h"

namespace skiff::transport {

// What rejects connection requests while their listener lives, from any
// thread.
class RejectGate {
 public:
  RejectGate(std::shared_ptr<FabricDomain> domain, fid_pep* endpoint)
      : domain_(std::move(domain)), endpoint_(endpoint) {}
  // The request's handle is gone after this.
  void Reject(const fi_info& info, absl::Span<const uint8_t> private_data);
  // The same for a request whose connection an endpoint took over, which is
  // closed.
  void Release(const fi_info& info);
  void Close();

 private:
  const std::shared_ptr<FabricDomain> domain_;
  std::mutex mutex_;
  fid_pep* endpoint_;  // Guarded by mutex_; null once closed.
};

// Listens with an FI_EP_MSG passive endpoint. Looking a host name up may block.
class MessageListener final : public Listener,
                              private FabricEventQueue::Handler {
 public:
  static absl::StatusOr<std::unique_ptr<MessageListener>> Create(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      const LibfabricOptions& settings, AcceptCallback on_request);
  ~MessageListener() override;

  Address address() const override { return address_; }

 private:
  MessageListener(Address address, const ListenOptions& options,
                  const LibfabricOptions& settings, AcceptCallback on_request)
      : address_(std::move(address)),
        options_(options),
        settings_(settings),
        on_request_(std::move(on_request)) {}
  absl::Status Listen(Reactor* reactor, InfoPtr info);
  absl::StatusOr<std::shared_ptr<FabricDomain>> DomainOf(
      const fi_info& info) const;

  void OnEvent(uint32_t event, InfoPtr info,
               absl::Span<const uint8_t> data) override;
  void OnError(int error, const std::string& text,
               absl::Span<const uint8_t> data) override;

  Address address_;
  const ListenOptions options_;
  const LibfabricOptions settings_;
  AcceptCallback on_request_;
  std::shared_ptr<FabricDomain> domain_;
  // An event queue of its own: the tcp provider keeps connections that have not
  // sent their request in the queue, with a pointer to the passive endpoint.
  std::shared_ptr<FabricEventQueue> events_;
  // The sockets provider points into the info of its endpoint.
  InfoPtr info_;
  Fid<fid_pep> endpoint_;
  std::shared_ptr<RejectGate> gate_;
  const std::shared_ptr<OpenRequests> open_ = std::make_shared<OpenRequests>();
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_LISTENER_H_
