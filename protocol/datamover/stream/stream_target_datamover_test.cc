#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/codec/digest.h"
#include "protocol/codec/wire_test_util.h"
#include "protocol/datamover/stream/stream_target_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(StreamTargetDatamoverTest, TakesWritesInAllFourModesAndManySizes) {
  for (const bool initial_r2t : {true, false}) {
    for (const bool immediate_data : {true, false}) {
      for (const uint32_t outstanding : {1u, 4u}) {
        Parameters parameters;
        parameters.initial_r2t = initial_r2t;
        parameters.immediate_data = immediate_data;
        parameters.max_outstanding_r2t = outstanding;
        parameters.first_burst_length = 8192;
        parameters.max_burst_length = 16384;
        parameters.target_max_recv_data_segment_length = 65536;
        for (const uint32_t size : {1u, 3u, 511u, 4096u, 8191u, 8192u, 8193u,
                                    16384u, 16385u, 50000u, 131072u}) {
          for (const size_t step :
               {size_t{100}, size_t{3000}, size_t{1000000}}) {
            SCOPED_TRACE(absl::StrCat(initial_r2t, immediate_data, " ", size,
                                      " ", step));
            step_ = step;
            Start(parameters);
            session_.get = size;
            const std::string data = RandomBytes(size, size);
            const uint32_t first =
                std::min(size, parameters.first_burst_length);
            const uint32_t immediate =
                immediate_data ? std::min(first, 5000u) : 0;
            const bool unsolicited = !initial_r2t && immediate < first;
            Feed(WriteCommand(size, data.substr(0, immediate), !unsolicited));
            uint32_t data_sn = 0;
            for (uint32_t at = immediate; unsolicited && at < first;) {
              const uint32_t n = std::min(first - at, 3000u);
              Feed(DataOut(kReservedTag, data_sn++, at, data.substr(at, n),
                           at + n == first));
              at += n;
            }
            AnswerR2ts(data, 7000);
            ASSERT_EQ(session_.events.size(), 2u) << session_.events.back();
            EXPECT_THAT(session_.events.back(), HasSubstr("got"));
            EXPECT_TRUE(session_.buffer == data);
          }
        }
      }
    }
  }
}

TEST_F(StreamTargetDatamoverTest, StagesUnsolicitedDataUntilTheyAreAskedFor) {
  for (const size_t step : {size_t{700}, size_t{1000000}}) {
    step_ = step;
    Parameters parameters;
    parameters.initial_r2t = false;
    parameters.first_burst_length = 8192;
    Start(parameters);
    const std::string data = RandomBytes(10000, 1);
    Feed(WriteCommand(10000, data.substr(0, 3000), /*final=*/false));
    Feed(DataOut(kReservedTag, 0, 3000, data.substr(3000, 5192), true));
    EXPECT_THAT(TakeSent(), IsEmpty());
    // In steps that cut the staged data.
    session_.Get(0, 1000);
    session_.Get(1000, 5000);
    EXPECT_THAT(session_.events, Contains("got at once").Times(2));
    session_.Get(6000, 4000);
    AnswerR2ts(data, 1000);
    EXPECT_EQ(session_.events.back(), "got");
    EXPECT_TRUE(session_.buffer == data);
  }
}

// Out of the memory that they were received into, if that is at once.
TEST_F(StreamTargetDatamoverTest, CopiesImmediateDataThatAreAskedForOnce) {
  MemoryBudget budget(1);
  StreamBuffers buffers(64 * 1024, 0, &budget);
  const std::string data = RandomBytes(8000, 1);
  for (const uint32_t at_once : {3000u, 8000u}) {
    Start(Parameters());
    datamover_ = MakeTargetStreamDatamover(&buffers, StreamDatamoverOptions());
    session_.datamover = datamover_.get();
    datamover_->SetClient(&session_, 16);
    datamover_->EnableDatamover(Parameters());
    session_.get = 8000;
    session_.get_at_once = at_once;
    Feed(WriteCommand(8000, data));
    EXPECT_THAT(session_.events,
                Contains("got at once").Times(at_once == 8000 ? 1 : 3));
    EXPECT_THAT(session_.events, Not(Contains("refused")));
    EXPECT_TRUE(session_.buffer == data);
    EXPECT_EQ(datamover_->counters().copied_bytes, 8000u);
  }
}

