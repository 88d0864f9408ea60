#include "testing/transport_conformance/verbs_factory.h"

#include <utility>

#include "testing/transport_conformance/epoll_world.h"
#include "testing/transport_conformance/expected_capabilities.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::testing {
namespace {

class VerbsFactory final : public TransportFactory {
 public:
  VerbsFactory(std::string name, std::string url)
      : name_(std::move(name)), url_(std::move(url)) {}

  std::string name() const override { return name_; }
  ExpectedCapabilities expected() const override {
    return ExpectedCapabilitiesOf(name_);
  }
  // The devices are software in a guest without KVM.
  ConformanceScale scale() const override {
    ConformanceScale scale;
    scale.connects_in_a_row = 200;
    scale.connections_at_once = 100;
    scale.messages = 20'000;
    scale.operations = 500;
    return scale;
  }
  absl::StatusOr<std::unique_ptr<TransportWorld>> MakeWorld() override {
    return EpollWorld::Create(transport::MakeVerbsTransport(), url_);
  }

 private:
  const std::string name_;
  const std::string url_;
};

}  // namespace

std::unique_ptr<TransportFactory> MakeVerbsFactory(std::string name,
                                                   std::string url) {
  return std::make_unique<VerbsFactory>(std::move(name), std::move(url));
}

}  // namespace skiff::testing
