#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_EVENT_QUEUE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_EVENT_QUEUE_H_

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fid.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// Connection events of one fabric on one reactor.
class FabricEventQueue final
    : public std::enable_shared_from_this<FabricEventQueue>,
      private FdHandler {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // FI_CONNREQ (with its info, now the handler's), FI_CONNECTED, FI_SHUTDOWN.
    virtual void OnEvent(uint32_t event, InfoPtr info,
                         absl::Span<const uint8_t> data) = 0;
    virtual void OnError(int error, const std::string& text,
                         absl::Span<const uint8_t> data) = 0;
  };

  static absl::StatusOr<std::shared_ptr<FabricEventQueue>> Create(
      Reactor* reactor, std::shared_ptr<FabricDomain> domain);
  // The one that all endpoints of the domain on the reactor share. Call on the
  // reactor's thread.
  static absl::StatusOr<std::shared_ptr<FabricEventQueue>> For(
      Reactor* reactor, const std::shared_ptr<FabricDomain>& domain);
  ~FabricEventQueue() override;

  fid_eq* handle() const { return queue_.get(); }
  void Add(fid* object, Handler* handler) { handlers_[object] = handler; }
  // Hands the events that have come to their handlers.
  void Drain() {
    while (ReadOne()) {
    }
  }
  // Before the object is closed. No event reaches its handler any more.
  void Remove(fid* object) { handlers_.erase(object); }
  // Is not read any more.
  void Stop();

 private:
  FabricEventQueue(Reactor* reactor, std::shared_ptr<FabricDomain> domain)
      : reactor_(reactor),
        domain_(std::move(domain)),
        timer_(reactor, [this] { Settle(); }) {}

  void OnFdReady(uint32_t /*events*/) override { Settle(); }
  // Reads events until the descriptor will tell of the next.
  void Settle();
  // False when there is none.
  bool ReadOne();
  void ReadError();
  // Private data as the peer has sent them. The verbs provider takes the first
  // byte of all that comes for the number of others. More than its own peers
  // can send are another peer's: that byte is put in front of `data` again,
  // where there is room for it.
  absl::Span<const uint8_t> AsSent(uint8_t* data, size_t size) const;
  Handler* Find(fid* object) const;

  Reactor* const reactor_;
  const std::shared_ptr<FabricDomain> domain_;
  Fid<fid_eq> queue_;
  int fd_ = -1;
  bool watched_ = false;
  bool stopped_ = false;
  std::unordered_map<fid_t, Handler*> handlers_;
  Timer timer_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_EVENT_QUEUE_H_
