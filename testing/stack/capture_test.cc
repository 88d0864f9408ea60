// Captures of sessions over both data models, at both ends.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "testing/stack/end_to_end_test_util.h"
#include "transport/trace/pcapng.h"
#include "transport/trace/pcapng_reader.h"

namespace skiff::protocol {
namespace {

using transport::CapturedSegment;

struct Pdu {
  Opcode opcode;
  bool reconstructed;
  uint32_t offset;  // Of data PDUs.
  std::string data;
};

class CaptureTest : public ::testing::Test {
 protected:
  explicit CaptureTest(
      const std::optional<testing::SimRdmaOptions>& fabric = std::nullopt)
      : stack_(1, 1, fabric) {
    stack_.StopServer();
    stack_.server_options.capture = [this](absl::string_view blocks) {
      absl::StrAppend(&target_, blocks);
    };
    stack_.StartServer();
    InitiatorOptions options = stack_.Options();
    options.capture = [this](absl::string_view blocks) {
      absl::StrAppend(&initiator_, blocks);
    };
    stack_.LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
  }

  // Takes the first PDU of a stream, if it is there as a whole.
  static std::optional<Pdu> NextPdu(std::string* stream, bool reconstructed) {
    if (stream->size() < kBhsSize) return std::nullopt;
    const auto* bhs = reinterpret_cast<const uint8_t*>(stream->data());
    const BhsFrame frame = DecodeFrame(bhs);
    const size_t begin = kBhsSize + frame.ahs_bytes;
    const size_t size = frame.data_segment_length;
    const size_t end = begin + size + PaddingFor(frame.data_segment_length);
    if (stream->size() < end) return std::nullopt;
    ScsiDataInPdu data_in;
    ScsiDataOutPdu data_out;
    const uint32_t offset = Decode(bhs, &data_in).ok() ? data_in.buffer_offset
                            : Decode(bhs, &data_out).ok()
                                ? data_out.buffer_offset
                                : 0;
    Pdu pdu = {static_cast<Opcode>(frame.opcode), reconstructed, offset,
               stream->substr(begin, size)};
    stream->erase(0, end);
    return pdu;
  }
  // All PDUs of a capture, each direction for itself.
  static std::vector<Pdu> Pdus(const std::string& file) {
    const auto segments = transport::ReadPcapng(file);
    EXPECT_TRUE(segments.ok()) << segments.status();
    std::map<std::string, std::string> streams;
    std::map<std::string, bool> comments;
    std::vector<Pdu> pdus;
    for (const CapturedSegment& segment : *segments) {
      std::string& stream = streams[segment.from];
      bool& reconstructed = comments[segment.from];
      if (stream.empty()) {
        reconstructed = absl::StartsWith(segment.comment, "reconstructed: ");
      }
      absl::StrAppend(&stream, segment.bytes);
      while (auto pdu = NextPdu(&stream, reconstructed)) {
        pdus.push_back(*std::move(pdu));
      }
    }
    for (const auto& [from, rest] : streams) EXPECT_EQ(rest, "") << from;
    return pdus;
  }
  // The data that PDUs of a kind moved, in their places.
  static std::string DataOf(const std::vector<Pdu>& pdus, Opcode opcode) {
    std::string data;
    for (const Pdu& pdu : pdus) {
      if (pdu.opcode != opcode) continue;
      data.resize(std::max(data.size(), pdu.offset + pdu.data.size()));
      data.replace(pdu.offset, pdu.data.size(), pdu.data);
    }
    return data;
  }

  // What was written and read again.
  std::string WriteAndRead() {
    std::string data(256 * kBlock, '\0');
    for (char& byte : data) {
      byte = static_cast<char>(stack_.world.random().Next());
    }
    TestCommand write(scsi::cdb::Write(8, 256), 0, data);
    stack_.Run(&write.command);
    EXPECT_EQ(write.command.status, 0);
    TestCommand read(scsi::cdb::Read(8, 256), 256 * kBlock);
    stack_.Run(&read.command);
    EXPECT_EQ(read.buffer, data);
    return data;
  }

