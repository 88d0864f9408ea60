#ifndef SKIFF_TESTING_STACK_FABRICS_H_
#define SKIFF_TESTING_STACK_FABRICS_H_

#include <optional>
#include <ostream>

#include "gtest/gtest.h"
#include "testing/sim/sim_rdma.h"

namespace skiff::protocol {

// A kind of simulated network that tests run over. The SCSI outcome is the
// same.
struct Fabric {
  const char* name;
  const char* data_model;
  std::optional<testing::SimRdmaOptions> rdma;  // Else byte streams.
};

inline void PrintTo(const Fabric& fabric, std::ostream* out) {
  *out << fabric.name;
}

inline Fabric Stream() { return {"Stream", "iSCSI", std::nullopt}; }
inline Fabric InfiniBand() {
  return {"InfiniBand", "iSER", testing::SimRdmaOptions::InfiniBand()};
}
// No retries for receives that are missing, one piece for the sink of a read,
// and that one writable.
inline Fabric Iwarp() {
  return {"Iwarp", "iSER", testing::SimRdmaOptions::Iwarp()};
}
// Without memory windows, and addresses that count from zero: what many of
// libfabric's providers are like.
inline Fabric Plain() {
  testing::SimRdmaOptions options = testing::SimRdmaOptions::Iwarp();
  options.capabilities.memory_windows = false;
  options.capabilities.send_with_invalidate = false;
  options.zero_based_addresses = true;
  return {"Plain", "iSER", options};
}

inline auto AllFabrics() {
  return ::testing::Values(Stream(), InfiniBand(), Iwarp(), Plain());
}

struct FabricName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_FABRICS_H_
