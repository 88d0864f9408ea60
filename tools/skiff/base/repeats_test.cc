#include "tools/skiff/base/repeats.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "scsi/initiator/command.h"
#include "scsi/sense.h"

namespace skiff::tools {
namespace {

using scsi::Command;
using Cause = Repeats::Cause;

Command Ended(Command::Outcome outcome, uint8_t status = 0,
              scsi::SenseKey key = scsi::SenseKey::kNoSense) {
  Command command;
  command.outcome = outcome;
  command.status = status;
  if (status == 0x02) {
    command.sense_length = static_cast<uint8_t>(
        scsi::EncodeSense({key, scsi::AdditionalSense::kNone},
                          scsi::SenseFormat::kFixed, command.sense.data()));
  }
  return command;
}

const Command kTaskAborted = Ended(Command::Outcome::kCompleted, 0x40);
const Command kAborted = Ended(Command::Outcome::kAborted);
const Command kUnitAttention =
    Ended(Command::Outcome::kCompleted, 0x02, scsi::SenseKey::kUnitAttention);
const Command kTimedOut = Ended(Command::Outcome::kTimedOut);

TEST(RepeatsTest, InterruptionsEightTimes) {
  Repeats repeats;
  for (const Command& command :
       {kTaskAborted, kUnitAttention, kAborted, kTaskAborted, kUnitAttention,
        kAborted, kTaskAborted, kUnitAttention}) {
    EXPECT_EQ(repeats.Next(command), Cause::kInterruption);
  }
  EXPECT_EQ(repeats.Next(kTaskAborted), Cause::kNone);
}

TEST(RepeatsTest, TimeoutsOnce) {
  Repeats repeats;
  EXPECT_EQ(repeats.Next(kTimedOut), Cause::kTimeout);
  EXPECT_EQ(repeats.Next(kTimedOut), Cause::kNone);
}

TEST(RepeatsTest, NothingThatMayHaveBeenExecutedTwice) {
  for (Command command : {kTaskAborted, kAborted, kTimedOut}) {
    command.idempotent = false;
    EXPECT_EQ(Repeats().Next(command), Cause::kNone);
  }
}

TEST(RepeatsTest, NothingElse) {
  for (const Command& command :
       {Ended(Command::Outcome::kCompleted),
        Ended(Command::Outcome::kCompleted, 0x18),
        Ended(Command::Outcome::kCompleted, 0x02, scsi::SenseKey::kMediumError),
        Ended(Command::Outcome::kConnectionLost),
        Ended(Command::Outcome::kTimedOutWithSession)}) {
    EXPECT_EQ(Repeats().Next(command), Cause::kNone);
  }
}

}  // namespace
}  // namespace skiff::tools
