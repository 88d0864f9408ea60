// A session that moves to the other data model while a transfer hangs on the
// way of the old one: takes a network that is cut and healed, in virtual time.
// reinstatement.cc has the rest.

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/datamover_conformance/transfer.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

class LateTransferTest : public ::testing::Test {
 protected:
  LateTransferTest() : stack_(1, 1, testing::SimRdmaOptions::InfiniBand()) {
    stack_.StopServer();
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
    streams_ = stack_.Listen(stack_.StreamAddress());
  }

  void ConnectOver(const std::string& portal) {
    InitiatorOptions options = stack_.Options();
    options.portal = transport::Address::Parse(portal).value();
    options.offer.immediate_data = false;
    stack_.Connect(options);
    // At once: nobody waits for the pings of an old session to fail.
    ASSERT_TRUE(stack_.RunUntil([this] { return stack_.ready().has_value(); },
                                absl::Seconds(1)));
    ASSERT_TRUE(stack_.ready()->ok()) << *stack_.ready();
  }

  std::vector<std::string> log_;
  TestCommand hangs_{scsi::cdb::Write(0, kFilledBytes / kBlock), 0,
                     std::string(kFilledBytes, 'x')};
  SimStack stack_;
  std::string streams_;
};

// What the old session had begun to move does not come over what the new one
// wrote.
TEST_F(LateTransferTest, IsOver) {
  ConnectOver(stack_.portal);
  FillDisk(&stack_, '1');
  testing::LinkOptions slow = testing::LinkOptions::Calm();
  slow.bytes_per_second = 10 << 20;
  const std::string old_host = stack_.client_reactor->host();
  stack_.world.network().SetLink(old_host, "server", slow);
  stack_.initiator->Submit(&hangs_.command);
  stack_.world.RunFor(absl::Milliseconds(20));
  ASSERT_FALSE(hangs_.finished);
  stack_.LeaveHost();
  ConnectOver(streams_);
  EXPECT_EQ(stack_.initiator->data_model(), "iSCSI");
  EXPECT_THAT(absl::StrJoin(log_, "\n"), HasSubstr("reinstated"));
  FillDisk(&stack_, '2');
  stack_.world.network().Heal(old_host, "server");
  // Not so long that the old host comes back and sends its command again.
  stack_.world.RunFor(absl::Milliseconds(50));
  EXPECT_EQ(DiskIsFullOf(&stack_), '2');
}

}  // namespace
}  // namespace skiff::protocol