TEST_F(StreamTargetDatamoverTest, StagesImmediateDataThatNobodyAskedForYet) {
  const std::string data = RandomBytes(8000, 1);
  session_.get = 3000;
  Feed(WriteCommand(8000, data));
  session_.Get(3000, 5000);
  EXPECT_THAT(session_.events, Contains("got at once").Times(2));
  EXPECT_TRUE(session_.buffer == data);
  // The rest twice.
  EXPECT_EQ(datamover_->counters().copied_bytes, 13000u);
}

TEST_F(StreamTargetDatamoverTest,
       DigestErrorsInDataOutEndTheCommandAndTouchNothing) {
  for (const size_t step : {size_t{700}, size_t{1000000}}) {
    step_ = step;
    Parameters parameters;
    parameters.data_digest = Digest::kCrc32c;
    Start(parameters);
    session_.get = 4096;
    Feed(WriteCommand(4096, ""));
    datamover_->EnableDatamover(parameters);
    const std::string wire = [this] {
      const std::vector<R2tPdu> r2ts = TakeR2ts();
      return DataOut(r2ts.at(0).target_transfer_tag, 0, 0, RandomBytes(4096, 1),
                     true);
    }();
    Feed(wire + "\1\2\3\4");
    EXPECT_THAT(session_.events,
                ElementsAre("control 1", "reject 2", "data error 47/5"));
    EXPECT_EQ(session_.buffer, std::string(4096, '\0'));
  }
}

// The last unsolicited PDU is on its way into the staging memory while what
// came before it is asked for, and taken out.
TEST_F(StreamTargetDatamoverTest, StagesTheRestOfAPduThatGetDataOvertook) {
  parameters_.initial_r2t = false;
  parameters_.first_burst_length = 8192;
  parameters_.target_max_recv_data_segment_length = 65536;
  Start(parameters_);
  const std::string data = RandomBytes(8192, 1);
  Feed(WriteCommand(8192, data.substr(0, 2048), /*final=*/false));
  const std::string last =
      DataOut(kReservedTag, 0, 2048, data.substr(2048), /*final=*/true);
  Feed(last.substr(0, 3000));
  session_.Get(0, 8192);
  Feed(last.substr(3000));
  EXPECT_THAT(session_.events, ElementsAre("control 1", "got"));
  EXPECT_TRUE(session_.buffer == data);
  EXPECT_THAT(TakeSent(), IsEmpty());
}

TEST_F(StreamTargetDatamoverTest, CutsDataInByBothLimitsAndMergesStatus) {
  Parameters parameters;
  parameters.initiator_max_recv_data_segment_length = 3000;
  parameters.max_burst_length = 8192;
  Start(parameters);
  Feed(ReadCommand(20000));
  const std::string data = RandomBytes(20000, 1);
  datamover_->PutData(kSlot, 0, AsBytes(data).first(5000), /*notify=*/true);
  ScsiResponsePdu response;
  response.stat_sn = 43;
  response.initiator_task_tag = kTag;
  datamover_->PutDataAndResponse(kSlot, 5000, AsBytes(data).subspan(5000),
                                 response, {});
  Deallocate();
  std::string got;
  uint32_t burst = 0;
  const std::vector<WirePdu> sent = TakeSent();
  for (size_t i = 0; i < sent.size(); ++i) {
    ScsiDataInPdu pdu;
    ASSERT_TRUE(Decode(sent[i].bhs.data(), &pdu).ok());
    EXPECT_EQ(pdu.data_sn, i);
    EXPECT_EQ(pdu.buffer_offset, got.size());
    EXPECT_EQ(pdu.has_status, i + 1 == sent.size());
    EXPECT_LE(sent[i].data.size(), 3000u);
    burst += static_cast<uint32_t>(sent[i].data.size());
    EXPECT_LE(burst, 8192u);
    if (pdu.final) burst = 0;
    got += sent[i].data;
    EXPECT_EQ(pdu.stat_sn, pdu.has_status ? 43u : 0u);
  }
  EXPECT_TRUE(got == data);
  EXPECT_EQ(burst, 0u);
  EXPECT_THAT(session_.events, ElementsAre("control 1", "put", "done"));
}

