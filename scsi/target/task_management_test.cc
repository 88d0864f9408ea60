// Task attributes, ACA, and task management, on one reactor.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::Outcome;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint64_t kWellKnown = 0xc101000000000000;
constexpr uint8_t kNaca = 0x04;

class TaskManagementTest : public ::testing::Test {
 protected:
  TaskManagementTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(8192))),
        target_(backend_, {.max_tasks = 16}),
        other_(target_.target(), &target_.reactor()) {
    other_.ClearUnitAttentions();
    backend_->completion = TestBackend::Completion::kHeld;
  }

  // A READ that waits for the medium.
  TestCommand* Read(Attribute attribute = Attribute::kSimple,
                    uint8_t control = 0, TestNexus* nexus = nullptr) {
    Bytes cdb = Cdb10(0x28, 0, 1);
    cdb[9] = control;
    return Submit(cdb, {}, 512, attribute, nexus);
  }
  // A command that fails at once.
  TestCommand* Bad(Attribute attribute = Attribute::kSimple,
                   uint8_t control = 0) {
    Bytes cdb = Cdb10(0x28, 9000, 1);
    cdb[9] = control;
    return Submit(cdb, {}, 512, attribute);
  }
  TestCommand* Tur(Attribute attribute = Attribute::kSimple,
                   TestNexus* nexus = nullptr) {
    return Submit(Bytes(6), {}, 0, attribute, nexus);
  }
  TestCommand* Submit(const Bytes& cdb, const Bytes& out, uint32_t room,
                      Attribute attribute = Attribute::kSimple,
                      TestNexus* nexus = nullptr) {
    commands_.push_back(std::make_unique<TestCommand>(cdb, out, room));
    commands_.back()->task.attribute = attribute;
    (nexus != nullptr ? nexus : &target_.nexus())
        ->Submit(commands_.back().get());
    return commands_.back().get();
  }
  TaskManagementResult Manage(TaskManagement function,
                              TestCommand* command = nullptr,
                              uint64_t lun = 0) {
    return target_.nexus().Manage(
        function, lun, command != nullptr ? &command->task : nullptr);
  }

  std::vector<std::unique_ptr<TestCommand>> commands_;  // Outlive the nexuses.
  std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
  TestNexus other_;
};

constexpr auto kComplete = TaskManagementResult::kFunctionComplete;

// --- Task attributes.

TEST_F(TaskManagementTest, OrderedTasksRunAlone) {
  TestCommand* a = Read();
  TestCommand* b = Read(Attribute::kOrdered);
  TestCommand* c = Read();
  TestCommand* d = Read();
  EXPECT_EQ(backend_->held(), 1u);
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*a), "GOOD");
  EXPECT_EQ(Outcome(*b), "pending");
  EXPECT_EQ(backend_->held(), 1u) << "b alone";
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*b), "GOOD");
  EXPECT_EQ(backend_->held(), 2u);
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*c), "GOOD");
  EXPECT_EQ(Outcome(*d), "GOOD");
}

TEST_F(TaskManagementTest, ManyDormantTasksThatEndAtOnceDoNotRecurse) {
  Read(Attribute::kOrdered);
  std::vector<TestCommand*> behind;
  for (int i = 0; i < 10; ++i) behind.push_back(Tur(Attribute::kOrdered));
  backend_->CompleteHeld();
  for (TestCommand* command : behind) EXPECT_EQ(Outcome(*command), "GOOD");
}

TEST_F(TaskManagementTest, HeadOfQueueOvertakes) {
  Read();
  TestCommand* ordered = Tur(Attribute::kOrdered);
  TestCommand* urgent = Tur(Attribute::kHeadOfQueue);
  EXPECT_EQ(Outcome(*ordered), "pending");
  EXPECT_EQ(Outcome(*urgent), "GOOD");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*ordered), "GOOD");
}

TEST_F(TaskManagementTest, OneNexusDoesNotOrderAnother) {
  Read(Attribute::kOrdered);
  EXPECT_EQ(Outcome(*Tur(Attribute::kOrdered, &other_)), "GOOD");
  backend_->CompleteHeld();
}

