// What a broken or malicious target may send: each ends the session, and none
// touches memory that is not the command's.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/datamover/stream/stream_initiator_test_util.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kLength = 4000;
constexpr TaskSlot kReadSlot = 1;
constexpr TaskSlot kWriteSlot = 2;

Parameters Negotiated() {
  Parameters parameters;
  parameters.immediate_data = false;
  parameters.max_burst_length = 2048;
  parameters.max_outstanding_r2t = 2;
  parameters.initiator_max_recv_data_segment_length = 8192;
  return parameters;
}

// A read and a write that the target has, and may answer as it likes.
struct Victim {
  Victim()
      : initiator(Negotiated()),
        to(std::string(kLength, '?'), 3),
        from(Pattern(kLength, 1), 3),
        read(initiator.Read(kReadSlot, to, kLength).tag),
        write(initiator.Write(kWriteSlot, from, kLength).tag) {
    initiator.Take();
  }

  ScsiDataInPdu DataIn() const {
    ScsiDataInPdu in;
    in.initiator_task_tag = read;
    return in;
  }
  R2tPdu R2t() const {
    R2tPdu r2t;
    r2t.initiator_task_tag = write;
    r2t.target_transfer_tag = 9;
    r2t.desired_data_transfer_length = 512;
    return r2t;
  }

  InitiatorHarness initiator;
  PieceBuffer to;
  PieceBuffer from;
  uint32_t read;
  uint32_t write;
};

// Whole in one receive, and byte by byte (which takes the other path through
// the receiver).
template <typename Pdu>
void ExpectRefused(const Pdu& pdu, const std::string& data,
                   const std::string& why) {
  for (size_t chunk : {~size_t{0}, size_t{1}}) {
    Victim victim;
    victim.initiator.Feed(Frame(pdu, data, Negotiated()), chunk);
    EXPECT_NE(victim.initiator.refused.find(why), std::string::npos)
        << "refused: '" << victim.initiator.refused << "', expected: '" << why
        << "'";
    EXPECT_TRUE(victim.initiator.datamover.ReceiveSpans().empty());
    EXPECT_TRUE(victim.initiator.responses.empty());
    EXPECT_EQ(victim.to.content(), std::string(kLength, '?'));
  }
}

TEST(HostileTargetTest, DataInOutsideOfTheBuffer) {
  Victim victim;
  ScsiDataInPdu in = victim.DataIn();
  ExpectRefused(in, std::string(kLength + 1, 'x'), "beyond the command's");
  in.buffer_offset = kLength;
  ExpectRefused(in, "x", "beyond the command's");
  in.buffer_offset = 0xffffffff;
  ExpectRefused(in, "xy", "beyond the command's");
  in.buffer_offset = 0xfffffff0;
  ExpectRefused(in, std::string(16, 'x'), "beyond the command's");
}

TEST(HostileTargetTest, DataInOutOfOrder) {
  Victim victim;
  ScsiDataInPdu in = victim.DataIn();
  in.data_sn = 1;
  ExpectRefused(in, "x", "DataSN");
  in.data_sn = 0;
  in.buffer_offset = 4;
  ExpectRefused(in, "x", "out of order");
}

TEST(HostileTargetTest, DataInForOtherTasks) {
  Victim victim;
  ScsiDataInPdu in = victim.DataIn();
  in.initiator_task_tag = victim.write;
  ExpectRefused(in, "x", "reads none");
  in.initiator_task_tag = kReservedTag;
  ExpectRefused(in, "x", "InitiatorTaskTag");
  in.initiator_task_tag = MakeTag(kReadSlot, 999);
  ExpectRefused(in, "x", "unknown Initiator Task Tag");
  in.initiator_task_tag = MakeTag(7, 0);
  ExpectRefused(in, "x", "unknown Initiator Task Tag");
  in.initiator_task_tag = MakeTag(0x7fff, 1);
  ExpectRefused(in, "x", "unknown Initiator Task Tag");
}

