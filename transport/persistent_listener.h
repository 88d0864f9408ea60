#ifndef SKIFF_TRANSPORT_PERSISTENT_LISTENER_H_
#define SKIFF_TRANSPORT_PERSISTENT_LISTENER_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/reactor/newcomers.h"
#include "transport/reactor/reactor.h"
#include "transport/transport.h"

namespace skiff::transport {

// Where listening has ended by itself, listens on the same address and port
// again, every `options.retry_interval` until that succeeds: a device that was
// removed may come back. Lives on one reactor; not thread-safe.
//
// Its callback is called as work of the reactor's Newcomers. Requests of
// transports that do not wait for these are kept until then, and rejected where
// more than `options.backlog` would be. `options.on_trouble` hears of that.
class PersistentListener final : public Listener, private Newcomers::Work {
 public:
  // An error if listening fails now. `options.on_change` (may not be null) is
  // told, and then `options.on_failure` if it is not tried again.
  static absl::StatusOr<std::unique_ptr<PersistentListener>> Create(
      Transport* transport, Reactor* reactor, const Address& address,
      const ListenOptions& options, AcceptCallback on_request);

  Address address() const override { return address_; }
  // As they were when it last began to listen.
  std::vector<Address> addresses() const override { return addresses_; }
  std::vector<ListeningDescriptor> ReleaseDescriptors() override {
    return ended_ ? std::vector<ListeningDescriptor>()
                  : listener_->ReleaseDescriptors();
  }

 private:
  PersistentListener(Transport* transport, Reactor* reactor,
                     const Address& address, const ListenOptions& options,
                     AcceptCallback on_request);
  absl::Status Listen();
  void Take(std::unique_ptr<ConnectionRequest> request);
  void TellOfRejected();
  bool RunAsNewcomer() override;
  void Ended(const absl::Status& why);
  void Retry();

  Transport* const transport_;
  Reactor* const reactor_;
  Address address_;
  std::vector<Address> addresses_;
  const ListenOptions options_;
  AcceptCallback on_request_;
  bool ended_ = false;
  std::string told_;        // Why it does not listen.
  bool rejecting_ = false;  // That was told.
  Timer retry_;
  std::unique_ptr<Listener> listener_;
  // Not told yet; they go before the listener.
  std::deque<std::unique_ptr<ConnectionRequest>> requests_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_PERSISTENT_LISTENER_H_
