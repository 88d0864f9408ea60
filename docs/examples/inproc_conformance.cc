// What the conformance suite has to know about the transport of this folder.
// Linked with //testing/transport_conformance:main, it is a program that tests
// it.
#include <memory>
#include <utility>
#include <vector>

#include "inproc_transport.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/epoll_world.h"

using skiff::testing::EpollWorld;
using skiff::testing::ExpectedCapabilities;
using skiff::testing::Side;
using skiff::testing::TransportFactory;
using skiff::testing::TransportWorld;
using skiff::transport::Address;
using skiff::transport::ConnectionRequest;

namespace {

struct Held {
  std::vector<std::unique_ptr<ConnectionRequest>> requests;
  std::unique_ptr<skiff::transport::Listener> listener;
};

// Somebody listens, takes a request, and never answers.
absl::StatusOr<Address> ListenSilently(EpollWorld& world, Held* held) {
  auto listener =
      world.transport(Side::kListening)
          ->Listen(world.reactor(Side::kListening), world.listen_address(), {},
                   [held](std::unique_ptr<ConnectionRequest> one) {
                     held->requests.push_back(std::move(one));
                   });
  if (!listener.ok()) return listener.status();
  held->listener = *std::move(listener);
  return held->listener->address();
}

class InprocFactory : public TransportFactory {
 public:
  std::string name() const override { return "inproc"; }
  // What your devices have; these are byte streams, which have no more to say.
  ExpectedCapabilities expected() const override { return {}; }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    // Your transport, and where to listen.
    return EpollWorld::Create(
        example::MakeInprocTransport(), "inproc://conformance:0", {},
        [held = std::make_shared<Held>()](EpollWorld& world) {
          return ListenSilently(world, held.get());
        });
  }
};

const skiff::testing::LinkedTransport kLinked(
    std::make_unique<InprocFactory>());

}  // namespace
