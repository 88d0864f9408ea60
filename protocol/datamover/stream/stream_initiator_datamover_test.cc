#include "protocol/datamover/stream/stream_initiator_datamover.h"

#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/datamover/stream/stream_initiator_test_util.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kFirstBurst = 4096;
constexpr uint32_t kMaxBurst = 8192;
constexpr uint32_t kSegment = 1024;

Parameters SmallParameters() {
  Parameters parameters;
  parameters.target_max_recv_data_segment_length = kSegment;
  parameters.initiator_max_recv_data_segment_length = 2048;
  parameters.first_burst_length = kFirstBurst;
  parameters.max_burst_length = kMaxBurst;
  return parameters;
}

const uint32_t kSizes[] = {0,
                           1,
                           3,
                           511,
                           512,
                           kSegment - 1,
                           kSegment,
                           kSegment + 1,
                           kFirstBurst - 1,
                           kFirstBurst,
                           kFirstBurst + 1,
                           kMaxBurst - 1,
                           kMaxBurst,
                           kMaxBurst + 1,
                           kFirstBurst + kMaxBurst,
                           3 * kMaxBurst + 7,
                           100003};

// Carries PDUs to and fro until both sides are silent.
void Converse(InitiatorHarness* initiator, ReferenceTarget* target,
              size_t chunk) {
  for (;;) {
    const std::vector<WirePdu> pdus = initiator->Take(chunk);
    if (pdus.empty()) return;
    std::string answer;
    for (const WirePdu& pdu : pdus) answer += target->Handle(pdu);
    initiator->Feed(answer, chunk);
  }
}

// InitialR2T, ImmediateData, MaxOutstandingR2T, digests.
using Combination = std::tuple<bool, bool, uint32_t, bool>;
class DataModelTest : public testing::TestWithParam<Combination> {
 protected:
  Parameters Negotiated() const {
    Parameters parameters = SmallParameters();
    parameters.initial_r2t = std::get<0>(GetParam());
    parameters.immediate_data = std::get<1>(GetParam());
    parameters.max_outstanding_r2t = std::get<2>(GetParam());
    if (std::get<3>(GetParam())) {
      parameters.header_digest = parameters.data_digest = Digest::kCrc32c;
    }
    return parameters;
  }
};

TEST_P(DataModelTest, WritesEverySizeInEveryPiece) {
  for (uint32_t size : kSizes) {
    for (int pieces : {1, 3, 70}) {
      for (size_t chunk : {~size_t{0}, size_t{1000}}) {
        SCOPED_TRACE(testing::Message() << size << " bytes, " << pieces
                                        << " pieces, chunks of " << chunk);
        InitiatorHarness initiator(Negotiated());
        ReferenceTarget target(initiator.parameters);
        const PieceBuffer from(Pattern(size, pieces), pieces);
        initiator.Write(2, from, size);
        Converse(&initiator, &target, chunk);
        EXPECT_EQ(initiator.refused, "");
        EXPECT_EQ(initiator.done, std::vector<TaskSlot>{2});
        EXPECT_EQ(initiator.responses.count(2), 1u);
        if (size > 0) {
          EXPECT_EQ(target.medium, from.content());
        }
      }
    }
  }
}

TEST_P(DataModelTest, ReadsEverySizeInEveryPiece) {
  for (uint32_t size : kSizes) {
    for (int pieces : {1, 3, 70}) {
      for (size_t chunk : {~size_t{0}, size_t{777}}) {
        for (bool merged : {true, false}) {
          SCOPED_TRACE(testing::Message() << size << " bytes, " << pieces
                                          << " pieces, chunks of " << chunk);
          InitiatorHarness initiator(Negotiated());
          ReferenceTarget target(initiator.parameters);
          target.medium = Pattern(size, 5);
          target.status_in_data_in = merged;
          const PieceBuffer to(std::string(size, '?'), pieces);
          initiator.Read(1, to, size);
          Converse(&initiator, &target, chunk);
          EXPECT_EQ(initiator.refused, "");
          EXPECT_EQ(initiator.done, std::vector<TaskSlot>{1});
          EXPECT_EQ(to.content(), target.medium);
          EXPECT_FALSE(initiator.responses[1].underflow);
        }
      }
    }
  }
}

