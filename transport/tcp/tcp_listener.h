#ifndef SKIFF_TRANSPORT_TCP_TCP_LISTENER_H_
#define SKIFF_TRANSPORT_TCP_TCP_LISTENER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/net/scoped_fd.h"
#include "transport/reactor/newcomers.h"
#include "transport/reactor/reactor.h"
#include "transport/tcp/tcp_options.h"
#include "transport/transport.h"

namespace skiff::transport {

// Listens on one address. A host name stands for its first address that can be
// bound; looking it up may block, so that servers had better use numeric
// addresses.
// `[::]` takes IPv4 too unless the option v6only=1 is given.
//
// Connections are taken as the reactor's Newcomers have time; the others wait
// in the kernel's backlog.
class TcpListener final : public Listener,
                          private FdHandler,
                          private Newcomers::Work {
 public:
  static absl::StatusOr<std::unique_ptr<TcpListener>> Create(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      const TcpOptions& settings, AcceptCallback on_request);
  ~TcpListener() override;

  Address address() const override { return address_; }
  std::vector<ListeningDescriptor> ReleaseDescriptors() override;

 private:
  TcpListener(Reactor* reactor, Address address, const ListenOptions& options,
              const TcpOptions& settings, ScopedFd socket,
              AcceptCallback on_request);

  void OnFdReady(uint32_t events) override;
  bool RunAsNewcomer() override;
  bool Take(ScopedFd connection);
  void PauseAfter(int error_number);

  Reactor* const reactor_;
  Address address_;
  const std::function<void(absl::Status)> on_trouble_;
  const TcpOptions settings_;
  ScopedFd socket_;
  AcceptCallback on_request_;
  Timer resume_;
  absl::Time next_complaint_ = absl::InfinitePast();
  // The callback may destroy the listener.
  std::shared_ptr<bool> destroyed_ = std::make_shared<bool>(false);
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_LISTENER_H_
