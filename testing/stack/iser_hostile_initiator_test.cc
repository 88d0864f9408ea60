// A target against iSER initiators that break the rules: the connection is
// closed with a reason, other sessions go on, and nothing is touched that the
// initiator did not offer.

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using transport::Access;

class HostileInitiatorTest : public RawInitiatorTest {};

INSTANTIATE_TEST_SUITE_P(Fabrics, HostileInitiatorTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

// None and more than four bytes are fine: InfiniBand fills up with zeros.
TEST_P(HostileInitiatorTest, PrivateDataThatAreNotIsers) {
  for (const size_t size : {0, 1, 2, 3, 4, 56}) {
    SCOPED_TRACE(size);
    log_.clear();
    RawIserPeer peer(&stack_.world);
    std::vector<uint8_t> data(size, 0);
    if (size > 0) data[0] = 0xff;
    peer.SetPrivateData(std::move(data));
    const absl::Status connected =
        peer.TryToConnect(*stack_.registry.Find("sim"),
                          stack_.world.AddReactor("attacker"), stack_.portal);
    const bool fine = size == 0 || size >= 4;
    EXPECT_EQ(connected.ok(), fine) << connected;
    const auto refusal = Contains(
        HasSubstr("refused a connection: its private data are not iSER's"));
    if (fine) {
      EXPECT_THAT(log_, ::testing::Not(refusal));
    } else {
      EXPECT_THAT(log_, refusal);
    }
  }
  ExpectServes();
}

TEST_P(HostileInitiatorTest, AMessageThatIsTooShort) {
  for (const size_t size : {0, 1, 27, 28, 75}) {
    RawIserPeer peer(&stack_.world);
    peer.Connect(*stack_.registry.Find("sim"),
                 stack_.world.AddReactor("attacker"), stack_.portal);
    peer.Send(LoginRequest("").substr(0, size));
    EXPECT_TRUE(peer.Closed()) << size;
    EXPECT_THAT(
        log_,
        Contains(HasSubstr(absl::StrCat("iSER message of ", size, " bytes"))));
  }
  ExpectServes();
}

TEST_P(HostileInitiatorTest, ADataSegmentThatIsNotThere) {
  std::string login = LoginRequest("");
  EncodeLengths(reinterpret_cast<uint8_t*>(login.data()) + kIserHeaderSize, 0,
                8000);
  peer_.Send(login);
  ExpectClosed("iSER message of");
}

TEST_P(HostileInitiatorTest, AReservedOpcode) {
  LogIn();
  std::string message = ToIser(Command(0, 0));
  message[0] = '\x70';
  peer_.Send(message);
  ExpectClosed("iSER message of");
}

TEST_P(HostileInitiatorTest, AHelloThatNobodyAskedFor) {
  LogIn();
  peer_.Send(ToIserHello(IserHello()));
  ExpectClosed("iSER Hello");
}

TEST_P(HostileInitiatorTest, AHelloDuringLogin) {
  peer_.Send(ToIserHello(IserHello()));
  ExpectClosed("iSER Hello out of place");
}

TEST_P(HostileInitiatorTest, AHelloReply) {
  LogIn();
  peer_.Send(ToIserHello(IserHelloReply()));
  ExpectClosed("HelloReply from an initiator");
}

TEST_P(HostileInitiatorTest, AReadWithoutAnStag) {
  LogIn();
  peer_.Send(ToIser(Command(4096, 0)));
  ExpectClosed("without a Read STag");
}

TEST_P(HostileInitiatorTest, ABidirectionalCommandWithoutAReadStag) {
  LogIn();
  ScsiCommandPdu pdu = Command(0, 512);
  pdu.read = true;
  pdu.expected_data_transfer_length = 0;
  std::array<uint8_t, kMaxAhsBytes> ahs;
  AhsView view;
  view.has_bidi_read_length = true;
  view.bidi_read_length = 4096;
  const size_t size = EncodeAhs(view, ahs.data());
  std::string message = ToIser(pdu);
  EncodeLengths(reinterpret_cast<uint8_t*>(message.data()) + kIserHeaderSize,
                size, 0);
  message.append(reinterpret_cast<const char*>(ahs.data()), size);
  peer_.Send(message);
  ExpectClosed("without a Read STag");
}

TEST_P(HostileInitiatorTest, AWriteWithoutAnStag) {
  LogIn();
  peer_.Send(ToIser(Command(0, 8192), std::string(512, 'x')));
  ExpectClosed("without a Write STag");
}

TEST_P(HostileInitiatorTest, AnStagWhereNoDataMove) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteWrite);
  NopOutPdu nop;
  nop.immediate = true;
  nop.initiator_task_tag = 7;
  nop.cmd_sn = cmd_sn_;
  peer_.Send(ToIser(nop, "", Writing(memory->Remote())));
  ExpectClosed("an STag in a PDU that moves no data");
}

