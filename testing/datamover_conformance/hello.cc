// What RFC 7145 has and nobody in the field does, Hello and HelloReply above
// all (section 5.1.3), between an initiator and a target of ours: over every
// network with RDMA.

#include "gtest/gtest.h"
#include "testing/datamover_conformance/network.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

class HelloTest : public ::testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(Networks, HelloTest,
                         ::testing::ValuesIn(RdmaNetworks()), NetworkName());

TEST_P(HelloTest, OursUnderstandEachOther) {
  for (const bool solicited_only : {false, true}) {
    SCOPED_TRACE(::testing::Message()
                 << "TaggedBufferForSolicitedDataOnly " << solicited_only);
    const auto stack = GetParam().MakeStack(1);
    InitiatorOptions options = stack->Options();
    options.offer.iser.hello_required = true;
    options.offer.iser.tagged_buffer_for_solicited_data_only = solicited_only;
    stack->LogIn(options);
    const IserParameters& iser = stack->initiator->parameters().iser;
    EXPECT_TRUE(iser.hello_required);
    EXPECT_EQ(iser.tagged_buffer_for_solicited_data_only, solicited_only);
    stack->RunLoad();
    EXPECT_EQ(stack->initiator->stats().reconnects, 0u);
  }
}

}  // namespace
}  // namespace skiff::protocol