TEST(HostileTargetTest, R2tWithBadLengths) {
  Victim victim;
  R2tPdu r2t = victim.R2t();
  r2t.desired_data_transfer_length = 0;
  ExpectRefused(r2t, "", "DesiredDataTransferLength");
  r2t.desired_data_transfer_length = 2049;
  ExpectRefused(r2t, "", "MaxBurstLength");
  r2t.desired_data_transfer_length = 512;
  r2t.buffer_offset = kLength - 511;
  ExpectRefused(r2t, "", "beyond the command's");
  r2t.buffer_offset = 0xffffffff;
  ExpectRefused(r2t, "", "beyond the command's");
  r2t.buffer_offset = 0;
  ExpectRefused(r2t, "data", "DataSegmentLength");
}

TEST(HostileTargetTest, R2tWithBadTags) {
  Victim victim;
  R2tPdu r2t = victim.R2t();
  r2t.initiator_task_tag = victim.read;
  ExpectRefused(r2t, "", "writes nothing");
  r2t.initiator_task_tag = MakeTag(kWriteSlot, 400);
  ExpectRefused(r2t, "", "unknown Initiator Task Tag");
  r2t = victim.R2t();
  r2t.target_transfer_tag = kReservedTag;
  ExpectRefused(r2t, "", "TargetTransferTag");
  r2t = victim.R2t();
  r2t.r2t_sn = 3;
  ExpectRefused(r2t, "", "R2TSN");
}

TEST(HostileTargetTest, MoreR2tsThanAgreed) {
  Victim victim;
  R2tPdu r2t = victim.R2t();
  for (uint32_t i = 0; i < 3; ++i) {
    r2t.r2t_sn = i;
    r2t.target_transfer_tag = i;
    victim.initiator.Feed(Frame(r2t, "", Negotiated()));
    EXPECT_EQ(victim.initiator.refused.empty(), i < 2);
  }
  EXPECT_EQ(victim.initiator.refused, "more R2Ts than MaxOutstandingR2T");
}

TEST(HostileTargetTest, ResponsesToNobody) {
  Victim victim;
  ScsiResponsePdu response;
  response.initiator_task_tag = MakeTag(kReadSlot, 77);
  ExpectRefused(response, "", "unknown Initiator Task Tag");
  response.initiator_task_tag = kReservedTag;
  ExpectRefused(response, "", "InitiatorTaskTag");
}

TEST(HostileTargetTest, ASecondResponse) {
  Victim victim;
  ScsiResponsePdu response;
  response.initiator_task_tag = victim.read;
  victim.initiator.Feed(Frame(response, "", Negotiated()));
  EXPECT_EQ(victim.initiator.responses.count(kReadSlot), 1u);
  victim.initiator.Feed(Frame(response, "", Negotiated()));
  EXPECT_EQ(victim.initiator.refused, "unknown Initiator Task Tag");
}

TEST(HostileTargetTest, AnswersToACommandThatIsStillHere) {
  Victim victim;
  const PieceBuffer to(std::string(16, '?'), 1);
  ScsiResponsePdu response;
  response.initiator_task_tag = victim.initiator.Read(3, to, 16).tag;
  victim.initiator.Feed(Frame(response, "", Negotiated()));
  EXPECT_EQ(victim.initiator.refused,
            "a response to a command that was not sent");
}

TEST(HostileTargetTest, DataForATaskThatEnded) {
  Victim victim;
  ScsiResponsePdu response;
  response.initiator_task_tag = victim.read;
  victim.initiator.Feed(Frame(response, "", Negotiated()));
  victim.initiator.Feed(Frame(victim.DataIn(), "late", Negotiated()));
  EXPECT_EQ(victim.initiator.refused, "unknown Initiator Task Tag");
  EXPECT_EQ(victim.to.content(), std::string(kLength, '?'));
}