TEST_F(TaskManagementTest, TheTaskSetHasABound) {
  for (int i = 0; i < 16; ++i) Read();
  EXPECT_EQ(Outcome(*Read()), "TASK SET FULL");
  EXPECT_EQ(Outcome(*Tur(Attribute::kHeadOfQueue)), "TASK SET FULL");
  EXPECT_EQ(Outcome(*Tur(Attribute::kSimple, &other_)), "GOOD");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
}

// --- ACA.

TEST_F(TaskManagementTest, NacaEstablishesAnAcaCondition) {
  TestCommand* older = Read();
  TestCommand* dormant = Tur(Attribute::kOrdered);
  TestCommand* bad = Bad(Attribute::kHeadOfQueue, kNaca);
  EXPECT_EQ(bad->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*Tur()), "ACA ACTIVE");
  EXPECT_EQ(Outcome(*Tur(Attribute::kOrdered)), "ACA ACTIVE");
  EXPECT_EQ(Outcome(*Tur(Attribute::kHeadOfQueue)), "ACA ACTIVE");
  EXPECT_EQ(Outcome(*Tur(Attribute::kSimple, &other_)), "GOOD");
  EXPECT_EQ(Outcome(*Tur(Attribute::kAca)), "GOOD");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*older), "pending") << "blocked";
  EXPECT_EQ(Outcome(*dormant), "pending");
  EXPECT_EQ(Manage(TaskManagement::kClearAca), kComplete);
  EXPECT_EQ(Outcome(*older), "GOOD");
  EXPECT_EQ(Outcome(*dormant), "GOOD");
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
}

TEST_F(TaskManagementTest, WithoutNacaThereIsNoAcaCondition) {
  EXPECT_EQ(Bad()->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
  EXPECT_EQ(Outcome(*Tur(Attribute::kAca)),
            "ILLEGAL REQUEST, INVALID MESSAGE ERROR (49h/00h)");
  EXPECT_EQ(Manage(TaskManagement::kClearAca), kComplete) << "nothing to do";
}

TEST_F(TaskManagementTest, AnUnknownCommandCanEstablishOneToo) {
  Bytes cdb(16);
  cdb[0] = 0xc5;  // Vendor specific: no CONTROL byte is known.
  cdb[5] = cdb[15] = kNaca;
  EXPECT_EQ(Submit(cdb, {}, 0)->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
  cdb[0] = 0x9f;
  EXPECT_EQ(Submit(cdb, {}, 0)->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*Tur()), "ACA ACTIVE");
  EXPECT_EQ(Manage(TaskManagement::kClearAca), kComplete);
}

TEST_F(TaskManagementTest, OneAcaTaskAtATimeWhichClearAcaAborts) {
  Bad(Attribute::kSimple, kNaca);
  TestCommand* repair = Read(Attribute::kAca);
  EXPECT_EQ(Outcome(*Read(Attribute::kAca)), "ACA ACTIVE");
  bool done = false;
  target_.nexus().nexus()->Manage(TaskManagement::kClearAca, 0, nullptr,
                                  [&](TaskManagementResult) { done = true; });
  target_.nexus().Settle();
  EXPECT_FALSE(done) << "the medium still has the ACA task";
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_TRUE(done);
  EXPECT_EQ(Outcome(*repair), "aborted");
}

TEST_F(TaskManagementTest, AnAcaTaskThatFailsWithoutNacaEndsTheCondition) {
  TestCommand* blocked = Read();
  Bad(Attribute::kSimple, kNaca);
  backend_->CompleteHeld();
  EXPECT_EQ(Bad(Attribute::kAca, kNaca)->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*blocked), "pending") << "a new condition";
  EXPECT_EQ(Bad(Attribute::kAca)->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(Outcome(*blocked), "GOOD");
}

TEST_F(TaskManagementTest, ABlockedTaskCanBeAborted) {
  TestCommand* blocked = Read();
  Bad(Attribute::kSimple, kNaca);
  backend_->CompleteHeld();
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, blocked), kComplete);
  EXPECT_EQ(Outcome(*blocked), "aborted");
  EXPECT_EQ(Manage(TaskManagement::kClearAca), kComplete);
}

// --- Aborting.

