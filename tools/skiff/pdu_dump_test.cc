#include "tools/skiff/pdu_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/wire_test_util.h"
#include "tools/skiff/pdu_text.h"
#include "transport/trace/pcapng.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHost[] = "10.0.0.2:41234";
constexpr char kPortal[] = "10.0.0.1:3260";

// A capture by the initiator.
class PduDumpTest : public ::testing::Test {
 protected:
  void Capture(bool sent, absl::string_view bytes,
               absl::string_view comment = "") {
    absl::StrAppend(&file_, conversation_.Data(sent, when_, bytes, comment));
    when_ += absl::Milliseconds(1);
  }
  void LogIn(absl::string_view keys) {
    protocol::LoginRequestPdu request;
    request.transit = true;
    request.csg = protocol::LoginStage::kOperational;
    request.nsg = protocol::LoginStage::kFullFeature;
    request.initiator_task_tag = 0x11;
    Capture(true, protocol::ToWire(request, std::string("A=1\0B=2\0", 8)));
    protocol::LoginResponsePdu response;
    response.transit = true;
    response.csg = protocol::LoginStage::kOperational;
    response.nsg = protocol::LoginStage::kFullFeature;
    response.initiator_task_tag = 0x11;
    Capture(false, protocol::ToWire(response, keys));
  }
  std::string Dumped() {
    const auto text = DumpPdus(file_);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  absl::Time when_ = absl::FromUnixSeconds(1000);
  std::string file_ = transport::PcapngHeader();
  transport::PcapngConversation conversation_ =
      transport::PcapngConversation::Create(kHost, kPortal).value();
};

TEST_F(PduDumpTest, PrintsALogin) {
  LogIn(std::string("C=3\0", 4));
  EXPECT_EQ(Dumped(),
            "0.000000 10.0.0.2:41234 > 10.0.0.1:3260 Login Request ITT=0x11 "
            "I CSG=1 NSG=3 T CID=0 TSIH=0 CmdSN=0 ExpStatSN=0 Data=8\n"
            "    A=1\n"
            "    B=2\n"
            "0.001000 10.0.0.1:3260 > 10.0.0.2:41234 Login Response ITT=0x11 "
            "CSG=1 NSG=3 T TSIH=0 StatSN=0 ExpCmdSN=0 MaxCmdSN=0 success "
            "(0x0000) Data=4\n"
            "    C=3\n");
}

// A capture of iSER says what was made up.
TEST_F(PduDumpTest, PrintsCommentsBesideTheirPdu) {
  LogIn("");
  const protocol::ScsiDataInPdu data_in;
  const std::string data(transport::PcapngConversation::kMaxSegment, 'd');
  Capture(false, protocol::ToWire(data_in, data), "reconstructed");
  const protocol::NopInPdu ping;
  Capture(false, protocol::ToWire(ping, ""));
  const std::string text = Dumped();
  EXPECT_THAT(text, HasSubstr("Data=32768  # reconstructed\n"));
  EXPECT_THAT(text, HasSubstr("MaxCmdSN=0\n"));
}

TEST_F(PduDumpTest, PutsSplitPdusTogetherAndPassesOverDigests) {
  LogIn(std::string("HeaderDigest=CRC32C\0DataDigest=CRC32C\0", 38));
  protocol::NopOutPdu ping;
  ping.initiator_task_tag = 5;
  const std::string wire =
      protocol::ToWire(ping, "abc", {.header = true, .data = true});
  const std::string two = wire + wire;
  for (size_t at = 0; at < two.size(); at += 7) {
    Capture(true, absl::string_view(two).substr(at, 7));
  }
  const std::string text = Dumped();
  const std::string line = "NOP-Out ITT=0x5 CmdSN=0 ExpStatSN=0 Data=3\n";
  const size_t first = text.find(line);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find(line, first + 1), std::string::npos) << text;
}

// The target's capture of the same connection tells nothing new.
TEST_F(PduDumpTest, AConnectionWithBothEndsIsThereOnce) {
  LogIn("");
  const std::string once = Dumped();
  auto other = transport::PcapngConversation::Create(kPortal, kHost).value();
  const std::string file = file_;
  protocol::LoginRequestPdu request;
  request.transit = true;
  request.csg = protocol::LoginStage::kOperational;
  request.nsg = protocol::LoginStage::kFullFeature;
  request.initiator_task_tag = 0x11;
  absl::StrAppend(
      &file_,
      other.Data(false, when_,
                 protocol::ToWire(request, std::string("A=1\0B=2\0", 8))));
  EXPECT_NE(file_, file);
  EXPECT_EQ(Dumped(), once);
}

TEST_F(PduDumpTest, SaysWhatIsNoPdu) {
  Capture(true, std::string(48, '\0'));
  EXPECT_THAT(Dumped(),
              HasSubstr("no PDUs from here on: there is no login before"));
}

TEST_F(PduDumpTest, SaysWhatIsCutOff) {
  LogIn("");
  Capture(true, std::string(47, '\0'));
  EXPECT_THAT(Dumped(), HasSubstr("10.0.0.2:41234 > 10.0.0.1:3260 ends with 47 "
                                  "bytes of a PDU\n"));
}

TEST_F(PduDumpTest, RefusesWhatIsNoCapture) {
  EXPECT_FALSE(DumpPdus("what").ok());
}

TEST(PduTextTest, NamesTheFieldsOfCommandsAndTheirAnswers) {
  protocol::Bhs bhs;
  protocol::ScsiCommandPdu command;
  command.write = true;
  command.initiator_task_tag = 0xab;
  command.expected_data_transfer_length = 4096;
  command.cdb[0] = 0x2a;
  protocol::Encode(command, bhs.data());
  EXPECT_EQ(PduText(bhs.data(), ""),
            "SCSI Command ITT=0xab LUN=0x0000000000000000 W F EDTL=4096 "
            "CmdSN=0 ExpStatSN=0 CDB=2a000000000000000000000000000000");
  protocol::ScsiResponsePdu response;
  response.initiator_task_tag = 0xab;
  response.status = 2;
  protocol::Encode(response, bhs.data());
  EXPECT_EQ(PduText(bhs.data(), ""),
            "SCSI Response ITT=0xab Response=0 Status=0x02 StatSN=0 ExpCmdSN=0 "
            "MaxCmdSN=0 Residual=0");
}

TEST(PduTextTest, EscapesWhatAPeerSent) {
  protocol::Bhs bhs;
  protocol::TextRequestPdu request;
  protocol::Encode(request, bhs.data());
  EXPECT_THAT(PduText(bhs.data(), "A=\x1b[2J"), Not(HasSubstr("\x1b")));
}

TEST(PduTextTest, NamesABadField) {
  protocol::Bhs bhs = {};
  bhs[0] = 0x01;  // A SCSI Command with neither F nor W.
  EXPECT_THAT(PduText(bhs.data(), ""),
              HasSubstr("SCSI Command ITT=0x0 (bad F)"));
  bhs[0] = 0x3e;
  EXPECT_THAT(PduText(bhs.data(), ""), HasSubstr("0x3e (vendor-specific)"));
}

}  // namespace
}  // namespace skiff::tools