TEST_P(HostileInitiatorTest, StagsThatDoNotExist) {
  LogIn();
  peer_.Send(ToIser(Command(4096, 0), "", Writing({0x1000, {0xdeadbeef}})));
  ExpectClosed("RDMA Write of 4096 bytes failed");
  const ServerCounts counts = stack_.Counts();
  ASSERT_EQ(counts.portals.size(), 1u);
  EXPECT_EQ(counts.portals[0].counters.rdma_errors, 1u);
}

TEST_P(HostileInitiatorTest, WriteStagsThatDoNotExist) {
  LogIn();
  peer_.Send(ToIser(Command(0, 4096), "", Reading({0x1000, {0xdeadbeef}})));
  ExpectClosed("RDMA Read of 4096 bytes failed");
}

TEST_P(HostileInitiatorTest, AnStagThatWasRevoked) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteWrite);
  const transport::RemoteBuffer remote = memory->Remote();
  memory->Revoke();
  peer_.Send(ToIser(Command(4096, 0), "", Writing(remote)));
  ExpectClosed("RDMA Write of 4096 bytes failed");
  EXPECT_EQ(memory->Content(), std::string(4096, '\xa5'));
}

TEST_P(HostileInitiatorTest, AnStagWithoutThePermission) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteRead);
  peer_.Send(ToIser(Command(4096, 0), "", Writing(memory->Remote())));
  ExpectClosed("RDMA Write of 4096 bytes failed");
  EXPECT_EQ(memory->Content(), std::string(4096, '\xa5'));
}

TEST_P(HostileInitiatorTest, ALengthBeyondTheBuffer) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteWrite);
  peer_.Send(ToIser(Command(8192, 0), "", Writing(memory->Remote())));
  ExpectClosed("failed");
  EXPECT_TRUE(memory->GuardsAreIntact());
}

TEST_P(HostileInitiatorTest, AWriteLengthBeyondTheBuffer) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteRead);
  peer_.Send(ToIser(Command(0, 8192), "", Reading(memory->Remote())));
  ExpectClosed("failed");
}

TEST_P(HostileInitiatorTest, NothingBeyondTheExpectedLengthIsWritten) {
  LogIn();
  const auto memory = Buffer(4096, Access::kRemoteWrite);
  // The CDB wants 16 KiB, the PDU has room for 1 KiB.
  ScsiCommandPdu pdu = Command(16384, 0);
  pdu.expected_data_transfer_length = 1024;
  peer_.Send(ToIser(pdu, "", Writing(memory->Remote())));
  const std::optional<std::string> answer = peer_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(memory->Content().substr(1024), std::string(3072, '\xa5'));
  EXPECT_TRUE(memory->GuardsAreIntact());
}

TEST_P(HostileInitiatorTest, MoreImmediateDataThanAllowed) {
  LogIn("InitialR2T=Yes|ImmediateData=Yes|FirstBurstLength=4096|");
  const auto memory = Buffer(16384, Access::kRemoteRead);
  peer_.Send(ToIser(Command(0, 16384), std::string(8000, 'x'),
                    Reading(memory->Remote())));
  const std::optional<std::string> answer = peer_.Next();
  ASSERT_TRUE(answer.has_value());
  ScsiResponsePdu response;
  ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response).ok());
  EXPECT_EQ(response.status, 2);  // CHECK CONDITION.
  EXPECT_TRUE(peer_.connected());
  ExpectServes();
}