TEST_F(TaskManagementTest, AbortTaskWaitsForTheMedium) {
  TestCommand* read = Read();
  TestCommand* bystander = Read();
  std::vector<TaskManagementResult> results;
  target_.nexus().nexus()->Manage(
      TaskManagement::kAbortTask, 0, &read->task,
      [&](TaskManagementResult r) { results.push_back(r); });
  target_.nexus().Settle();
  EXPECT_TRUE(results.empty());
  EXPECT_EQ(Outcome(*read), "pending");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*read), "aborted");
  EXPECT_EQ(Outcome(*bystander), "GOOD");
  target_.nexus().Settle();
  EXPECT_EQ(results, std::vector<TaskManagementResult>{kComplete});
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, read),
            TaskManagementResult::kTaskDoesNotExist);
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, bystander),
            TaskManagementResult::kTaskDoesNotExist);
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, nullptr),
            TaskManagementResult::kTaskDoesNotExist);
  EXPECT_EQ(Outcome(*Tur()), "GOOD") << "no unit attention for oneself";
}

TEST_F(TaskManagementTest, AbortTaskCancelsTransfers) {
  target_.port().immediate_data_out = false;
  TestCommand* write = Submit(Cdb10(0x2a, 0, 1), Bytes(512), 0);
  EXPECT_EQ(target_.port().waiting_transfers(), 1u);
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, write), kComplete);
  EXPECT_EQ(target_.port().cancels, 1);
  EXPECT_EQ(Outcome(*write), "aborted");
  EXPECT_TRUE(backend_->log.empty()) << "nothing was written";
}

TEST_F(TaskManagementTest, ADormantTaskIsAbortedAtOnce) {
  Read();
  TestCommand* dormant = Read(Attribute::kOrdered);
  TestCommand* behind = Read();
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, dormant), kComplete);
  EXPECT_EQ(Outcome(*dormant), "aborted");
  EXPECT_EQ(backend_->held(), 2u) << "what was behind it runs";
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*behind), "GOOD");
}

TEST_F(TaskManagementTest, AbortAndClearTaskSetReachThisNexusAlone) {
  for (const auto function :
       {TaskManagement::kAbortTaskSet, TaskManagement::kClearTaskSet}) {
    TestCommand* a = Read();
    TestCommand* b = Read(Attribute::kOrdered);
    TestCommand* c = Read();
    TestCommand* theirs = Read(Attribute::kSimple, 0, &other_);
    bool done = false;
    target_.nexus().nexus()->Manage(function, 0, nullptr,
                                    [&](TaskManagementResult) { done = true; });
    EXPECT_EQ(Outcome(*b), "aborted");
    EXPECT_EQ(Outcome(*c), "aborted") << "not started when b went";
    EXPECT_EQ(backend_->held(), 2u);
    backend_->CompleteHeld();
    target_.nexus().Settle();
    EXPECT_TRUE(done);
    EXPECT_EQ(Outcome(*a), "aborted");
    EXPECT_EQ(Outcome(*theirs), "GOOD");
    EXPECT_EQ(Outcome(*Tur()), "GOOD");
    EXPECT_EQ(Outcome(*Tur(Attribute::kSimple, &other_)), "GOOD");
  }
}

TEST_F(TaskManagementTest, NewTasksRunWhileOldOnesAreAborted) {
  TestCommand* old_read = Read();
  bool done = false;
  target_.nexus().nexus()->Manage(TaskManagement::kAbortTaskSet, 0, nullptr,
                                  [&](TaskManagementResult) { done = true; });
  TestCommand* new_read = Read();
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_TRUE(done);
  EXPECT_EQ(Outcome(*old_read), "aborted");
  EXPECT_EQ(Outcome(*new_read), "GOOD");
}

TEST_F(TaskManagementTest, ALogicalUnitResetReachesEveryNexus) {
  for (const auto function :
       {TaskManagement::kLogicalUnitReset, TaskManagement::kTargetReset}) {
    TestCommand* mine = Read();
    TestCommand* theirs = Read(Attribute::kSimple, 0, &other_);
    TestCommand* dormant = Read(Attribute::kOrdered, 0, &other_);
    bool done = false;
    target_.nexus().nexus()->Manage(function, 0, nullptr,
                                    [&](TaskManagementResult) { done = true; });
    target_.nexus().Settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(Outcome(*dormant), "aborted") << "without a response: TAS = 0";
    backend_->CompleteHeld();
    target_.nexus().Settle();
    EXPECT_TRUE(done);
    EXPECT_EQ(Outcome(*mine), "aborted");
    EXPECT_EQ(Outcome(*theirs), "aborted");
    const std::string reset =
        "UNIT ATTENTION, BUS DEVICE RESET FUNCTION OCCURRED (29h/03h)";
    for (TestNexus* nexus : {&target_.nexus(), &other_}) {
      EXPECT_EQ(Outcome(*Tur(Attribute::kSimple, nexus)), reset);
      EXPECT_EQ(Outcome(*Tur(Attribute::kSimple, nexus)), "GOOD");
    }
  }
}

