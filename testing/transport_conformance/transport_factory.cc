#include "testing/transport_conformance/transport_factory.h"

#include <utility>

namespace skiff::testing {
namespace {

// Filled by main() before the tests are made, and never destroyed: tests'
// parameters point into it.
std::vector<std::unique_ptr<TransportFactory>>& Factories() {
  static auto* const kFactories =
      new std::vector<std::unique_ptr<TransportFactory>>;
  return *kFactories;
}

std::vector<TransportFactory*> FactoriesOf(bool rdma) {
  std::vector<TransportFactory*> chosen;
  for (const auto& factory : Factories()) {
    if (factory->expected().capabilities.rdma == rdma) {
      chosen.push_back(factory.get());
    }
  }
  return chosen;
}

ScaleOverride& Wanted() {
  static ScaleOverride wanted;
  return wanted;
}

}  // namespace

void OverrideScale(const ScaleOverride& wanted) { Wanted() = wanted; }

ConformanceScale EffectiveScale(const TransportFactory& factory) {
  ConformanceScale scale = factory.scale();
  const ScaleOverride& wanted = Wanted();
  if (wanted.connections > 0) {
    scale.connects_in_a_row = wanted.connections;
    scale.connections_at_once = wanted.connections;
  }
  if (wanted.messages > 0) scale.messages = wanted.messages;
  if (wanted.operations > 0) scale.operations = wanted.operations;
  return scale;
}

absl::Status TransportWorld::CutCable() {
  return absl::UnimplementedError("no cable here that a test can pull");
}

absl::Status TransportWorld::KillPeer() {
  return absl::UnimplementedError("no peer here that a test can kill");
}

absl::StatusOr<transport::Address> TransportWorld::SilentAddress() {
  return absl::UnimplementedError("no address here that is silent");
}

void PrintTo(const TransportFactory* factory, std::ostream* out) {
  *out << factory->name();
}

void AddTransportFactory(std::unique_ptr<TransportFactory> factory) {
  Factories().push_back(std::move(factory));
}

std::vector<TransportFactory*> RdmaFactories() { return FactoriesOf(true); }
std::vector<TransportFactory*> StreamFactories() { return FactoriesOf(false); }

std::vector<TransportFactory*> AllFactories() {
  std::vector<TransportFactory*> all;
  for (const auto& factory : Factories()) all.push_back(factory.get());
  return all;
}

}  // namespace skiff::testing