TEST_P(DataModelTest, WritesSideBySide) {
  InitiatorHarness initiator(Negotiated());
  ReferenceTarget target(initiator.parameters);
  std::deque<PieceBuffer> buffers;
  for (TaskSlot slot = 0; slot < 8; ++slot) {
    buffers.emplace_back(Pattern(30000 + slot, slot), 2);
  }
  for (TaskSlot slot = 0; slot < 8; ++slot) {
    initiator.Write(slot, buffers[slot], 30000 + slot);
  }
  Converse(&initiator, &target, 5000);
  EXPECT_EQ(initiator.refused, "");
  EXPECT_EQ(initiator.done.size(), 8u);
}

INSTANTIATE_TEST_SUITE_P(All, DataModelTest,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(1u, 2u, 16u),
                                          testing::Bool()));

TEST(StreamInitiatorTest, ImmediateDataStopsAtTheTargetsSegmentLength) {
  Parameters parameters = SmallParameters();
  InitiatorHarness initiator(parameters);
  const PieceBuffer from(Pattern(5000, 1), 1);
  initiator.Write(0, from, 5000);
  const std::vector<WirePdu> pdus = initiator.Take();
  ASSERT_EQ(pdus.size(), 1u);
  EXPECT_EQ(pdus[0].data, from.content().substr(0, kSegment));
}

TEST(StreamInitiatorTest, ABidirectionalCommandCarriesBothLengths) {
  Parameters parameters = SmallParameters();
  parameters.immediate_data = false;
  InitiatorHarness initiator(parameters);
  const PieceBuffer from(Pattern(600, 1), 1);
  const PieceBuffer to(std::string(300, '?'), 2);
  const auto sent = initiator.Bidirectional(0, from, 600, to, 300);
  std::vector<WirePdu> pdus = initiator.Take();
  ASSERT_EQ(pdus.size(), 1u);
  AhsView ahs;
  ASSERT_TRUE(DecodeAhs({reinterpret_cast<const uint8_t*>(pdus[0].ahs.data()),
                         pdus[0].ahs.size()},
                        &ahs)
                  .ok());
  EXPECT_TRUE(ahs.has_bidi_read_length);
  EXPECT_EQ(ahs.bidi_read_length, 300u);

  // R2T and Data-In share their numbers (RFC 7143 section 11.7.5).
  R2tPdu r2t;
  r2t.initiator_task_tag = sent.tag;
  r2t.target_transfer_tag = 5;
  r2t.r2t_sn = 0;
  r2t.desired_data_transfer_length = 300;
  ScsiDataInPdu in;
  in.initiator_task_tag = sent.tag;
  in.data_sn = 1;
  std::string answer = Frame(r2t, "", parameters);
  answer += Frame(in, Pattern(300, 9), parameters);
  r2t.r2t_sn = 2;
  r2t.buffer_offset = 300;
  // One R2T at a time: the first is answered before the second.
  initiator.Feed(answer);
  EXPECT_EQ(initiator.Take().size(), 1u);
  ScsiResponsePdu response;
  response.initiator_task_tag = sent.tag;
  initiator.Feed(Frame(r2t, "", parameters));
  pdus = initiator.Take();
  ASSERT_EQ(pdus.size(), 1u);
  EXPECT_EQ(pdus[0].data, from.content().substr(300));
  initiator.Feed(Frame(response, "", parameters));
  EXPECT_EQ(initiator.refused, "");
  EXPECT_EQ(to.content(), Pattern(300, 9));
  EXPECT_FALSE(initiator.responses[0].bidi_read_underflow);
}

TEST(StreamInitiatorTest, ALongCdbGoesIntoTheAhs) {
  InitiatorHarness initiator(SmallParameters());
  ScsiCommandPdu pdu;
  pdu.initiator_task_tag = MakeTag(0, 1);
  const uint8_t rest[] = {1, 2,  3,  4,  5,  6,  7,  8,
                          9, 10, 11, 12, 13, 14, 15, 16};
  OutgoingCommand command;
  command.task = 0;
  command.pdu = &pdu;
  command.ahs.extended_cdb = rest;
  ASSERT_TRUE(initiator.datamover.SendCommand(command).ok());
  const std::vector<WirePdu> pdus = initiator.Take();
  ASSERT_EQ(pdus.size(), 1u);
  AhsView ahs;
  ASSERT_TRUE(DecodeAhs({reinterpret_cast<const uint8_t*>(pdus[0].ahs.data()),
                         pdus[0].ahs.size()},
                        &ahs)
                  .ok());
  EXPECT_EQ(ahs.extended_cdb, absl::Span<const uint8_t>(rest));
}

