// What a nexus sees of a target by its access policy, and what becomes of that
// when the policy changes.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scsi/endian.h"
#include "scsi/lun.h"
#include "scsi/target/access_list.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestReactor;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;
constexpr char kAbsent[] =
    "ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED (25h/00h)";
constexpr char kLunsChanged[] =
    "UNIT ATTENTION, REPORTED LUNS DATA HAS CHANGED (3Fh/0Eh)";
constexpr char kOne[] = "iqn.2026-01.example:one,i,0x1";
constexpr char kTwo[] = "iqn.2026-01.example:two,i,0x1";

AccessRule RuleOf(const std::string& port, std::vector<AccessRule::Lun> luns) {
  AccessRule rule;
  rule.initiator = port.substr(0, port.find(','));
  rule.luns = std::move(luns);
  return rule;
}

// A target with LUNs 5, 6 and 300, and initiators called one and two.
class LunMapTest : public ::testing::Test {
 protected:
  LunMapTest()
      : list_(std::make_shared<AccessList>(std::vector<AccessRule>())),
        target_(Target::Create("iqn.2026-01.example:t", list_)) {
    for (const uint64_t lun : {5, 6, 300}) Add(lun);
  }
  std::shared_ptr<TestBackend> Add(uint64_t lun) {
    auto backend = std::make_shared<TestBackend>(ThinInfo(64 + lun));
    LogicalUnitOptions options;
    options.lun = lun;
    EXPECT_TRUE(target_->AddLogicalUnit(backend, options).ok());
    backends_[lun] = backend;
    return backend;
  }
  // With the unit attentions taken.
  std::unique_ptr<TestNexus> LogIn(const std::string& port) {
    auto nexus = std::make_unique<TestNexus>(target_.get(), &reactor_, port);
    for (const uint64_t lun : Luns(nexus.get())) {
      nexus->ClearUnitAttentions(EncodeLun(lun));
    }
    return nexus;
  }
  void Change(std::vector<AccessRule> rules) {
    list_->Replace(std::move(rules));
    target_->ReviewAccess();
    reactor_.Turn();
  }
  std::string Run(TestNexus* nexus, uint64_t lun, const Bytes& cdb,
                  const Bytes& data_out = {}) {
    TestCommand command(cdb, data_out, kBlock, lun);
    nexus->Run(&command);
    return Outcome(command);
  }
  std::string Tur(TestNexus* nexus, uint64_t lun) {
    return Run(nexus, EncodeLun(lun), Bytes(6));
  }
  std::string Write(TestNexus* nexus, uint64_t lun) {
    return Run(nexus, EncodeLun(lun), Cdb10(0x2a, 0, 1), Pattern(kBlock, 1));
  }
  // By REPORT LUNS, with a SELECT REPORT.
  std::vector<uint64_t> Luns(TestNexus* nexus, uint8_t select = 0) {
    Bytes cdb(12);
    cdb[0] = 0xa0;
    cdb[2] = select;
    StoreBe32(&cdb[6], 256);
    TestCommand command(cdb, {}, 256, kReportLunsWellKnownLun);
    nexus->Run(&command);
    if (Outcome(command) != "GOOD") nexus->Run(&command);
    EXPECT_EQ(Outcome(command), "GOOD");
    const Bytes data = command.received();
    std::vector<uint64_t> luns;
    for (size_t at = 8; at < data.size(); at += 8) {
      const uint64_t lun = LoadBe64(&data[at]);
      if (lun != kReportLunsWellKnownLun) luns.push_back(*DecodeLun(lun));
    }
    return luns;
  }
  // By READ CAPACITY: the test's media differ in it.
  uint64_t Behind(TestNexus* nexus, uint64_t lun) {
    TestCommand command({0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {}, 8,
                        EncodeLun(lun));
    nexus->Run(&command);
    EXPECT_EQ(Outcome(command), "GOOD");
    return LoadBe32(command.received().data()) + 1 - 64;
  }

  const std::shared_ptr<AccessList> list_;
  const std::unique_ptr<Target> target_;
  std::map<uint64_t, std::shared_ptr<TestBackend>> backends_;
  TestReactor reactor_;
};

using Lun = AccessRule::Lun;

TEST_F(LunMapTest, EachInitiatorSeesItsOwn) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}, Lun{6, 1}}),
                  RuleOf(kTwo, {Lun{300, 0}, Lun{5, 400}})});
  const auto one = LogIn(kOne);
  const auto two = LogIn(kTwo);
  for (const uint8_t select : {0x00, 0x02}) {
    EXPECT_EQ(Luns(one.get(), select), (std::vector<uint64_t>{0, 1}));
    EXPECT_EQ(Luns(two.get(), select), (std::vector<uint64_t>{0, 400}));
  }
  EXPECT_EQ(Luns(one.get(), 0x01), std::vector<uint64_t>());
  EXPECT_EQ(Behind(one.get(), 0), 5u);
  EXPECT_EQ(Behind(one.get(), 1), 6u);
  EXPECT_EQ(Behind(two.get(), 0), 300u);
  EXPECT_EQ(Behind(two.get(), 400), 5u);
}

