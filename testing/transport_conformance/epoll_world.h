#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_EPOLL_WORLD_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_EPOLL_WORLD_H_

#include <functional>
#include <memory>
#include <vector>

#include "testing/transport_conformance/transport_factory.h"
#include "transport/net/scoped_fd.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::testing {

// A world in real time for transports that work over EpollReactors: both ends
// in this process, over the loopback or one device.
class EpollWorld : public TransportWorld {
 public:
  // Finds the SilentAddress() of a world that is ready, and keeps there what
  // makes it silent.
  using Silent =
      std::function<absl::StatusOr<transport::Address>(EpollWorld& world)>;

  // `address` is where to listen, for example "tcp://127.0.0.1:0". `silent` is
  // for transports that do not connect through sockets of IP.
  static absl::StatusOr<std::unique_ptr<TransportWorld>> Create(
      std::unique_ptr<transport::Transport> transport,
      absl::string_view address,
      const transport::EpollReactorOptions& options = {},
      Silent silent = nullptr);

  transport::Transport* transport(Side /*side*/) override {
    return transport_.get();
  }
  transport::Reactor* reactor(Side side) override {
    return reactors_[static_cast<size_t>(side)].get();
  }
  transport::Reactor* AddReactor(Side side) override;
  transport::Address listen_address() override { return address_; }
  bool real_time() const override { return true; }
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override;
  absl::StatusOr<transport::Address> SilentAddress() override;

 private:
  EpollWorld(std::unique_ptr<transport::Transport> transport,
             transport::Address address,
             const transport::EpollReactorOptions& options, Silent silent)
      : transport_(std::move(transport)),
        address_(std::move(address)),
        options_(options),
        find_silent_(std::move(silent)) {}

  absl::Status Add();
  // Waits until a reactor has something to do, or a moment.
  void Wait();

  const std::unique_ptr<transport::Transport> transport_;
  const transport::Address address_;
  const transport::EpollReactorOptions options_;
  std::vector<std::unique_ptr<transport::EpollReactor>> reactors_;
  // Of SilentAddress(). What it keeps goes before the reactors.
  std::vector<transport::ScopedFd> silent_;
  const Silent find_silent_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_EPOLL_WORLD_H_