TEST(StreamInitiatorTest, ASmallCommandDoesNotWaitBehindABigWrite) {
  Parameters parameters;
  parameters.immediate_data = false;
  parameters.max_burst_length = 16u << 20;
  parameters.target_max_recv_data_segment_length = 65536;
  StreamDatamoverOptions options;
  options.data_out_quantum_bytes = 128 * 1024;
  InitiatorHarness initiator(parameters, options);
  const uint32_t big = 8u << 20;
  const PieceBuffer from(std::string(big, 'x'), 1);
  const PieceBuffer to(std::string(512, '?'), 1);
  const auto sent = initiator.Write(0, from, big);
  initiator.Take();
  R2tPdu r2t;
  r2t.initiator_task_tag = sent.tag;
  r2t.target_transfer_tag = 1;
  r2t.desired_data_transfer_length = big;
  initiator.Feed(Frame(r2t, "", parameters));
  initiator.TakeBytes(1u << 20, 4096);
  initiator.Read(1, to, 512);
  // Only what was queued already precedes the command.
  const std::string next = initiator.TakeBytes(512 * 1024, 4096);
  // Opcode of a SCSI Command; F and R bits.
  const size_t at = next.find(std::string("\x01\xc1", 2));
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(at, 2 * options.data_out_quantum_bytes);
}

TEST(StreamInitiatorTest, BigWritesTakeTurns) {
  Parameters parameters = SmallParameters();
  parameters.immediate_data = false;
  parameters.initial_r2t = false;
  InitiatorHarness initiator(parameters);
  const PieceBuffer from(std::string(kFirstBurst, 'x'), 1);
  initiator.Write(0, from, kFirstBurst);
  initiator.Write(1, from, kFirstBurst);
  const std::vector<WirePdu> pdus = initiator.Take();
  ASSERT_EQ(pdus.size(), 10u);  // Two commands, four segments each.
  for (size_t i = 2; i + 1 < pdus.size(); ++i) {
    EXPECT_NE(DecodeFrame(pdus[i].bhs.data()).initiator_task_tag,
              DecodeFrame(pdus[i + 1].bhs.data()).initiator_task_tag);
  }
}

TEST(StreamInitiatorTest, AnEarlyResponseCancelsTheDataStillToSend) {
  Parameters parameters = SmallParameters();
  parameters.initial_r2t = false;
  InitiatorHarness initiator(parameters);
  std::string sent_bytes;
  {
    const PieceBuffer from(Pattern(kFirstBurst, 3), 1);
    const auto sent = initiator.Write(0, from, kFirstBurst);
    // The command left, and half of the first Data-Out.
    sent_bytes = initiator.TakeBytes(kBhsSize + kSegment + 500, 500);
    ScsiResponsePdu response;
    response.initiator_task_tag = sent.tag;
    response.status = 0x02;
    initiator.Feed(Frame(response, "", parameters));
    EXPECT_EQ(initiator.done, std::vector<TaskSlot>{0});
  }
  // The memory is gone; what had begun is finished from a copy.
  sent_bytes += initiator.TakeBytes(~size_t{0}, 500);
  EXPECT_EQ(sent_bytes.size(), 2 * (kBhsSize + kSegment));
  EXPECT_EQ(sent_bytes.substr(2 * kBhsSize + kSegment),
            Pattern(kFirstBurst, 3).substr(kSegment, kSegment));
  EXPECT_FALSE(initiator.datamover.has_output());
}

