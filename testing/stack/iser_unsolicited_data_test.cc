// Unsolicited Data-Out over iSER at a target, from a hand-made initiator: on a
// fabric with short eager messages, which is where InitialR2T=No is agreed on
// (docs/iser.md).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/iser_raw_initiator_test_util.h"

namespace skiff::protocol {
namespace {

using scsi::testing::TestBackend;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SimRdmaOptions;
using transport::Access;

constexpr uint32_t kBytes = 16384;
constexpr uint32_t kFirstBurst = 8192;

SimRdmaOptions ShortEagerMessages() {
  SimRdmaOptions fabric = SimRdmaOptions::InfiniBand();
  fabric.capabilities.eager_message_bytes = 4096;
  return fabric;
}

// The parameter: RFC 7145's dialect, and not the deployed one.
class UnsolicitedDataTest : public RawInitiatorTest {
 protected:
  UnsolicitedDataTest() : UnsolicitedDataTest({}, MakeRamTarget()) {}
  UnsolicitedDataTest(const TargetServerOptions& server,
                      std::shared_ptr<scsi::Target> target)
      : RawInitiatorTest(ShortEagerMessages(), server, std::move(target)) {
    for (uint32_t i = 0; i < kBytes; ++i) {
      data_ += static_cast<char>(i * 7 + i / 251);
    }
  }

  void LogIn(const std::string& initial_r2t = "No") {
    RawInitiatorTest::LogIn(
        absl::StrCat("InitialR2T=", initial_r2t,
                     "|ImmediateData=Yes|FirstBurstLength=", kFirstBurst, "|",
                     GetParam() ? "MaxOutstandingUnexpectedPDUs=32|"
                                  "TaggedBufferForSolicitedDataOnly=No|"
                                : ""));
  }

  // Where the target may read what is not sent unsolicited; what is sent is
  // something else there.
  IserControlHeader Rest(uint32_t unsolicited) {
    memory_.push_back(Buffer(kBytes, Access::kRemoteRead));
    RawIserPeer::Memory& memory = *memory_.back();
    data_.copy(memory.data() + unsolicited, kBytes - unsolicited, unsolicited);
    transport::RemoteBuffer base = memory.Remote();
    if (!GetParam()) base.address += unsolicited;
    return Reading(base);
  }
  // A write of `bytes`, after which Data-Out follows.
  void SendCommand(uint32_t bytes, uint32_t immediate,
                   const IserControlHeader& header = {}) {
    ScsiCommandPdu pdu = Command(0, bytes);
    pdu.final = false;
    peer_.Send(ToIser(pdu, data_.substr(0, immediate), header));
  }
  void SendDataOut(uint32_t data_sn, uint32_t offset, uint32_t size,
                   bool final) {
    ScsiDataOutPdu pdu;
    pdu.final = final;
    pdu.initiator_task_tag = tag_;
    pdu.target_transfer_tag = kReservedTag;
    pdu.data_sn = data_sn;
    pdu.buffer_offset = offset;
    peer_.Send(ToIser(pdu, data_.substr(offset, size)));
  }
  // A write of kBytes whose unsolicited data come in these pieces; immediate
  // data are the first.
  void SendInPieces(const std::vector<uint32_t>& pieces) {
    uint32_t unsolicited = 0;
    for (const uint32_t piece : pieces) unsolicited += piece;
    SendCommand(kBytes, pieces[0], Rest(unsolicited));
    uint32_t offset = pieces[0];
    for (uint32_t i = 1; i < pieces.size(); ++i) {
      SendDataOut(i - 1, offset, pieces[i], i + 1 == pieces.size());
      offset += pieces[i];
    }
  }
  void ExpectGood() {
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response_).ok());
    EXPECT_EQ(response_.initiator_task_tag, tag_);
    EXPECT_EQ(response_.status, 0);
  }
  // What the other session finds on the medium.
  std::string Medium() {
    TestCommand read(scsi::cdb::Read(0, kFilled), kFilled * kBlock);
    stack_.Run(&read.command);
    EXPECT_EQ(read.command.status, 0);
    return read.buffer;
  }
  // Only this command has failed.
  void ExpectDataError(uint8_t asc, uint8_t ascq, const std::string& why) {
    ASSERT_NO_FATAL_FAILURE(ExpectAbortedCommand(asc, ascq));
    EXPECT_THAT(log_, Contains(HasSubstr(why)));
    ASSERT_NO_FATAL_FAILURE(ExpectStillServed());
    // Neither do data that come late disturb anybody.
    SendInPieces({512, 1024});
    ExpectGood();
    EXPECT_EQ(Medium().substr(0, kBytes), data_);
    ExpectServes();
  }

  std::string data_;
  std::vector<std::unique_ptr<RawIserPeer::Memory>> memory_;
  ScsiResponsePdu response_;
};

std::string DialectName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Rfc7145" : "Deployed";
}

INSTANTIATE_TEST_SUITE_P(Dialects, UnsolicitedDataTest, ::testing::Bool(),
                         DialectName);