TEST(HostileTargetTest, ASegmentLongerThanDeclared) {
  Victim victim;
  victim.initiator.Feed(
      Frame(victim.DataIn(), std::string(8193, 'x'), Negotiated()));
  EXPECT_FALSE(victim.initiator.terminated.ok());
  EXPECT_TRUE(victim.initiator.datamover.ReceiveSpans().empty());
  EXPECT_EQ(victim.to.content(), std::string(kLength, '?'));
}

TEST(HostileTargetTest, AHugeControlPdu) {
  Victim victim;
  Parameters parameters = Negotiated();
  parameters.initiator_max_recv_data_segment_length = 1u << 20;
  StreamDatamoverOptions options;
  options.max_control_data_bytes = 1000;
  InitiatorHarness initiator(parameters, options);
  // Only the header comes: nothing is to be allocated for the rest.
  TextResponsePdu text;
  initiator.Feed(
      Frame(text, std::string(500000, 't'), parameters).substr(0, 100));
  EXPECT_NE(initiator.refused.find("longer than such a PDU"),
            std::string::npos);
}

TEST(HostileTargetTest, BrokenDigests) {
  Victim victim;
  Parameters parameters = Negotiated();
  parameters.header_digest = parameters.data_digest = Digest::kCrc32c;
  for (size_t chunk : {~size_t{0}, size_t{1}}) {
    // A flipped bit in the data.
    InitiatorHarness initiator(parameters);
    ScsiDataInPdu in;
    in.initiator_task_tag = initiator.Read(0, victim.to, kLength).tag;
    in.final = in.has_status = true;
    initiator.Take();
    std::string bytes = Frame(in, std::string(kLength, 'd'), parameters);
    bytes[kBhsSize + 4 + 1000] ^= 1;
    initiator.Feed(bytes, chunk);
    EXPECT_EQ(initiator.refused_reason, RejectPdu::kDataDigestError);
    EXPECT_TRUE(initiator.responses.empty());

    // And in the header.
    InitiatorHarness other(parameters);
    bytes = Frame(NopInPdu(), "", parameters);
    bytes[30] ^= 4;
    other.Feed(bytes, chunk);
    EXPECT_FALSE(other.terminated.ok());
    EXPECT_TRUE(other.controls.empty());
  }
}

TEST(HostileTargetTest, OutOfOrderDataMustNotExceedTheBufferEither) {
  Victim victim;
  Parameters parameters = Negotiated();
  parameters.data_pdu_in_order = false;
  InitiatorHarness initiator(parameters);
  ScsiDataInPdu in;
  in.initiator_task_tag = initiator.Read(0, victim.to, kLength).tag;
  initiator.Take();
  // From the end to the beginning is right ...
  in.buffer_offset = 2000;
  initiator.Feed(Frame(in, std::string(2000, 'b'), parameters));
  in.buffer_offset = 0;
  in.data_sn = 1;
  initiator.Feed(Frame(in, std::string(1999, 'a'), parameters));
  EXPECT_EQ(initiator.refused, "");
  EXPECT_EQ(victim.to.content(),
            std::string(1999, 'a') + "?" + std::string(2000, 'b'));
  // ... but not more bytes than there are.
  in.data_sn = 2;
  initiator.Feed(Frame(in, "xy", parameters));
  EXPECT_NE(initiator.refused.find("sent twice"), std::string::npos);
}