  std::string initiator_ = transport::PcapngHeader();
  std::string target_ = transport::PcapngHeader();
  SimStack stack_;
};

class IserCaptureTest : public CaptureTest {
 protected:
  IserCaptureTest() : CaptureTest(testing::SimRdmaOptions::InfiniBand()) {}
};

TEST_F(CaptureTest, BothEndsShowTheSame) {
  const std::string data = WriteAndRead();

  const std::vector<Pdu> pdus = Pdus(initiator_);
  EXPECT_EQ(DataOf(pdus, Opcode::kScsiDataIn), data);
  std::string written = DataOf(pdus, Opcode::kScsiDataOut);
  std::map<Opcode, int> counts;
  for (const Pdu& pdu : pdus) {
    EXPECT_FALSE(pdu.reconstructed);
    ++counts[pdu.opcode];
    // Immediate data.
    if (pdu.opcode == Opcode::kScsiCommand && !pdu.data.empty()) {
      written.replace(0, pdu.data.size(), pdu.data);
    }
  }
  EXPECT_EQ(written, data);
  EXPECT_GE(counts[Opcode::kLoginRequest], 1);
  EXPECT_EQ(counts[Opcode::kLoginRequest], counts[Opcode::kLoginResponse]);
  EXPECT_EQ(counts[Opcode::kScsiCommand], 3);
  for (const Pdu& pdu : Pdus(target_)) --counts[pdu.opcode];
  for (const auto& [opcode, rest] : counts) {
    EXPECT_EQ(rest, 0) << static_cast<int>(opcode);
  }
}

TEST_F(IserCaptureTest, BothEndsShowReadsAndWrites) {
  const std::string data = WriteAndRead();
  // Short enough to go with its command.
  const std::string with_command(kBlock, 'w');
  TestCommand brief(scsi::cdb::Write(0, 1), 0, with_command);
  stack_.Run(&brief.command);
  ASSERT_EQ(brief.command.status, 0);

  for (const std::string* file : {&initiator_, &target_}) {
    SCOPED_TRACE(file == &initiator_ ? "initiator" : "target");
    const std::vector<Pdu> pdus = Pdus(*file);
    std::map<Opcode, int> counts;
    std::string immediate;
    for (const Pdu& pdu : pdus) {
      ++counts[pdu.opcode];
      if (pdu.opcode == Opcode::kScsiCommand) immediate += pdu.data;
      const bool moves_data = pdu.opcode == Opcode::kScsiDataIn ||
                              pdu.opcode == Opcode::kScsiDataOut ||
                              pdu.opcode == Opcode::kR2t;
      EXPECT_EQ(pdu.reconstructed, moves_data);
    }
    EXPECT_GE(counts[Opcode::kLoginRequest], 1);
    EXPECT_EQ(counts[Opcode::kLoginRequest], counts[Opcode::kLoginResponse]);
    EXPECT_EQ(counts[Opcode::kScsiCommand], 4);
    EXPECT_EQ(counts[Opcode::kScsiResponse], 4);
    EXPECT_EQ(DataOf(pdus, Opcode::kScsiDataIn), data);
    EXPECT_GE(counts[Opcode::kR2t], 1);
    EXPECT_EQ(DataOf(pdus, Opcode::kScsiDataOut), data);
    EXPECT_EQ(immediate, with_command);
  }
}

// Its data are not known at the initiator, and so not shown.
TEST_F(IserCaptureTest, CommandsThatFailShowNoDataAtTheInitiator) {
  TestCommand read(scsi::cdb::Read(kBlocks, 8), 8 * kBlock);
  stack_.Run(&read.command);
  ASSERT_NE(read.command.status, 0);
  for (const Pdu& pdu : Pdus(initiator_)) EXPECT_FALSE(pdu.reconstructed);
}

}  // namespace
}  // namespace skiff::protocol