// As Linux's initiator writes; the rest is read.
TEST_P(UnsolicitedDataTest, PrecedesDataThatAreRead) {
  LogIn();
  const std::vector<std::vector<uint32_t>> cases = {
      {512, 1024, 3072}, {0, 512}, {4096, 4096}, {1024, 512, 512, 512, 512}};
  for (const std::vector<uint32_t>& pieces : cases) {
    SCOPED_TRACE(::testing::PrintToString(pieces));
    SendInPieces(pieces);
    ASSERT_NO_FATAL_FAILURE(ExpectGood());
    EXPECT_EQ(Medium().substr(0, kBytes), data_);
    EXPECT_TRUE(memory_.back()->GuardsAreIntact());
    // Not what would be there if this one's were lost.
    std::rotate(data_.begin(), data_.begin() + 1, data_.end());
  }
  ExpectServes();
}

TEST_P(UnsolicitedDataTest, NeedsNoStagWhereItIsAll) {
  LogIn();
  SendCommand(kFirstBurst, 512);
  SendDataOut(0, 512, 3584, false);
  SendDataOut(1, 4096, 4096, true);
  ExpectGood();
  EXPECT_EQ(Medium().substr(0, kFirstBurst), data_.substr(0, kFirstBurst));
  ExpectServes();
}

// The CDB wants two blocks, which end within the second Data-Out.
TEST_P(UnsolicitedDataTest, IsDroppedBeyondWhatTheCommandWants) {
  LogIn();
  ScsiCommandPdu pdu = Command(0, kBytes);
  pdu.final = false;
  const scsi::Cdb cdb = scsi::cdb::Write(0, 2);
  std::copy_n(cdb.bytes.begin(), 16, pdu.cdb.begin());
  peer_.Send(ToIser(pdu, data_.substr(0, 512), Rest(4096)));
  SendDataOut(0, 512, 256, false);
  SendDataOut(1, 768, 512, false);
  SendDataOut(2, 1280, 2816, true);
  ExpectGood();
  EXPECT_TRUE(response_.underflow);
  EXPECT_EQ(response_.residual_count, kBytes - 2 * kBlock);
  EXPECT_EQ(Medium(), data_.substr(0, 2 * kBlock) +
                          std::string((kFilled - 2) * kBlock, 'm'));
}

TEST_P(UnsolicitedDataTest, OutOfSequence) {
  LogIn();
  SendCommand(kBytes, 512, Rest(2048));
  SendDataOut(1, 512, 1536, true);
  ExpectDataError(0x4b, 0x00, "Data-Out out of sequence");
}

TEST_P(UnsolicitedDataTest, WithAWrongOffset) {
  for (const uint32_t offset : {0u, 256u, 1024u, 65536u}) {
    SCOPED_TRACE(offset);
    if (tag_ == 100) LogIn();
    SendCommand(kBytes, 512, Rest(2048));
    ScsiDataOutPdu pdu;
    pdu.final = true;
    pdu.initiator_task_tag = tag_;
    pdu.target_transfer_tag = kReservedTag;
    pdu.buffer_offset = offset;
    peer_.Send(ToIser(pdu, data_.substr(0, 1536)));
    ExpectDataError(0x4b, 0x05, "Data-Out with a wrong offset");
  }
}

TEST_P(UnsolicitedDataTest, BeyondTheFirstBurst) {
  LogIn();
  SendCommand(kBytes, 512, Rest(8196));
  SendDataOut(0, 512, 4096, false);
  SendDataOut(1, 4608, 3588, true);
  ExpectDataError(0x0c, 0x0d, "more unsolicited data than FirstBurstLength");
}

// It would have to go on where the first burst has ended.
TEST_P(UnsolicitedDataTest, WithoutAnEndAtThatOfTheFirstBurst) {
  LogIn();
  SendCommand(kBytes, 0, Rest(kFirstBurst));
  SendDataOut(0, 0, kFirstBurst, false);
  ExpectDataError(0x0c, 0x0d, "more unsolicited data than FirstBurstLength");
}

TEST_P(UnsolicitedDataTest, BeyondTheCommand) {
  LogIn();
  SendCommand(2048, 512);
  SendDataOut(0, 512, 2048, true);
  ExpectDataError(0x0c, 0x0d, "or the command's length");
}

// The rest is being read when it comes.
TEST_P(UnsolicitedDataTest, AfterItsEnd) {
  LogIn();
  SendCommand(kBytes, 512, Rest(2048));
  SendDataOut(0, 512, 1536, true);
  SendDataOut(1, 2048, 512, true);
  ExpectDataError(0x0c, 0x0c, "unsolicited Data-Out after its end");
}

TEST_P(UnsolicitedDataTest, ThatWasNotAnnounced) {
  LogIn();
  ScsiCommandPdu pdu = Command(0, kBytes);
  ASSERT_TRUE(pdu.final);
  peer_.Send(ToIser(pdu, data_.substr(0, 512), Rest(512)));
  SendDataOut(0, 512, 512, true);
  ExpectDataError(0x0c, 0x0c, "unsolicited Data-Out after its end");
}