TEST(StreamInitiatorTest, TheTargetMayAnswerBeforeTheImmediateDataHaveLeft) {
  Parameters parameters = SmallParameters();
  parameters.target_max_recv_data_segment_length = kFirstBurst;
  InitiatorHarness initiator(parameters);
  const PieceBuffer from(Pattern(2 * kFirstBurst, 3), 3);
  const auto sent = initiator.Write(0, from, 2 * kFirstBurst);
  std::string bytes = initiator.TakeBytes(kBhsSize, 16);
  R2tPdu r2t;
  r2t.initiator_task_tag = sent.tag;
  r2t.target_transfer_tag = 1;
  r2t.buffer_offset = kFirstBurst;
  r2t.desired_data_transfer_length = kFirstBurst;
  initiator.Feed(Frame(r2t, "", parameters));
  EXPECT_EQ(initiator.refused, "");
  bytes += initiator.TakeBytes(~size_t{0}, 1000);
  ASSERT_EQ(bytes.size(), 2 * (kBhsSize + kFirstBurst));
  EXPECT_EQ(bytes.substr(kBhsSize, kFirstBurst) +
                bytes.substr(2 * kBhsSize + kFirstBurst),
            from.content());
}

TEST(StreamInitiatorTest, AMissingEndIsToldAsUnderflow) {
  const Parameters parameters = SmallParameters();
  InitiatorHarness initiator(parameters);
  const PieceBuffer to(std::string(1000, '?'), 1);
  const auto sent = initiator.Read(0, to, 1000);
  initiator.Take();
  ScsiDataInPdu in;
  in.initiator_task_tag = sent.tag;
  in.final = in.has_status = true;
  initiator.Feed(Frame(in, std::string(600, 'd'), parameters));
  EXPECT_TRUE(initiator.responses[0].underflow);
  EXPECT_EQ(initiator.responses[0].residual_count, 400u);
  // With each status that may be a success.
  TaskSlot slot = 0;
  for (const uint8_t status : {0x00, 0x02, 0x04}) {
    ++slot;
    ScsiResponsePdu response;
    response.status = status;
    response.initiator_task_tag = initiator.Read(slot, to, 1000).tag;
    initiator.Take();
    initiator.Feed(Frame(response, "", parameters));
    EXPECT_TRUE(initiator.responses[slot].underflow) << int{status};
    EXPECT_EQ(initiator.responses[slot].residual_count, 1000u) << int{status};
  }
}

TEST(StreamInitiatorTest, DuplicatesOfDataAndR2tAreDiscarded) {
  Parameters parameters = SmallParameters();
  parameters.immediate_data = false;
  parameters.max_outstanding_r2t = 4;
  InitiatorHarness initiator(parameters);
  const PieceBuffer to(std::string(100, '?'), 1);
  const PieceBuffer from(std::string(100, 'w'), 1);
  const auto read = initiator.Read(0, to, 100);
  const auto write = initiator.Write(1, from, 100);
  initiator.Take();
  ScsiDataInPdu in;
  in.initiator_task_tag = read.tag;
  initiator.Feed(Frame(in, std::string(60, 'a'), parameters));
  initiator.Feed(Frame(in, std::string(60, 'b'), parameters));
  R2tPdu r2t;
  r2t.initiator_task_tag = write.tag;
  r2t.target_transfer_tag = 1;
  r2t.desired_data_transfer_length = 100;
  initiator.Feed(Frame(r2t, "", parameters));
  initiator.Feed(Frame(r2t, "", parameters));
  EXPECT_EQ(initiator.refused, "");
  EXPECT_EQ(initiator.Take().size(), 1u);
  EXPECT_EQ(to.content().substr(0, 60), std::string(60, 'a'));
}

TEST(StreamInitiatorTest, OtherPdusGoToTheSession) {
  const Parameters parameters = SmallParameters();
  InitiatorHarness initiator(parameters);
  initiator.Feed(Frame(NopInPdu(), "", parameters) +
                 Frame(AsyncMessagePdu(), "sense", parameters));
  EXPECT_EQ(initiator.controls,
            (std::vector<Opcode>{Opcode::kNopIn, Opcode::kAsyncMessage}));
}

TEST(StreamInitiatorTest, TerminatingDropsEverything) {
  const Parameters parameters = SmallParameters();
  InitiatorHarness initiator(parameters);
  const PieceBuffer from(Pattern(kFirstBurst, 3), 1);
  initiator.Write(0, from, kFirstBurst);
  initiator.datamover.ConnectionTerminate();
  EXPECT_FALSE(initiator.datamover.has_output());
  EXPECT_TRUE(initiator.datamover.ReceiveSpans().empty());
  initiator.Write(1, from, kFirstBurst);
  EXPECT_FALSE(initiator.datamover.has_output());
}

}  // namespace
}  // namespace skiff::protocol
