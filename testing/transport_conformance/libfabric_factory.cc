#include "testing/transport_conformance/libfabric_factory.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "testing/transport_conformance/epoll_world.h"
#include "testing/transport_conformance/expected_capabilities.h"
#include "transport/libfabric/libfabric_transport.h"

namespace skiff::testing {
namespace {

class LibfabricFactory final : public TransportFactory {
 public:
  LibfabricFactory(std::string name, std::string address,
                   const transport::EpollReactorOptions& reactors = {})
      : name_(std::move(name)),
        address_(std::move(address)),
        reactors_(reactors) {}

  std::string name() const override {
    return spinning() ? absl::StrCat(name_, "_spinning") : name_;
  }
  ExpectedCapabilities expected() const override {
    return ExpectedCapabilitiesOf(name_);
  }
  ConformanceScale scale() const override {
    ConformanceScale scale;
    // Software providers: a connection takes several descriptors and, in the
    // sockets provider, threads.
    scale.connections_at_once = 100;
    scale.connects_in_a_row = 300;
    scale.messages = 100'000;
    if (absl::StrContains(name_, "rxm")) {
      // An endpoint of it takes megabytes, and half a second under a
      // sanitizer; a connection has ten for both of its endpoints and those
      // before it.
      scale.connections_at_once = 4;
      scale.connects_in_a_row = 30;
    }
    if (absl::StrContains(name_, "verbs")) {
      // The devices are software in a guest without KVM, where each of the
      // 130 system calls of a connection's life takes up to a millisecond.
      scale.connections_at_once = 50;
      scale.connects_in_a_row = 100;
      scale.messages = 20'000;
      scale.operations = 500;
    }
    return scale;
  }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    return EpollWorld::Create(transport::MakeLibfabricTransport(), address_,
                              reactors_);
  }

 private:
  bool spinning() const { return reactors_.spin == absl::InfiniteDuration(); }

  const std::string name_;
  const std::string address_;
  const transport::EpollReactorOptions reactors_;
};

}  // namespace

std::unique_ptr<TransportFactory> MakeLibfabricFactory(std::string name,
                                                       std::string address) {
  return std::make_unique<LibfabricFactory>(std::move(name),
                                            std::move(address));
}

std::unique_ptr<TransportFactory> MakeLibfabricLoopbackFactory(
    const std::string& provider,
    const transport::EpollReactorOptions& reactors) {
  return std::make_unique<LibfabricFactory>(
      absl::StrCat("libfabric_", absl::StrReplaceAll(provider, {{";", "_"}})),
      absl::StrCat("libfabric://127.0.0.1:0?provider=", provider), reactors);
}

}  // namespace skiff::testing
