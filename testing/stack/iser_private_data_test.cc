// What initiators and targets make of what the other one says while it
// connects: four bytes of iSER, with or without their number in front.

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

using Bytes = std::vector<uint8_t>;

class PrivateDataOfInitiatorsTest : public RawInitiatorTest {
 protected:
  // Connects anew, saying this. What the target answers.
  Bytes AnswerTo(const Bytes& said, RawIserPeer* peer) {
    peer->SetPrivateData(said);
    peer->Connect(*stack_.registry.Find("sim"),
                  stack_.world.AddReactor("other"), stack_.portal);
    const auto answer = peer->endpoint()->peer_private_data();
    return {answer.begin(), answer.end()};
  }
  // Whether the response to a read takes its key out of use.
  bool IsInvalidated(RawIserPeer* peer) {
    cmd_sn_ = 1;
    peer->Send(LoginRequest("InitialR2T=Yes|ImmediateData=Yes|"));
    EXPECT_TRUE(peer->Next().has_value());
    peer->Send(ToIser(Command(0, 0)));  // The unit attention of a new nexus.
    EXPECT_TRUE(peer->Next().has_value());
    RawIserPeer::Memory memory(peer->endpoint()->domain(), kBlock,
                               transport::Access::kRemoteWrite);
    peer->Send(ToIser(Command(kBlock, 0), "", Writing(memory.Remote())));
    EXPECT_TRUE(peer->Next().has_value());
    EXPECT_EQ(memory.Content(), std::string(kBlock, 'm'));
    return !peer->invalidated().empty();
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, PrivateDataOfInitiatorsTest,
                         ::testing::Bool(), [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(PrivateDataOfInitiatorsTest, AreAnsweredInTheirForm) {
  const struct {
    Bytes said;
    Bytes answer;
    bool invalidated;
  } cases[] = {
      {{0x80, 0, 0, 0}, {0x80, 0, 0, 0}, true},
      {{0xc0, 0, 0, 0}, {0xc0, 0, 0, 0}, false},
      {{4, 0x80, 0, 0, 0}, {4, 0x80, 0, 0, 0}, true},
      {{4, 0xc0, 0, 0, 0}, {4, 0xc0, 0, 0, 0}, false},
      {{}, {0xc0, 0, 0, 0}, false},
  };
  for (const auto& [said, answer, invalidated] : cases) {
    SCOPED_TRACE(::testing::PrintToString(said));
    RawIserPeer peer(&stack_.world);
    EXPECT_EQ(AnswerTo(said, &peer), answer);
    EXPECT_EQ(IsInvalidated(&peer), invalidated);
  }
  ExpectServes();
}

// Whose device has no memory windows, so that targets must not invalidate keys.
class PrivateDataOfTargetsTest : public RawTargetTest {
 protected:
  PrivateDataOfTargetsTest() : RawTargetTest(Fabric()) {}

  static testing::SimRdmaOptions Fabric() {
    testing::SimRdmaOptions fabric =
        GetParam() ? testing::SimRdmaOptions::Iwarp()
                   : testing::SimRdmaOptions::InfiniBand();
    fabric.capabilities.memory_windows = false;
    return fabric;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, PrivateDataOfTargetsTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(PrivateDataOfTargetsTest, TheyHaveNotUnderstood) {
  for (const Bytes& answer : {Bytes{0x80, 0, 0, 0}, Bytes{4, 0x80, 0, 0, 0}}) {
    SCOPED_TRACE(::testing::PrintToString(answer));
    peer_.SetPrivateData(answer);
    Connect();
    ExpectRefused("the target is about to invalidate keys remotely");
    EXPECT_TRUE(peer_.Closed());
    peer_.AcceptAnother();
  }
}

TEST_P(PrivateDataOfTargetsTest, TheyHaveUnderstoodOrDoNotSay) {
  for (const Bytes& answer :
       {Bytes{}, Bytes(56, 0), Bytes{0xc0, 0, 0, 0}, Bytes{4, 0xc0, 0, 0, 0}}) {
    SCOPED_TRACE(::testing::PrintToString(answer));
    peer_.SetPrivateData(answer);
    ASSERT_NO_FATAL_FAILURE(LogIn());
    ExpectReads();
    stack_.initiator.reset();
    peer_.AcceptAnother();
    login_.Restart();
  }
}

}  // namespace
}  // namespace skiff::protocol
