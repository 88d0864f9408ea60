// What a transport is expected to have, it has.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Capabilities;

class CapabilityTest : public ConformancePair {};

SKIFF_CONFORMANCE_SUITE(CapabilityTest, RdmaFactories);

struct Fact {
  const char* name;
  uint64_t expected;
  uint64_t found;
};

std::vector<Fact> Limits(const Capabilities& expected,
                         const Capabilities& found) {
  return {
      {"max_message_bytes", expected.max_message_bytes,
       found.max_message_bytes},
      {"max_transfer_bytes", expected.max_transfer_bytes,
       found.max_transfer_bytes},
      {"max_inline_bytes", expected.max_inline_bytes, found.max_inline_bytes},
      {"max_send_sges", expected.max_send_sges, found.max_send_sges},
      {"max_receive_sges", expected.max_receive_sges, found.max_receive_sges},
      {"max_read_sges", expected.max_read_sges, found.max_read_sges},
      {"max_read_depth", expected.max_read_depth, found.max_read_depth},
      {"max_send_queue", expected.max_send_queue, found.max_send_queue},
      {"max_receive_queue", expected.max_receive_queue,
       found.max_receive_queue},
      {"max_private_data_bytes", expected.max_private_data_bytes,
       found.max_private_data_bytes},
  };
}

std::vector<Fact> Flags(const Capabilities& expected,
                        const Capabilities& found) {
  return {
      {"rdma", expected.rdma, found.rdma},
      {"send_with_invalidate", expected.send_with_invalidate,
       found.send_with_invalidate},
      {"shared_receive_queue", expected.shared_receive_queue,
       found.shared_receive_queue},
      {"memory_windows", expected.memory_windows, found.memory_windows},
      {"receiver_not_ready_retry", expected.receiver_not_ready_retry,
       found.receiver_not_ready_retry},
      {"read_sink_needs_remote_write", expected.read_sink_needs_remote_write,
       found.read_sink_needs_remote_write},
      {"serial_transfers", expected.serial_transfers, found.serial_transfers},
      {"deregistration_ends_access", expected.deregistration_ends_access,
       found.deregistration_ends_access},
  };
}

TEST_P(CapabilityTest, TheDeviceHasWhatItIsExpectedToHave) {
  Connect();
  const Capabilities found =
      client_host().DeviceCapabilities(client().number());
  for (const Fact& fact : Limits(expected().capabilities, found)) {
    EXPECT_GE(fact.found, fact.expected)
        << fact.name << " is less than the table of expected capabilities says";
  }
  for (const Fact& fact : Flags(expected().capabilities, found)) {
    if (fact.expected != 0) {
      EXPECT_EQ(fact.found, 1u)
          << fact.name << " is missing; the table of expected capabilities "
          << "has it";
    } else {
      EXPECT_EQ(fact.found, 0u)
          << fact.name << " is there; the table of expected capabilities says "
          << "that it is not - write it down, so that it is tested";
    }
  }
}

TEST_P(CapabilityTest, TheEndpointHasWhatWasAskedFor) {
  EndPlan plan;
  plan.send_queue = 32;
  plan.receive_queue = 16;
  plan.inline_bytes = 32;
  plan.max_sges = std::min<uint32_t>(2, expected().capabilities.max_send_sges);
  plan.read_depth = 2;
  Connect(plan, plan);
  for (EndHandle* end : {&client(), &server()}) {
    const Capabilities& caps = end->capabilities();
    EXPECT_TRUE(caps.rdma);
    EXPECT_GE(caps.max_send_queue, plan.send_queue);
    EXPECT_GE(caps.max_receive_queue, plan.receive_queue);
    EXPECT_GE(caps.max_send_sges, plan.max_sges);
    EXPECT_GE(caps.max_receive_sges, plan.max_sges);
    EXPECT_GE(caps.max_read_sges, 1u);
    EXPECT_GE(caps.max_read_depth, 1u);
    EXPECT_LE(caps.max_read_depth, 2u) << "more READs than either side wants";
    EXPECT_GE(caps.max_inline_bytes,
              std::min<size_t>(32, expected().capabilities.max_inline_bytes));
    EXPECT_GT(caps.max_message_bytes, 0u);
    EXPECT_GT(caps.max_transfer_bytes, 0u);
    EXPECT_GT(caps.remote_key_bits, 0u);
    EXPECT_LE(caps.remote_key_bits, expected().capabilities.remote_key_bits)
        << "keys are wider than the table of expected capabilities says";
  }
}

TEST_P(CapabilityTest, BothSidesAgreeOnTheReadDepth) {
  EndPlan shallow;
  shallow.read_depth = 1;
  EndPlan deep;
  deep.read_depth = 8;
  Connect(shallow, deep);
  EXPECT_EQ(client().capabilities().max_read_depth, 1u);
  // The listening side may not issue more READs than its peer answers.
  EXPECT_LE(server().capabilities().max_read_depth, 8u);
  EXPECT_GE(server().capabilities().max_read_depth, 1u);
}

}  // namespace
}  // namespace skiff::testing