TEST_F(TaskManagementTest, WithTasOthersGetTaskAborted) {
  backend_->completion = TestBackend::Completion::kPosted;
  Bytes list(4 + 12);
  list[4] = 0x0a;
  list[5] = 10;
  list[6] = 0x22;
  list[7] = 0x10;
  list[9] = 0x40;
  EXPECT_EQ(Outcome(*target_.Run({0x15, 0x10, 0, 0, 16, 0}, list)), "GOOD");
  other_.Settle();
  other_.ClearUnitAttentions();
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand* mine = Read();
  TestCommand* theirs = Read(Attribute::kSimple, 0, &other_);
  target_.nexus().nexus()->Manage(TaskManagement::kLogicalUnitReset, 0, nullptr,
                                  [](TaskManagementResult) {});
  target_.nexus().Settle();
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_EQ(Outcome(*mine), "aborted");
  EXPECT_EQ(Outcome(*theirs), "TASK ABORTED");
  EXPECT_EQ(theirs->status(), ScsiStatus::kTaskAborted);
}

TEST_F(TaskManagementTest, AResetEndsAnAcaCondition) {
  TestCommand* blocked = Read();
  Bad(Attribute::kSimple, kNaca);
  backend_->CompleteHeld();
  EXPECT_EQ(Manage(TaskManagement::kLogicalUnitReset), kComplete);
  EXPECT_EQ(Outcome(*blocked), "aborted");
  target_.nexus().ClearUnitAttentions();
  EXPECT_EQ(Outcome(*Tur()), "GOOD");
}

TEST_F(TaskManagementTest, FunctionsNeedALogicalUnit) {
  for (const auto function :
       {TaskManagement::kAbortTask, TaskManagement::kAbortTaskSet,
        TaskManagement::kClearAca, TaskManagement::kClearTaskSet,
        TaskManagement::kLogicalUnitReset}) {
    EXPECT_EQ(Manage(function, nullptr, uint64_t{9} << 48),
              TaskManagementResult::kIncorrectLun);
  }
  EXPECT_EQ(Manage(TaskManagement::kLogicalUnitReset, nullptr, kWellKnown),
            kComplete);
}

TEST_F(TaskManagementTest, OverlappingFunctionsAllEnd) {
  Read();
  Read();
  int done = 0;
  for (const auto function :
       {TaskManagement::kAbortTaskSet, TaskManagement::kLogicalUnitReset,
        TaskManagement::kTargetReset, TaskManagement::kClearAca}) {
    target_.nexus().nexus()->Manage(function, 0, nullptr,
                                    [&](TaskManagementResult) { ++done; });
  }
  target_.nexus().Settle();
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_EQ(done, 4);
}

TEST_F(TaskManagementTest, AFailedTransferEndsTheCommand) {
  target_.port().immediate_data_out = false;
  TestCommand* write = Submit(Cdb10(0x2a, 0, 1), Bytes(512), 0);
  target_.port().CancelTransfers(&write->task);  // The port's own trouble.
  target_.port().FinishTransfers();
  EXPECT_EQ(Outcome(*write), "ABORTED COMMAND, DATA PHASE ERROR (4Bh/00h)");
}

// --- The write guard.

TEST_F(TaskManagementTest, CompareAndWriteWaitsForWritesAndHoldsThemBack) {
  TestCommand* before = Submit(Cdb10(0x2a, 0, 1), Bytes(512, 1), 0);
  Bytes data(512, 1);
  data.resize(1024, 2);
  TestCommand* swap = Submit(Cdb16(0x89, 0, 1), data, 0);
  TestCommand* after = Submit(Cdb10(0x2a, 0, 1), Bytes(512, 3), 0, {}, &other_);
  EXPECT_EQ(backend_->held(), 1u) << "the first write";
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_EQ(Outcome(*before), "GOOD");
  EXPECT_EQ(backend_->held(), 1u) << "the swap alone";
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*swap), "GOOD");
  target_.nexus().Settle();
  EXPECT_EQ(backend_->held(), 1u);
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*after), "GOOD");
  EXPECT_EQ(backend_->bytes()[0], 3);
}

