// What a target's datamover makes of an initiator that breaks rules.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/datamover/stream/stream_target_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

struct Bad {
  const char* name;
  // Wire bytes after a write of 10000 bytes with R2Ts for all of it (max burst
  // 4096).
  std::string (*wire)(const std::vector<R2tPdu>& r2ts);
  const char* event;
};

class BadDataOutTest : public StreamTargetDatamoverTest,
                       public ::testing::WithParamInterface<Bad> {};

TEST_P(BadDataOutTest, IsRefusedWithTheRightError) {
  for (const size_t step : {size_t{500}, size_t{1000000}}) {
    step_ = step;
    Parameters parameters;
    parameters.max_burst_length = 4096;
    parameters.max_outstanding_r2t = 2;
    Start(parameters);
    session_.get = 10000;
    Feed(WriteCommand(10000, ""));
    const std::vector<R2tPdu> r2ts = TakeR2ts();
    ASSERT_EQ(r2ts.size(), 2u);
    Feed(GetParam().wire(r2ts));
    EXPECT_THAT(session_.events, Contains(GetParam().event));
    EXPECT_EQ(std::count(session_.buffer.begin(), session_.buffer.end(), 'x'),
              0)
        << "refused data reached the buffer";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadDataOutTest,
    ::testing::Values(Bad{"WrongOffset",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 0, 4,
                                           std::string(4092, 'x'), true);
                          },
                          "data error 4b/5"},
                      Bad{"OffsetBeyondCommand",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 0,
                                           0xfffffff0u, std::string(4096, 'x'),
                                           true);
                          },
                          "data error 4b/5"},
                      Bad{"WrongDataSn",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 1, 0,
                                           std::string(4096, 'x'), true);
                          },
                          "data error 4b/0"},
                      Bad{"TooMuch",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 0, 0,
                                           std::string(4100, 'x'), true);
                          },
                          "data error c/d"},
                      Bad{"TooLittle",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 0, 0,
                                           std::string(4000, 'x'), true);
                          },
                          "data error c/d"},
                      Bad{"NoFinal",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[0].target_transfer_tag, 0, 0,
                                           std::string(4096, 'x'), false);
                          },
                          "data error c/d"},
                      Bad{"SecondR2tFirst",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[1].target_transfer_tag, 0, 4096,
                                           std::string(4096, 'x'), true);
                          },
                          "data error 4b/0"},
                      Bad{"UnknownTransferTag",
                          [](const std::vector<R2tPdu>& r) {
                            return DataOut(r[1].target_transfer_tag + 0x10000,
                                           0, 0, std::string(4096, 'x'), true);
                          },
                          "reject 9"},
                      Bad{"TransferTagOutOfRange",
                          [](const std::vector<R2tPdu>&) {
                            return DataOut(0x12345678, 0, 0,
                                           std::string(4096, 'x'), true);
                          },
                          "reject 9"},
                      Bad{"Unsolicited",
                          [](const std::vector<R2tPdu>&) {
                            return DataOut(kReservedTag, 0, 0,
                                           std::string(4096, 'x'), true);
                          },
                          "data error c/c"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(StreamTargetDatamoverTest,
       RefusesImmediateAndUnsolicitedDataThatWereNotAgreed) {
  Parameters parameters;
  parameters.immediate_data = false;
  Start(parameters);
  Feed(WriteCommand(4096, RandomBytes(4096, 1)));
  EXPECT_THAT(session_.events, ElementsAre("control 1", "data error c/c"));

  Start(Parameters());
  Feed(WriteCommand(4096, "", /*final=*/false));
  EXPECT_THAT(session_.events, ElementsAre("control 1", "data error c/c"));

  parameters = Parameters();
  parameters.first_burst_length = 2048;
  Start(parameters);
  Feed(WriteCommand(4096, RandomBytes(4096, 1)));
  EXPECT_THAT(session_.events, ElementsAre("control 1", "data error c/d"));

  Start(Parameters());
  Feed(WriteCommand(100, RandomBytes(4096, 1)));
  EXPECT_THAT(session_.events, ElementsAre("control 1", "data error c/d"));
}

TEST_F(StreamTargetDatamoverTest, DropsTheImmediateDataOfARefusedCommand) {
  for (const size_t step : {size_t{500}, size_t{1000000}}) {
    step_ = step;
    Start(Parameters());
    session_.refuse = true;
    NopOutPdu nop;
    Feed(WriteCommand(4096, RandomBytes(4096, 1)) + ToWire(nop));
    EXPECT_THAT(session_.events, ElementsAre("control 1", "control 0"));
  }
}

TEST_F(StreamTargetDatamoverTest, RefusesBigControlData) {
  Parameters parameters;
  parameters.target_max_recv_data_segment_length = 1 << 20;
  Start(parameters);
  step_ = 1000;
  NopOutPdu nop;
  Feed(ToWire(nop, RandomBytes(70000, 1)));
  EXPECT_THAT(session_.events, ElementsAre("reject 9 fatal"));
}

}  // namespace
}  // namespace skiff::protocol