TEST_F(StreamTargetDatamoverTest, SendsSenseInAResponseOfItsOwn) {
  Feed(ReadCommand(100));
  const std::string data = RandomBytes(100, 1);
  ScsiResponsePdu response;
  response.status = 2;
  datamover_->PutDataAndResponse(kSlot, 0, AsBytes(data), response,
                                 AsBytes(std::string(18, 's')));
  Deallocate();
  const std::vector<WirePdu> sent = TakeSent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].opcode(), Opcode::kScsiDataIn);
  ScsiResponsePdu got;
  ASSERT_TRUE(Decode(sent[1].bhs.data(), &got).ok());
  EXPECT_EQ(got.exp_data_sn, 1u);
  EXPECT_EQ(sent[1].data, std::string("\0\x12", 2) + std::string(18, 's'));
}

// RFC 7143 section 4.2.2.4: as one sequence.
TEST_F(StreamTargetDatamoverTest, ABidirectionalCommandNumbersR2tsAndDataIn) {
  Parameters parameters;
  parameters.max_burst_length = 512;
  parameters.max_outstanding_r2t = 2;
  Start(parameters);
  ScsiCommandPdu pdu;
  pdu.read = pdu.write = true;
  pdu.initiator_task_tag = kTag;
  pdu.expected_data_transfer_length = 1024;
  Bhs bhs;
  Encode(pdu, bhs.data());
  AhsView lengths;
  lengths.has_bidi_read_length = true;
  lengths.bidi_read_length = 200;
  std::string ahs(kMaxAhsBytes, '\0');
  ahs.resize(EncodeAhs(lengths, reinterpret_cast<uint8_t*>(ahs.data())));
  Feed(WireOf(bhs, ahs, "", {}));
  session_.Get(0, 1024);
  const std::string data = RandomBytes(100, 1);
  datamover_->PutData(kSlot, 0, AsBytes(data), /*notify=*/false);
  ScsiResponsePdu response;
  response.status = 2;
  datamover_->PutDataAndResponse(kSlot, 100, AsBytes(data), response, {});
  const std::vector<WirePdu> sent = TakeSent();
  std::vector<std::string> numbers;
  for (const WirePdu& wire : sent) {
    R2tPdu r2t;
    ScsiDataInPdu data_in;
    ScsiResponsePdu end;
    if (Decode(wire.bhs.data(), &r2t).ok()) {
      numbers.push_back(absl::StrCat("R2T ", r2t.r2t_sn));
    } else if (Decode(wire.bhs.data(), &data_in).ok()) {
      numbers.push_back(absl::StrCat("Data-In ", data_in.data_sn));
    } else if (Decode(wire.bhs.data(), &end).ok()) {
      numbers.push_back(absl::StrCat("expected ", end.exp_data_sn));
    }
  }
  EXPECT_THAT(numbers, ElementsAre("R2T 0", "R2T 1", "Data-In 2", "Data-In 3",
                                   "expected 4"));
}