TEST_F(LunMapTest, WhatIsNotSeenIsNotThere) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}})});
  const auto one = LogIn(kOne);
  for (const uint64_t lun : {5, 6, 300}) {
    // In peripheral and flat addressing (SAM-5 section 4.7).
    for (const uint64_t encoded :
         {lun << 48, (lun | 0x4000) << 48, EncodeLun(lun)}) {
      EXPECT_EQ(Run(one.get(), encoded, Bytes(6)), kAbsent);
      TestCommand inquiry({0x12, 0, 0, 0, 36, 0}, {}, 36, encoded);
      one->Run(&inquiry);
      EXPECT_EQ(Outcome(inquiry), "GOOD");
      EXPECT_EQ(inquiry.received()[0], 0x7f) << "SPC-4 6.6.2: no device here";
    }
    for (const TaskManagement function :
         {TaskManagement::kAbortTaskSet, TaskManagement::kClearTaskSet,
          TaskManagement::kLogicalUnitReset, TaskManagement::kAbortTask}) {
      EXPECT_EQ(one->Manage(function, EncodeLun(lun)),
                TaskManagementResult::kIncorrectLun);
    }
  }
}

TEST_F(LunMapTest, ResetsReachWhatIsSeenAlone) {
  list_->Replace(
      {RuleOf(kOne, {Lun{5, 0}}), RuleOf(kTwo, {Lun{5, 1}, Lun{6, 0}})});
  const auto one = LogIn(kOne);
  const auto two = LogIn(kTwo);
  for (const TaskManagement function :
       {TaskManagement::kLogicalUnitReset, TaskManagement::kTargetReset}) {
    for (const uint64_t lun : {5, 6}) {
      backends_[lun]->completion = TestBackend::Completion::kHeld;
    }
    TestCommand seen(Cdb10(0x28, 0, 1), {}, kBlock, EncodeLun(1));
    TestCommand unseen(Cdb10(0x28, 0, 1), {}, kBlock, EncodeLun(0));
    two->Submit(&seen);
    two->Submit(&unseen);
    TaskManagementResult result = TaskManagementResult::kNotSupported;
    one->nexus()->Manage(function, 0, nullptr,
                         [&result](TaskManagementResult r) { result = r; });
    one->Settle();
    for (const uint64_t lun : {5, 6}) {
      backends_[lun]->completion = TestBackend::Completion::kPosted;
      backends_[lun]->CompleteHeld();
    }
    one->Settle();
    two->Settle();
    EXPECT_EQ(result, TaskManagementResult::kFunctionComplete);
    EXPECT_EQ(Outcome(seen), "aborted");
    EXPECT_EQ(Outcome(unseen), "GOOD");
    EXPECT_NE(Tur(two.get(), 1), "GOOD") << "a unit attention";
    EXPECT_EQ(Tur(two.get(), 0), "GOOD");
    EXPECT_NE(Tur(one.get(), 0), "GOOD");
  }
}

TEST_F(LunMapTest, WhatHappensToOthersIsNotTold) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}, Lun{7, 1}})});
  const auto one = LogIn(kOne);
  Add(8);
  ASSERT_TRUE(target_->RemoveLogicalUnit(6).ok());
  target_->NotifyBackendChanged(300);
  one->Settle();
  EXPECT_EQ(Tur(one.get(), 0), "GOOD");
  EXPECT_TRUE(one->port.events.empty());
  Add(7);
  one->Settle();
  EXPECT_EQ(Tur(one.get(), 0), kLunsChanged);
  EXPECT_EQ(Behind(LogIn(kOne).get(), 1), 7u);
}

TEST_F(LunMapTest, AnAsynchronousEventNamesTheLunThatIsSeen) {
  list_->Replace({RuleOf(kOne, {Lun{5, 9}})});
  const auto one = LogIn(kOne);
  backends_[5]->Resize(uint64_t{200} * kBlock);
  target_->NotifyBackendChanged(5);
  one->Settle();
  ASSERT_FALSE(one->port.events.empty());
  EXPECT_EQ(one->port.events[0].lun, EncodeLun(9));
}

