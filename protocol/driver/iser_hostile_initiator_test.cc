// A target against iSER initiators that break the rules: the connection is
// closed with a reason, other sessions go on, and nothing is touched that the
// initiator did not offer.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/driver/end_to_end_test_util.h"
#include "protocol/driver/iser_raw_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SimRdmaOptions;
using transport::Access;

class HostileInitiatorTest : public ::testing::TestWithParam<bool> {
 protected:
  HostileInitiatorTest()
      : stack_(1, 1,
               GetParam() ? SimRdmaOptions::Iwarp()
                          : SimRdmaOptions::InfiniBand()),
        peer_(&stack_.world) {
    stack_.StopServer();
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
    // The session that must not notice.
    stack_.LogIn();
    peer_.Connect(*stack_.registry.Find("sim"),
                  stack_.world.AddReactor("attacker"), stack_.portal);
  }

  static std::string LoginRequest(const std::string& keys) {
    LoginRequestPdu login;
    login.transit = true;
    login.csg = LoginStage::kOperational;
    login.nsg = LoginStage::kFullFeature;
    login.isid = {0x80, 9, 9, 9, 9, 9};
    login.initiator_task_tag = 1;
    login.cmd_sn = 1;
    const std::string text = absl::StrCat(
        "InitiatorName=iqn.2001-04.com.example:attacker|TargetName=",
        kTargetName, "|RDMAExtensions=Yes|", keys);
    return ToIser(
        login, absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}}));
  }
  void LogIn(const std::string& keys = "InitialR2T=Yes|ImmediateData=Yes|") {
    peer_.Send(LoginRequest(keys));
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    LoginResponsePdu response;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response).ok());
    ASSERT_EQ(response.status_class, 0) << absl::StrJoin(log_, "\n");
    ASSERT_TRUE(response.transit);
    // The unit attention of a new nexus.
    ScsiCommandPdu ready = Command(0, 0);
    peer_.Send(ToIser(ready));
    ASSERT_TRUE(peer_.Next().has_value());
  }

  ScsiCommandPdu Command(uint32_t read, uint32_t write) {
    ScsiCommandPdu pdu;
    pdu.read = read > 0;
    pdu.write = write > 0;
    pdu.initiator_task_tag = ++tag_;
    pdu.expected_data_transfer_length = read + write;
    pdu.cmd_sn = cmd_sn_++;
    const scsi::Cdb cdb = read > 0    ? scsi::cdb::Read(0, read / kBlock)
                          : write > 0 ? scsi::cdb::Write(0, write / kBlock)
                                      : scsi::cdb::TestUnitReady();
    std::copy_n(cdb.bytes.begin(), 16, pdu.cdb.begin());
    return pdu;
  }
  static IserControlHeader Reading(transport::RemoteBuffer from) {
    IserControlHeader header;
    header.write_stag_valid = true;
    header.write_stag = static_cast<uint32_t>(from.key.value);
    header.write_base_offset = from.address;
    return header;
  }
  static IserControlHeader Writing(transport::RemoteBuffer to) {
    IserControlHeader header;
    header.read_stag_valid = true;
    header.read_stag = static_cast<uint32_t>(to.key.value);
    header.read_base_offset = to.address;
    return header;
  }
  std::unique_ptr<RawIserPeer::Memory> Buffer(size_t size, Access access) {
    return std::make_unique<RawIserPeer::Memory>(peer_.endpoint()->domain(),
                                                 size, access);
  }

  // It is gone, the log says why, and everybody else is fine.
  void ExpectClosed(const std::string& why) {
    EXPECT_TRUE(peer_.Closed());
    // The target may hear of it later.
    stack_.world.RunFor(absl::Milliseconds(100));
    EXPECT_THAT(log_, Contains(HasSubstr(why)));
    ExpectServes();
  }
  void ExpectServes() {
    TestCommand read(scsi::cdb::Read(0, 8), 8 * kBlock);
    stack_.initiator->Submit(&read.command);
    EXPECT_TRUE(stack_.RunUntil([&] { return read.finished; }));
    EXPECT_EQ(read.command.outcome, scsi::Command::Outcome::kCompleted);
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  }

  std::vector<std::string> log_;
  SimStack stack_;
  RawIserPeer peer_;
  uint32_t tag_ = 100;
  uint32_t cmd_sn_ = 1;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, HostileInitiatorTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

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
  std::string hello(kIserHeaderSize, '\0');
  Encode(IserHello(), reinterpret_cast<uint8_t*>(hello.data()));
  peer_.Send(hello);
  ExpectClosed("iSER Hello");
}

TEST_P(HostileInitiatorTest, AHelloDuringLogin) {
  std::string hello(kIserHeaderSize, '\0');
  Encode(IserHello(), reinterpret_cast<uint8_t*>(hello.data()));
  peer_.Send(hello);
  ExpectClosed("iSER Hello out of place");
}

TEST_P(HostileInitiatorTest, AHelloReply) {
  LogIn();
  std::string reply(kIserHeaderSize, '\0');
  Encode(IserHelloReply(), reinterpret_cast<uint8_t*>(reply.data()));
  peer_.Send(reply);
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
