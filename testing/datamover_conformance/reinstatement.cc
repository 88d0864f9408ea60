// A session that moves to the other data model: the initiator comes back over
// another kind of transport while the target still believes in the old one.
// Over every network; those without RDMA have a second portal of their kind.

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "testing/datamover_conformance/network.h"
#include "testing/datamover_conformance/transfer.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

class ReinstatementTest : public ::testing::TestWithParam<Network> {
 protected:
  ReinstatementTest() : stack_(GetParam().MakeStack(1)) {
    stack_->StopServer();
    // The target does not find out by itself.
    stack_->server_options.limits.session.nop_interval = absl::ZeroDuration();
    stack_->StartServer();
    streams_ = stack_->Listen(stack_->StreamAddress());
  }

  // The same initiator port, from another host. The host that it was on before
  // is not heard of any more.
  void ComeBackOver(const std::string& portal) {
    if (stack_->initiator != nullptr) stack_->LeaveHost();
    InitiatorOptions options = stack_->Options();
    options.portal = transport::Address::Parse(portal).value();
    options.offer.immediate_data = false;
    stack_->LogIn(options);
  }

  const std::unique_ptr<Stack> stack_;
  std::string streams_;
};

INSTANTIATE_TEST_SUITE_P(Networks, ReinstatementTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

TEST_P(ReinstatementTest, OverTheOtherDataModelAndBack) {
  ComeBackOver(stack_->portal);
  EXPECT_EQ(stack_->initiator->data_model(), GetParam().data_model);
  FillDisk(stack_.get(), '1');
  ComeBackOver(streams_);
  EXPECT_EQ(stack_->initiator->data_model(), "iSCSI");
  EXPECT_EQ(DiskIsFullOf(stack_.get()), '1');
  FillDisk(stack_.get(), '2');
  ComeBackOver(stack_->portal);
  EXPECT_EQ(stack_->initiator->data_model(), GetParam().data_model);
  EXPECT_EQ(DiskIsFullOf(stack_.get()), '2');
  FillDisk(stack_.get(), '3');
  EXPECT_EQ(DiskIsFullOf(stack_.get()), '3');
}

}  // namespace
}  // namespace skiff::protocol
