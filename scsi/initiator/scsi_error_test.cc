#include "scsi/initiator/scsi_error.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/initiator/cdb.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;

Command Ended(Command::Outcome outcome, uint8_t status = 0) {
  Command command;
  SetCdb(cdb::Read(100, 8), &command);
  command.outcome = outcome;
  command.status = status;
  return command;
}

Command EndedWith(SenseKey key, AdditionalSense code) {
  Command command = Ended(Command::Outcome::kCompleted, 0x02);
  SenseData sense;
  sense.key = key;
  sense.code = code;
  uint8_t bytes[kMaxEncodedSense];
  command.sense_length =
      static_cast<uint8_t>(EncodeSense(sense, SenseFormat::kFixed, bytes));
  std::copy_n(bytes, command.sense_length, command.sense.begin());
  return command;
}

TEST(ScsiErrorTest, GoodIsOk) {
  EXPECT_TRUE(CommandStatus(Ended(Command::Outcome::kCompleted)).ok());
  EXPECT_TRUE(CommandStatus(Ended(Command::Outcome::kCompleted, 0x04)).ok());
  EXPECT_FALSE(GetScsiError(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetScsiError(absl::InternalError("other")).has_value());
}

TEST(ScsiErrorTest, CheckConditionInWordsAndForPrograms) {
  const absl::Status status = CommandStatus(
      EndedWith(SenseKey::kIllegalRequest, AdditionalSense::kLbaOutOfRange));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("READ (10): CHECK CONDITION: ILLEGAL REQUEST, LOGICAL "
                        "BLOCK ADDRESS OUT OF RANGE"));
  const auto error = GetScsiError(status);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->outcome, Command::Outcome::kCompleted);
  EXPECT_EQ(error->status, 0x02);
  ASSERT_TRUE(error->sense.has_value());
  EXPECT_EQ(error->sense->key, SenseKey::kIllegalRequest);
  EXPECT_EQ(error->sense->code, AdditionalSense::kLbaOutOfRange);
}

// SPC-4 section 4.5.6: the command was carried out. Not so with a deferred
// error.
TEST(ScsiErrorTest, RecoveredErrorsAreOk) {
  Command command =
      EndedWith(SenseKey::kRecoveredError, AdditionalSense::kNone);
  EXPECT_TRUE(IsRecovered(command));
  EXPECT_TRUE(CommandStatus(command).ok());
  command.sense[0] = 0x71;
  EXPECT_FALSE(IsRecovered(command));
  EXPECT_FALSE(CommandStatus(command).ok());
  EXPECT_FALSE(IsRecovered(Ended(Command::Outcome::kCompleted)));
  command.sense[0] = 0x70;
  command.outcome = Command::Outcome::kTimedOut;
  EXPECT_FALSE(IsRecovered(command));
}

TEST(ScsiErrorTest, CodesForPrograms) {
  const struct {
    SenseKey key;
    AdditionalSense code;
    absl::StatusCode expected;
  } kCases[] = {
      {SenseKey::kIllegalRequest, AdditionalSense::kInvalidFieldInCdb,
       absl::StatusCode::kInvalidArgument},
      {SenseKey::kIllegalRequest, AdditionalSense::kInvalidCommandOperationCode,
       absl::StatusCode::kUnimplemented},
      {SenseKey::kIllegalRequest, AdditionalSense::kLogicalUnitNotSupported,
       absl::StatusCode::kNotFound},
      {SenseKey::kDataProtect, AdditionalSense::kWriteProtected,
       absl::StatusCode::kPermissionDenied},
      {SenseKey::kDataProtect,
       AdditionalSense::kSpaceAllocationFailedWriteProtect,
       absl::StatusCode::kResourceExhausted},
      {SenseKey::kMediumError, AdditionalSense::kUnrecoveredReadError,
       absl::StatusCode::kDataLoss},
      {SenseKey::kMiscompare, AdditionalSense::kMiscompareDuringVerify,
       absl::StatusCode::kAborted},
      {SenseKey::kUnitAttention, AdditionalSense::kPowerOn,
       absl::StatusCode::kUnavailable},
      {SenseKey::kNotReady, AdditionalSense::kNotReadyBecomingReady,
       absl::StatusCode::kUnavailable},
      {SenseKey::kVendorSpecific, AdditionalSense::kNone,
       absl::StatusCode::kInternal},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(CommandStatus(EndedWith(c.key, c.code)).code(), c.expected)
        << SenseKeyName(c.key) << " " << AdditionalSenseName(c.code);
  }
  const struct {
    uint8_t status;
    absl::StatusCode expected;
  } kStatuses[] = {{0x08, absl::StatusCode::kUnavailable},
                   {0x28, absl::StatusCode::kUnavailable},
                   {0x18, absl::StatusCode::kFailedPrecondition},
                   {0x40, absl::StatusCode::kCancelled},
                   {0x7e, absl::StatusCode::kInternal}};
  for (const auto& c : kStatuses) {
    const absl::Status status =
        CommandStatus(Ended(Command::Outcome::kCompleted, c.status));
    EXPECT_EQ(status.code(), c.expected) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(ScsiStatusName(c.status)));
  }
}

TEST(ScsiErrorTest, OutcomesOtherThanAStatus) {
  const absl::Status lost =
      CommandStatus(Ended(Command::Outcome::kConnectionLost));
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("session was lost"));
  EXPECT_EQ(GetScsiError(lost)->outcome, Command::Outcome::kConnectionLost);
  for (const auto outcome :
       {Command::Outcome::kTimedOut, Command::Outcome::kTimedOutWithSession}) {
    EXPECT_EQ(CommandStatus(Ended(outcome)).code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(CommandStatus(Ended(Command::Outcome::kPending)).code(),
            absl::StatusCode::kInternal);
}

TEST(ScsiErrorTest, UnreadableSense) {
  Command command = Ended(Command::Outcome::kCompleted, 0x02);
  EXPECT_THAT(std::string(CommandStatus(command).message()),
              HasSubstr("without readable sense data"));
  command.sense.fill(0xff);
  command.sense_length = 255;  // More than there is room for.
  const absl::Status status = CommandStatus(command);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(GetScsiError(status)->sense.has_value());
}

}  // namespace
}  // namespace skiff::scsi