TEST_F(LunMapTest, AChangeIsAnnouncedToWhomItConcerns) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}}), RuleOf(kTwo, {Lun{6, 0}})});
  const auto one = LogIn(kOne);
  const auto two = LogIn(kTwo);
  Change({RuleOf(kOne, {Lun{5, 0}, Lun{300, 2}}), RuleOf(kTwo, {Lun{6, 0}})});
  EXPECT_EQ(Tur(one.get(), 0), kLunsChanged);
  EXPECT_EQ(Tur(two.get(), 0), "GOOD");
  EXPECT_EQ(Luns(one.get()), (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(one->port.events.size(), 1u);
  EXPECT_TRUE(two->port.events.empty());
}

TEST_F(LunMapTest, CommandsToWhatGoesAreAborted) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}, Lun{6, 1}})});
  const auto one = LogIn(kOne);
  backends_[5]->completion = TestBackend::Completion::kHeld;
  backends_[6]->completion = TestBackend::Completion::kHeld;
  TestCommand goes(Cdb10(0x28, 0, 1), {}, kBlock, EncodeLun(0));
  TestCommand stays(Cdb10(0x28, 0, 1), {}, kBlock, EncodeLun(1));
  one->Submit(&goes);
  one->Submit(&stays);
  Change({RuleOf(kOne, {Lun{6, 1}})});
  backends_[5]->CompleteHeld();
  backends_[6]->CompleteHeld();
  one->Settle();
  EXPECT_EQ(Outcome(goes), "TASK ABORTED");
  EXPECT_EQ(Outcome(stays), "GOOD");
  EXPECT_EQ(Tur(one.get(), 0), kAbsent);
  EXPECT_EQ(Luns(one.get()), std::vector<uint64_t>{1});
}

TEST_F(LunMapTest, LunsCanChangePlaces) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}, Lun{6, 1}})});
  const auto one = LogIn(kOne);
  Change({RuleOf(kOne, {Lun{5, 1}, Lun{6, 0}})});
  one->ClearUnitAttentions(EncodeLun(0));
  one->ClearUnitAttentions(EncodeLun(1));
  EXPECT_EQ(Behind(one.get(), 0), 6u);
  EXPECT_EQ(Behind(one.get(), 1), 5u);
}

TEST_F(LunMapTest, ReadOnlyHoldsForTheNextCommands) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}})});
  const auto one = LogIn(kOne);
  EXPECT_EQ(Write(one.get(), 0), "GOOD");
  Change({RuleOf(kOne, {Lun{5, 0, /*read_only=*/true}})});
  EXPECT_EQ(Write(one.get(), 0), "DATA PROTECT, WRITE PROTECTED (27h/00h)");
  EXPECT_EQ(Run(one.get(), 0, Cdb10(0x28, 0, 1)), "GOOD");
  EXPECT_EQ(one->Manage(TaskManagement::kLogicalUnitReset),
            TaskManagementResult::kNotAuthorized);
  Change({RuleOf(kOne, {Lun{5, 0}})});
  EXPECT_EQ(Write(one.get(), 0), "GOOD");
}

TEST_F(LunMapTest, WhoIsNotAdmittedAnyMoreHasToGo) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}}), RuleOf(kTwo, {Lun{5, 0}})});
  const auto one = LogIn(kOne);
  const auto two = LogIn(kTwo);
  Change({RuleOf(kTwo, {Lun{5, 0}})});
  EXPECT_EQ(one->port.ends,
            std::vector<std::string>{
                "iqn.2026-01.example:one,i,0x1 at iqn.2026-01.example:t,t,0x1 "
                "may not be here any more: no access rule lets in "
                "iqn.2026-01.example:one"});
  EXPECT_EQ(Tur(one.get(), 0), kAbsent);
  EXPECT_TRUE(two->port.ends.empty());
  EXPECT_EQ(Tur(two.get(), 0), "GOOD");
}

// A LUN that is seen twice, and a logical unit under two.
TEST_F(LunMapTest, OfMappingsThatContradictTheFirstCounts) {
  list_->Replace({RuleOf(kOne, {Lun{5, 0}, Lun{6, 0}, Lun{5, 1}})});
  const auto one = LogIn(kOne);
  EXPECT_EQ(Luns(one.get()), std::vector<uint64_t>{0});
  EXPECT_EQ(Behind(one.get(), 0), 5u);
}

}  // namespace
}  // namespace skiff::scsi
