#ifndef SKIFF_TESTING_STACK_WAYS_H_
#define SKIFF_TESTING_STACK_WAYS_H_

#include <memory>
#include <string>

#include "testing/sim/sim_memory.h"
#include "testing/sim/sim_rdma.h"
#include "testing/stack/end_to_end_test_util.h"
#include "transport/memory.h"
#include "transport/registry.h"

namespace skiff::protocol {

// What a test does to one way to a target, and sees of it.
struct Way {
  bool works = true;
  int attempts = 0;
  std::string leads_to;  // In place of whom the address names; empty: nobody.
  // Its device is removed while it connects, and then is here.
  bool breaks = false;
  std::shared_ptr<testing::SimDomain> removed;
  // RDMA: the device of the last attempt.
  transport::MemoryDomain* domain = nullptr;
};

// `auto://server:3260` for a stack: its target listens for byte streams, too,
// and there is a way of either kind, which a test can cut. Outlives the stack's
// initiator.
class Ways {
 public:
  Ways(SimStack* stack, const testing::SimRdmaOptions& fabric);
  // One more way, by RDMA.
  void Add(const char* scheme, Way* way) { Add(scheme, "rdma", way); }

  Way rdma;
  Way streams;

 private:
  void Add(const char* scheme, const char* kind, Way* way);

  SimStack* const stack_;
  const testing::SimRdmaOptions fabric_;
  transport::Registry registry_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_WAYS_H_
