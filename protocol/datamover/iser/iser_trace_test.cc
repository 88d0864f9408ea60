#include "protocol/datamover/iser/iser_trace.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

class IserTraceTest : public ::testing::Test {
 protected:
  struct Told {
    bool sent;
    std::string pdu;
    std::string comment;

    const uint8_t* bhs() const {
      return reinterpret_cast<const uint8_t*>(pdu.data());
    }
    BhsFrame frame() const { return DecodeFrame(bhs()); }
    std::string data() const {
      return pdu.substr(kBhsSize, frame().data_segment_length);
    }
  };

  IserTraceTest()
      : trace_([this](bool sent, absl::string_view pdu,
                      absl::string_view comment) {
          told_.push_back({sent, std::string(pdu), std::string(comment)});
        }) {}

  template <typename Pdu>
  void Message(bool sent, const Pdu& pdu, const std::string& data = "",
               const IserControlHeader& header = {},
               const uint32_t* invalidated = nullptr) {
    std::string message(kIserControlSize, '\0');
    auto* out = reinterpret_cast<uint8_t*>(message.data());
    Encode(header, out);
    Encode(pdu, out + kIserHeaderSize);
    EncodeLengths(out + kIserHeaderSize, 0, static_cast<uint32_t>(data.size()));
    trace_.Message(sent, {message, data}, invalidated);
  }
  template <typename Pdu>
  static Pdu Decoded(const Told& told) {
    Pdu pdu;
    EXPECT_TRUE(Decode(told.bhs(), &pdu).ok());
    return pdu;
  }

  std::vector<Told> told_;
  IserTrace trace_;
};

TEST_F(IserTraceTest, TellsMessagesAsPdusWithPadding) {
  ScsiCommandPdu command;
  command.write = true;
  command.initiator_task_tag = 7;
  IserControlHeader header;
  header.write_stag_valid = true;
  header.write_stag = 0x1234;
  header.write_base_offset = 0x5000;
  Message(true, command, "hello", header);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].sent);
  EXPECT_EQ(told_[0].pdu.size(), kBhsSize + 8);
  EXPECT_EQ(told_[0].data(), "hello");
  EXPECT_EQ(Decoded<ScsiCommandPdu>(told_[0]).initiator_task_tag, 7u);
  EXPECT_EQ(told_[0].comment, "iSER: Write STag 0x1234 at 0x5000");
}

TEST_F(IserTraceTest, TellsOfInvalidation) {
  const uint32_t stag = 0xab;
  Message(false, ScsiResponsePdu(), "", {}, &stag);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].comment, "iSER: invalidates STag 0xab");
}

TEST_F(IserTraceTest, AHelloIsNoPdu) {
  IserHeaderBytes hello;
  Encode(IserHello(), hello.data());
  const absl::string_view bytes(reinterpret_cast<const char*>(hello.data()),
                                hello.size());
  trace_.Message(true, {bytes}, nullptr);
  EXPECT_TRUE(told_.empty());
}

TEST_F(IserTraceTest, RdmaWritesAreDataIn) {
  ScsiCommandPdu command;
  command.read = true;
  command.lun = 0x0001000000000000;
  command.initiator_task_tag = 9;
  Message(false, command);
  NopInPdu ping;
  ping.exp_cmd_sn = 3;
  ping.max_cmd_sn = 30;
  Message(true, ping);
  trace_.DataIn(true, 9, 0, "first", "an RDMA Write");
  trace_.DataIn(true, 9, 5, "second", "an RDMA Write");
  ASSERT_EQ(told_.size(), 4u);
  EXPECT_TRUE(told_[3].sent);
  EXPECT_EQ(told_[3].comment, "reconstructed: an RDMA Write");
  EXPECT_EQ(told_[3].data(), "second");
  const auto data_in = Decoded<ScsiDataInPdu>(told_[3]);
  EXPECT_EQ(data_in.lun, command.lun);
  EXPECT_EQ(data_in.initiator_task_tag, 9u);
  EXPECT_EQ(data_in.data_sn, 1u);
  EXPECT_EQ(data_in.buffer_offset, 5u);
  EXPECT_EQ(data_in.exp_cmd_sn, 3u);
  EXPECT_EQ(data_in.max_cmd_sn, 30u);
  EXPECT_FALSE(data_in.has_status);
}

TEST_F(IserTraceTest, RdmaReadsAreR2tAndDataOut) {
  ScsiCommandPdu command;
  command.write = true;
  command.initiator_task_tag = 9;
  command.exp_stat_sn = 77;
  Message(false, command, "imme");
  trace_.R2t(true, 9, 4, 6, "an RDMA Read begins");
  trace_.R2t(true, 9, 10, 2, "an RDMA Read begins");
  trace_.DataOut(false, 9, 10, "zz", "an RDMA Read has ended");
  trace_.DataOut(false, 9, 4, "diate!", "an RDMA Read has ended");
  ASSERT_EQ(told_.size(), 5u);
  const auto r2t = Decoded<R2tPdu>(told_[2]);
  EXPECT_EQ(r2t.r2t_sn, 1u);
  EXPECT_EQ(r2t.buffer_offset, 10u);
  EXPECT_EQ(r2t.desired_data_transfer_length, 2u);
  const auto data_out = Decoded<ScsiDataOutPdu>(told_[3]);
  EXPECT_FALSE(told_[3].sent);
  EXPECT_EQ(data_out.target_transfer_tag, r2t.target_transfer_tag);
  EXPECT_EQ(data_out.buffer_offset, 10u);
  EXPECT_EQ(data_out.exp_stat_sn, 77u);
  EXPECT_TRUE(data_out.final);
  EXPECT_EQ(told_[3].data(), "zz");
}

TEST_F(IserTraceTest, ManyDataAreSeveralPdus) {
  const std::string data(IserTrace::kMaxData + 10, 'x');
  trace_.DataIn(false, 1, 0, data, "");
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_FALSE(Decoded<ScsiDataInPdu>(told_[0]).final);
  EXPECT_EQ(Decoded<ScsiDataInPdu>(told_[1]).buffer_offset,
            IserTrace::kMaxData);
  EXPECT_TRUE(Decoded<ScsiDataInPdu>(told_[1]).final);
  EXPECT_EQ(told_[1].data().size(), 10u);
}

}  // namespace
}  // namespace skiff::protocol