TEST_P(UnsolicitedDataTest, TooLittleWithoutAStag) {
  LogIn();
  SendCommand(4096, 512);
  SendDataOut(0, 512, 1024, true);
  ExpectDataError(0x0c, 0x0d,
                  "less unsolicited data than the command without a Write "
                  "STag needs");
}

TEST_P(UnsolicitedDataTest, WithInitialR2t) {
  LogIn("Yes");
  SendCommand(kBytes, 512, Rest(2048));
  SendDataOut(0, 512, 1536, true);
  ASSERT_NO_FATAL_FAILURE(ExpectAbortedCommand(0x0c, 0x0c));
  EXPECT_THAT(log_, Contains(HasSubstr("although InitialR2T=Yes")));
  ExpectStillServed();
  ExpectServes();
}

// A write whose Data-Out do not come stops no COMPARE AND WRITE elsewhere; one
// to its blocks for a while only.
TEST_P(UnsolicitedDataTest, SilenceDoesNotStopCompareAndWrite) {
  LogIn();
  SendCommand(kFirstBurst, 512);
  const auto swap = [&](uint64_t lba) {
    const std::string expected(kBlock, 'm');
    TestCommand command(scsi::cdb::CompareAndWrite(lba, 1, false), 0,
                        expected + std::string(kBlock, 'n'));
    stack_.RunToGood(&command);
  };
  const absl::Time begin = stack_.client_reactor->Now();
  swap(kFilled - 1);
  EXPECT_LT(stack_.client_reactor->Now() - begin, absl::Seconds(1));
  swap(4);
  EXPECT_LT(stack_.client_reactor->Now() - begin, absl::Seconds(4));
  ASSERT_NO_FATAL_FAILURE(ExpectAbortedCommand(0x4b, 0x06));
  // What comes now is dropped.
  SendDataOut(0, 512, kFirstBurst - 512, true);
  ExpectStillServed();
  EXPECT_EQ(Medium()[4 * kBlock], 'n');
}

// With a logical unit that is no memory, and one long buffer.
class StagedDataTest : public UnsolicitedDataTest {
 protected:
  static constexpr uint32_t kLong = 32 << 10;

  StagedDataTest()
      : StagedDataTest(
            std::make_shared<TestBackend>(scsi::testing::ThinInfo(kBlocks))) {}
  explicit StagedDataTest(std::shared_ptr<TestBackend> backend)
      : UnsolicitedDataTest(OneLongBuffer(), TargetWith(backend)),
        backend_(std::move(backend)) {}

  static TargetServerOptions OneLongBuffer() {
    TargetServerOptions options;
    options.worker.buffer_pool_bytes = 352 << 10;  // Five are short.
    options.worker.buffer_bytes = 256 << 10;
    return options;
  }
  static std::shared_ptr<scsi::Target> TargetWith(
      std::shared_ptr<TestBackend> backend) {
    std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
    const absl::Status added =
        target->AddLogicalUnit(std::move(backend), scsi::LogicalUnitOptions());
    EXPECT_TRUE(added.ok()) << added;
    return target;
  }

  const std::shared_ptr<TestBackend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Dialects, StagedDataTest, ::testing::Bool(),
                         DialectName);

// All of it has come when there is a buffer for the command.
TEST_P(StagedDataTest, WaitsUntilThereIsAPlaceForIt) {
  LogIn();
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand other(scsi::cdb::Write(kFilled, kLong / kBlock), 0,
                    std::string(kLong, 'o'));
  stack_.initiator->Submit(&other.command);
  ASSERT_TRUE(stack_.RunUntil([this] { return backend_->held() == 1; }));
  // What holds a buffer waits for a long one, rather than to go on in steps.
  peer_.Send(ToIser(Command(0, kBlock), data_.substr(0, kBlock)));
  ASSERT_TRUE(stack_.RunUntil([this] { return backend_->held() == 2; }));
  data_ += data_;  // Long enough not to fit a short buffer.
  ScsiCommandPdu pdu = Command(0, kLong);
  pdu.final = false;
  const auto memory = Buffer(kLong, Access::kRemoteRead);
  data_.copy(memory->data() + 4608, kLong - 4608, 4608);
  transport::RemoteBuffer base = memory->Remote();
  if (!GetParam()) base.address += 4608;
  peer_.Send(ToIser(pdu, data_.substr(0, 512), Reading(base)));
  SendDataOut(0, 512, 1024, false);
  SendDataOut(1, 1536, 3072, true);
  stack_.world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(backend_->held(), 2u);
  backend_->completion = TestBackend::Completion::kPosted;
  backend_->CompleteHeld();
  ASSERT_TRUE(peer_.Next().has_value());  // The short one's answer.
  ExpectGood();
  EXPECT_EQ(Medium(), data_);
  EXPECT_TRUE(stack_.RunUntil([&other] { return other.finished; }));
  EXPECT_EQ(other.command.status, 0);
}

}  // namespace
}  // namespace skiff::protocol
