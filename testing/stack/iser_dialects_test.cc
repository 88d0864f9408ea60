// What a target makes of the two dialects of iSER (docs/iser.md), seen from a
// hand-made initiator.

#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"

namespace skiff::protocol {
namespace {

using transport::Access;

class DialectTest : public RawInitiatorTest {
 protected:
  static constexpr uint32_t kBytes = 4096;
  static constexpr uint32_t kImmediate = 512;

  uint8_t StatusOf(const std::string& message) {
    ScsiResponsePdu response;
    EXPECT_TRUE(Decode(RawIserPeer::BhsOf(message), &response).ok());
    return response.status;
  }
  // Writes with immediate data; the rest is in memory from `base` on.
  void Write(const std::string& immediate, transport::RemoteBuffer base) {
    peer_.Send(ToIser(Command(0, kBytes), immediate, Reading(base)));
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    EXPECT_EQ(StatusOf(*answer), 0);
  }
  std::string ReadBack() {
    const auto memory = Buffer(kBytes, Access::kRemoteWrite);
    peer_.Send(ToIser(Command(kBytes, 0), "", Writing(memory->Remote())));
    const std::optional<std::string> answer = peer_.Next();
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(StatusOf(answer.value_or(std::string(kIserControlSize, 'x'))), 0);
    EXPECT_TRUE(memory->GuardsAreIntact());
    return memory->Content();
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, DialectTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(DialectTest, IsLogged) {
  LogIn();
  EXPECT_THAT(log_, ::testing::Contains(::testing::HasSubstr(
                        "attacker logged in to iqn.2001-04.com.example:disk, "
                        "iSER as deployed, write base offset of solicited "
                        "data")));
  EXPECT_THAT(stack_.log,
              ::testing::Contains(::testing::HasSubstr(
                  "connected, iSER RFC 7145, write base offset of solicited "
                  "data")));
}

// Linux's initiator and libiscsi name the first byte that they do not send.
TEST_P(DialectTest, TheDeployedBaseIsThatOfTheSolicitedData) {
  LogIn();
  const std::string data =
      std::string(kImmediate, 'i') + std::string(kBytes - kImmediate, 's');
  const auto memory = Buffer(kBytes, Access::kRemoteRead);
  data.copy(memory->data(), kBytes);
  transport::RemoteBuffer base = memory->Remote();
  base.address += kImmediate;
  Write(data.substr(0, kImmediate), base);
  EXPECT_EQ(ReadBack(), data);
}

// Who shows that he knows RFC 7145, and does not say
// TaggedBufferForSolicitedDataOnly=Yes, names the first byte of all.
TEST_P(DialectTest, TheRfcsBaseIsThatOfTheWholeBuffer) {
  LogIn(
      "InitialR2T=Yes|ImmediateData=Yes|MaxOutstandingUnexpectedPDUs=8|"
      "TaggedBufferForSolicitedDataOnly=No|");
  const std::string data =
      std::string(kImmediate, 'i') + std::string(kBytes - kImmediate, 's');
  const auto memory = Buffer(kBytes, Access::kRemoteRead);
  data.copy(memory->data(), kBytes);
  Write(data.substr(0, kImmediate), memory->Remote());
  EXPECT_EQ(ReadBack(), data);
}

TEST_P(DialectTest, ResponsesInvalidateWhatTheCommandAdvertised) {
  LogIn();
  const auto memory = Buffer(kBytes, Access::kRemoteWrite);
  const transport::RemoteBuffer remote = memory->Remote();
  peer_.Send(ToIser(Command(kBytes, 0), "", Writing(remote)));
  ASSERT_TRUE(peer_.Next().has_value());
  ASSERT_EQ(peer_.invalidated().size(), 1u);
  EXPECT_EQ(peer_.invalidated()[0].value, remote.key.value);
}

// Nobody in the field has room for more than 128 bytes of data in a response.
TEST_P(DialectTest, AnswersToTheDeployedAreShort) {
  LogIn();
  NopOutPdu nop;
  nop.immediate = true;
  nop.initiator_task_tag = 7;
  nop.cmd_sn = cmd_sn_;
  peer_.Send(ToIser(nop, std::string(1000, 'p')));
  const std::optional<std::string> answer = peer_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->size(), kIserControlSize + 128);
}

}  // namespace
}  // namespace skiff::protocol