TEST_F(StreamTargetDatamoverTest, CancelEndsTransfersAndDropsLateData) {
  for (const bool mid_pdu : {false, true}) {
    Start(Parameters());
    session_.get = 20000;
    const std::string data = RandomBytes(20000, 1);
    Feed(WriteCommand(20000, ""));
    const R2tPdu r2t = TakeR2ts().at(0);
    const std::string wire =
        DataOut(r2t.target_transfer_tag, 0, 0, data.substr(0, 8000), false) +
        DataOut(r2t.target_transfer_tag, 1, 8000, data.substr(8000, 8000),
                false);
    step_ = 3000;
    Feed(wire.substr(0, mid_pdu ? 6000 : 8048));
    datamover_->CancelTransfers(kSlot);
    EXPECT_EQ(session_.events.back(), "got cancelled");
    const std::string before = session_.buffer;
    Deallocate();
    EXPECT_EQ(session_.events.back(), "done");
    Feed(wire.substr(mid_pdu ? 6000 : 8048));
    EXPECT_TRUE(session_.buffer == before);
    EXPECT_EQ(session_.events.back(), "done")
        << "late data of an old tag are dropped silently";
  }
}

TEST_F(StreamTargetDatamoverTest, StopsReceivingWhileTooMuchWaitsToBeSent) {
  StreamDatamoverOptions options;
  options.memory.max_send_queue_bytes = 10000;
  datamover_ = MakeTargetStreamDatamover(&buffers_, options);
  session_.datamover = datamover_.get();
  datamover_->SetClient(&session_, 16);
  datamover_->EnableDatamover(Parameters());
  uint8_t bhs[kBhsSize];
  Encode(NopInPdu(), bhs);
  EXPECT_FALSE(datamover_->ReceiveSpans().empty());
  for (int i = 0; i < 10; ++i)
    datamover_->SendControl(bhs, AsBytes(RandomBytes(1000, 1)));
  EXPECT_TRUE(datamover_->congested());
  EXPECT_TRUE(datamover_->ReceiveSpans().empty());
  TakeSent();
  EXPECT_FALSE(datamover_->ReceiveSpans().empty());
}

TEST_F(StreamTargetDatamoverTest, TerminateEndsEverythingOnce) {
  session_.get = 20000;
  Feed(WriteCommand(20000, ""));
  datamover_->ConnectionTerminate();
  EXPECT_THAT(session_.events, ElementsAre("control 1", "got cancelled"));
  EXPECT_TRUE(datamover_->ReceiveSpans().empty());
  Deallocate();
  EXPECT_THAT(session_.events,
              ElementsAre("control 1", "got cancelled", "done"));
}

// Without memory for data that nobody has asked for yet, the command is refused
// and the data are dropped; other commands go on.
TEST_F(StreamTargetDatamoverTest, RefusesDataThatItCannotKeep) {
  MemoryBudget budget(4096);
  StreamBuffers buffers(64 * 1024, 0, &budget);
  Parameters parameters;
  parameters.initial_r2t = false;
  parameters.first_burst_length = 16384;
  parameters.target_max_recv_data_segment_length = 16384;
  for (const size_t step : {size_t{100}, size_t{1000000}}) {
    SCOPED_TRACE(step);
    step_ = step;
    Start(parameters);
    datamover_ = MakeTargetStreamDatamover(&buffers, StreamDatamoverOptions());
    session_.datamover = datamover_.get();
    datamover_->SetClient(&session_, 16);
    datamover_->EnableDatamover(parameters);
    Feed(WriteCommand(16384, std::string(4096, 'x'), /*final=*/false));
    Feed(DataOut(kReservedTag, 0, 4096, std::string(12288, 'x'), true));
    EXPECT_THAT(session_.events, ElementsAre("control 1", "refused"));
    Deallocate();
    EXPECT_EQ(budget.use().charged, 0u);
    session_.events.clear();
    session_.get = 4096;
    Feed(WriteCommand(4096, std::string(4096, 'y')));
    EXPECT_THAT(session_.events, Contains(HasSubstr("got")));
    EXPECT_EQ(session_.buffer, std::string(4096, 'y'));
  }
}

}  // namespace
}  // namespace skiff::protocol