TEST_P(HostileInitiatorTest, ImmediateDataThoughThereShallBeNone) {
  LogIn("InitialR2T=Yes|ImmediateData=No|");
  const auto memory = Buffer(4096, Access::kRemoteRead);
  for (const uint32_t rest : {3584u, 0u}) {
    SCOPED_TRACE(rest);
    ScsiCommandPdu write = Command(0, 512 + rest);
    const std::string message =
        ToIser(write, std::string(512, 'x'),
               rest > 0 ? Reading(memory->Remote()) : IserControlHeader());
    peer_.Send(message);
    ExpectAbortedCommand(0x0c, 0x0c);  // UNEXPECTED UNSOLICITED DATA.
  }
  ExpectStillServed();
  ExpectServes();
}

TEST_P(HostileInitiatorTest, DataOutThatNobodyAskedFor) {
  LogIn();
  ScsiDataOutPdu data;
  data.final = true;
  data.initiator_task_tag = 5;
  data.target_transfer_tag = 0x1234;
  peer_.Send(ToIser(data, "data"));
  ExpectClosed("solicited Data-Out over iSER");
}

TEST_P(HostileInitiatorTest, AnUnsolicitedDataOutWithoutACommand) {
  LogIn();
  ScsiDataOutPdu data;
  data.final = true;
  data.initiator_task_tag = 5;
  data.target_transfer_tag = kReservedTag;
  peer_.Send(ToIser(data, "data"));
  // It may belong to a task that has ended: it is dropped.
  peer_.Send(ToIser(Command(0, 0)));
  EXPECT_TRUE(peer_.Next().has_value());
}

TEST_P(HostileInitiatorTest, InvalidatingAKeyOfTheTarget) {
  LogIn();
  peer_.Send(ToIser(Command(0, 0)), 0x42);
  EXPECT_TRUE(peer_.Closed());
  ExpectServes();
}

TEST_P(HostileInitiatorTest, PdusAfterTheLogout) {
  LogIn();
  LogoutRequestPdu logout;
  logout.immediate = true;
  logout.initiator_task_tag = 9;
  logout.cmd_sn = cmd_sn_;
  peer_.Send(ToIser(logout));
  const auto memory = Buffer(4096, Access::kRemoteWrite);
  for (int i = 0; i < 10; ++i) {
    peer_.Send(ToIser(Command(4096, 0), "", Writing(memory->Remote())));
  }
  ExpectClosed("logged out");
  EXPECT_EQ(memory->Content(), std::string(4096, '\xa5'));
}

// Requests of which nobody takes the answers: what waits is bounded, and in the
// end the connection is dropped.
TEST_P(HostileInitiatorTest, AFloodOfPings) {
  LogIn();
  peer_.StopPosting();
  for (uint32_t i = 0; i < 5000 && peer_.connected(); ++i) {
    NopOutPdu nop;
    nop.immediate = true;
    nop.initiator_task_tag = 1000 + i;
    nop.cmd_sn = cmd_sn_;
    peer_.Send(ToIser(nop));
    stack_.world.RunFor(absl::Microseconds(10));
    peer_.Poll();
  }
  EXPECT_TRUE(peer_.Closed(absl::Minutes(3)));
  ExpectServes();
}

// More at once than there are receives.
TEST_P(HostileInitiatorTest, ABurstOfUnexpectedPdus) {
  LogIn();
  for (uint32_t i = 0; i < 250; ++i) {
    NopOutPdu nop;
    nop.immediate = true;
    nop.initiator_task_tag = 1000 + i;
    nop.cmd_sn = cmd_sn_;
    peer_.Send(ToIser(nop));
  }
  stack_.world.RunFor(absl::Seconds(20));
  peer_.Poll();
  ExpectServes();
}

}  // namespace
}  // namespace skiff::protocol