TEST_F(TaskManagementTest, TasksThatWaitInTheGuardCanBeAborted) {
  TestCommand* write = Submit(Cdb10(0x2a, 0, 1), Bytes(512, 1), 0);
  TestCommand* swap = Submit(Cdb16(0x89, 0, 1), Bytes(1024), 0);
  TestCommand* parked = Submit(Cdb10(0x2a, 0, 1), Bytes(512, 3), 0);
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, parked), kComplete);
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, swap), kComplete);
  EXPECT_EQ(Outcome(*parked), "aborted");
  EXPECT_EQ(Outcome(*swap), "aborted");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*write), "GOOD");
  target_.nexus().Settle();
  // The guard is free again, for both kinds.
  backend_->completion = TestBackend::Completion::kPosted;
  EXPECT_EQ(Outcome(*target_.Run(Cdb10(0x2a, 0, 1), Bytes(512))), "GOOD");
  EXPECT_EQ(Outcome(*target_.Run(Cdb16(0x89, 0, 1), Bytes(1024))), "GOOD");
}

TEST_F(TaskManagementTest, AnExclusiveTaskThatIsAbortedFreesTheGuard) {
  TestCommand* swap = Submit(Cdb16(0x89, 0, 1), Bytes(1024), 0);
  TestCommand* write = Submit(Cdb10(0x2a, 0, 1), Bytes(512, 3), 0);
  EXPECT_EQ(backend_->held(), 1u);
  target_.nexus().nexus()->Manage(TaskManagement::kAbortTask, 0, &swap->task,
                                  [](TaskManagementResult) {});
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*swap), "aborted");
  target_.nexus().Settle();
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*write), "GOOD");
}

TEST_F(TaskManagementTest, ManySwapsTakeTurns) {
  std::vector<TestCommand*> swaps;
  for (uint8_t i = 0; i < 6; ++i) {
    Bytes data(512, i);
    data.resize(1024, i + 1);
    swaps.push_back(
        Submit(Cdb16(0x89, 0, 1), data, 0, {}, i % 2 ? &other_ : nullptr));
    Submit(Cdb10(0x2a, 1, 1), Bytes(512, i), 0);
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(backend_->held(), 7u);
    backend_->CompleteHeld();
    target_.nexus().Settle();
  }
  for (TestCommand* swap : swaps) EXPECT_EQ(swap->completed, true);
}

// --- Media that can cancel.

TEST_F(TaskManagementTest, AnAbortTakesBackWhatTheMediumHasNotBegun) {
  backend_->cancellation = TestBackend::Cancellation::kTakenBack;
  TestCommand* first = Read();
  TestCommand* second = Read();
  EXPECT_EQ(Manage(TaskManagement::kAbortTask, first), kComplete);
  EXPECT_EQ(Outcome(*first), "aborted");
  EXPECT_EQ(Outcome(*second), "pending");
  EXPECT_EQ(backend_->held(), 1u);
  EXPECT_EQ(Manage(TaskManagement::kLogicalUnitReset), kComplete);
  EXPECT_EQ(Outcome(*second), "aborted");
  EXPECT_EQ(backend_->held(), 0u);
  EXPECT_TRUE(backend_->log.empty());
}

TEST_F(TaskManagementTest, WhatTheMediumCutsShortIsNoFailureOfIt) {
  backend_->cancellation = TestBackend::Cancellation::kCutShort;
  TestCommand* read = Read();
  bool aborted = false;
  target_.nexus().nexus()->Manage(
      TaskManagement::kAbortTask, 0, &read->task,
      [&aborted](TaskManagementResult) { aborted = true; });
  target_.nexus().Settle();
  EXPECT_FALSE(aborted);
  EXPECT_EQ(backend_->CompleteHeld(), 1u);
  target_.nexus().Settle();
  EXPECT_TRUE(aborted);
  EXPECT_EQ(Outcome(*read), "aborted");
  EXPECT_EQ(target_.target()->LogicalUnitStatuses()[0].failures.total(), 0u);
}

}  // namespace
}  // namespace skiff::scsi