// GOOD says that all data were written: those that never left were not.
TEST(HostileTargetTest, GoodBeforeTheDataWereSent) {
  constexpr uint32_t kHalf = kLength / 2;
  struct Range {
    uint32_t begin, end;
  };
  const struct {
    const char* what;
    bool immediate;
    bool takes_data;  // What is asked for leaves before the answer.
    std::vector<Range> asked;
    uint32_t told;  // As residual.
    uint32_t expected;
  } kCases[] = {
      {"nothing asked for", false, true, {}, 0, kLength},
      {"half", false, true, {{0, kHalf}}, 0, kHalf},
      {"half, twice", false, true, {{0, kHalf}, {0, kHalf}}, 0, kHalf},
      {"overlapping",
       false,
       true,
       {{0, kHalf}, {100, kHalf + 100}},
       0,
       kHalf - 100},
      {"without the middle", false, true, {{0, 100}, {200, kLength}}, 0, 100},
      {"all, without waiting", false, false, {{0, kLength}}, 0, kLength},
      {"told", false, true, {{0, kHalf}}, kHalf, kHalf},
      {"told more", false, true, {{0, kHalf}}, kHalf + 1, kHalf + 1},
      {"told less", false, true, {{0, kHalf}}, 1, kHalf},
      {"all", false, true, {{0, kHalf}, {kHalf, kLength}}, 0, 0},
      {"immediate", true, true, {}, 0, 0},
  };
  for (const auto& c : kCases) {
    for (const uint8_t status : {0x00, 0x02, 0x04}) {
      SCOPED_TRACE(testing::Message() << c.what << ", status " << int{status});
      Parameters parameters = Negotiated();
      parameters.initial_r2t = true;
      parameters.immediate_data = c.immediate;
      parameters.first_burst_length = parameters.max_burst_length = kLength;
      parameters.target_max_recv_data_segment_length = 8192;
      parameters.max_outstanding_r2t = 8;
      const PieceBuffer from(std::string(kLength, 'w'), 3);
      InitiatorHarness initiator(parameters);
      const uint32_t tag = initiator.Write(0, from, kLength).tag;
      initiator.Take();
      R2tPdu r2t;
      r2t.initiator_task_tag = tag;
      r2t.target_transfer_tag = 1;
      for (const Range& range : c.asked) {
        r2t.buffer_offset = range.begin;
        r2t.desired_data_transfer_length = range.end - range.begin;
        initiator.Feed(Frame(r2t, "", parameters));
        if (c.takes_data) initiator.Take();
        ++r2t.r2t_sn;
      }
      ScsiResponsePdu response;
      response.initiator_task_tag = tag;
      response.status = status;
      response.underflow = c.told > 0;
      response.residual_count = c.told;
      initiator.Feed(Frame(response, "", parameters));
      EXPECT_EQ(initiator.refused, "");
      ASSERT_EQ(initiator.responses.count(0), 1u);
      EXPECT_EQ(initiator.responses[0].underflow, c.expected > 0);
      EXPECT_EQ(initiator.responses[0].residual_count, c.expected);
    }
  }
}

TEST(HostileTargetTest, RandomPdusNeverHurt) {
  uint32_t random = 12345;
  const auto next = [&random] {
    random = random * 1664525u + 1013904223u;
    return random >> 8;
  };
  for (int round = 0; round < 3000; ++round) {
    Victim victim;
    std::string bytes;
    for (int i = 0; i < 4; ++i) {
      Bhs bhs;
      for (uint8_t& byte : bhs) byte = static_cast<uint8_t>(next());
      const uint8_t opcodes[] = {0x21, 0x25, 0x31, 0x20, 0x3f, 0x32};
      bhs[0] = opcodes[next() % 6];
      bhs[1] |= 0x80;
      EncodeLengths(bhs.data(), 0, 0);
      // Real tags, and small numbers, go further.
      const uint32_t tag = next() % 2 ? victim.read : victim.write;
      for (int b = 0; b < 4; ++b) {
        bhs[16 + b] = static_cast<uint8_t>(tag >> (24 - 8 * b));
      }
      if (next() % 2) {
        for (int b = 36; b < 48; ++b) {
          bhs[b] = b % 4 > 1 ? static_cast<uint8_t>(next() % 16) : 0;
        }
      }
      bytes += Frame(bhs, std::string(next() % 64, 'r'), Negotiated());
    }
    victim.initiator.Feed(bytes, 1 + next() % 200);
    victim.initiator.TakeBytes(~size_t{0}, 4096);
  }
}

}  // namespace
}  // namespace skiff::protocol
