#include "scsi/target/access_policy.h"

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
using testing::IdentityOf;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestPolicy;
using testing::TestReactor;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;
constexpr char kDenied[] =
    "ILLEGAL REQUEST, ACCESS DENIED - NO ACCESS RIGHTS (20h/02h)";
constexpr char kReadOnly[] = "DATA PROTECT, WRITE PROTECTED (27h/00h)";

class AccessPolicyTest : public ::testing::Test {
 protected:
  AccessPolicyTest()
      : policy_(std::make_shared<TestPolicy>()),
        backend_(std::make_shared<TestBackend>(ThinInfo(64))),
        target_(Target::Create("iqn.2026-01.example:t", policy_)),
        reactor_(Options()) {
    EXPECT_TRUE(target_->AddLogicalUnit(backend_, {}).ok());
  }
  WorkerOptions Options() {
    WorkerOptions options = TestReactor::SmallPool();
    options.log = [this](transport::LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    return options;
  }
  // With the unit attention taken, which asks nobody.
  std::unique_ptr<TestNexus> LogIn() {
    auto nexus = std::make_unique<TestNexus>(target_.get(), &reactor_);
    TestCommand first(Bytes(6), {}, 0);
    nexus->Run(&first);
    return nexus;
  }
  std::string Run(TestNexus* nexus, const Bytes& cdb,
                  const Bytes& data_out = {}) {
    TestCommand command(cdb, data_out, kBlock);
    nexus->Run(&command);
    return Outcome(command);
  }
  std::string Read(TestNexus* nexus) { return Run(nexus, Cdb10(0x28, 0, 1)); }
  std::string Write(TestNexus* nexus) {
    return Run(nexus, Cdb10(0x2a, 0, 1), Pattern(kBlock, 1));
  }

  std::vector<std::string> log_;
  const std::shared_ptr<TestPolicy> policy_;
  const std::shared_ptr<TestBackend> backend_;
  const std::unique_ptr<Target> target_;
  TestReactor reactor_;
};

TEST_F(AccessPolicyTest, WhoIsNotAdmittedGetsNoNexus) {
  policy_->admission = absl::PermissionDeniedError("it is not on the list");
  testing::FakeTargetPort port;
  const NexusIdentity who = IdentityOf("iqn.2026-01.example:i,i,0x1");
  EXPECT_EQ(target_->OpenNexus(reactor_.worker(), &port, who).status(),
            policy_->admission);
  ASSERT_EQ(policy_->admitted.size(), 1u);
  EXPECT_EQ(policy_->admitted[0], who);
}

TEST_F(AccessPolicyTest, WhatWasGrantedIsNotAskedAbout) {
  policy_->granted = AccessClasses::All();
  policy_->verdict = AccessVerdict::kDenied;
  const auto nexus = LogIn();
  EXPECT_EQ(Write(nexus.get()), "GOOD");
  EXPECT_EQ(Read(nexus.get()), "GOOD");
  EXPECT_TRUE(policy_->decided.empty());
}

TEST_F(AccessPolicyTest, EachOtherCommandIsAskedAboutByItsClass) {
  policy_->granted = {AccessClass::kIdentify};
  const auto nexus = LogIn();
  EXPECT_EQ(Run(nexus.get(), {0x12, 0, 0, 0, 36, 0}), "GOOD") << "INQUIRY";
  EXPECT_EQ(Write(nexus.get()), "GOOD");
  EXPECT_EQ(Read(nexus.get()), "GOOD");
  EXPECT_EQ(Run(nexus.get(), Cdb10(0x35, 0, 0)), "GOOD") << "SYNCHRONIZE CACHE";
  EXPECT_EQ(Run(nexus.get(), {0x1b, 0, 0, 0, 0, 0}), "GOOD") << "START STOP";
  EXPECT_EQ(Run(nexus.get(), {0x1d, 4, 0, 0, 0, 0}), "GOOD") << "self-test";
  EXPECT_EQ(policy_->decided,
            (std::vector<AccessClass>{AccessClass::kWrite, AccessClass::kRead,
                                      AccessClass::kRead, AccessClass::kControl,
                                      AccessClass::kRead}));
}

TEST_F(AccessPolicyTest, ACommandThatIsDeniedDoesNothing) {
  policy_->granted = {AccessClass::kIdentify};
  policy_->verdict = AccessVerdict::kDenied;
  const auto nexus = LogIn();
  EXPECT_EQ(Write(nexus.get()), kDenied);
  EXPECT_EQ(Read(nexus.get()), kDenied);
  EXPECT_EQ(Run(nexus.get(), Bytes(6)), "GOOD") << "TEST UNIT READY";
  EXPECT_TRUE(backend_->log.empty());
  ASSERT_EQ(log_.size(), 2u);
  EXPECT_EQ(log_[0],
            "iqn.2026-01.example:t LUN 0: iqn.2026-01.example:i,i,0x1 has no "
            "right to command 2ah");
}

TEST_F(AccessPolicyTest, WritesCanBeProtectedForANexus) {
  policy_->granted = {AccessClass::kIdentify, AccessClass::kRead};
  policy_->verdict = AccessVerdict::kReadOnly;
  const auto nexus = LogIn();
  EXPECT_EQ(Write(nexus.get()), kReadOnly);
  EXPECT_EQ(Read(nexus.get()), "GOOD");
}

TEST_F(AccessPolicyTest, ModeSenseTellsOfProtectionForItsNexus) {
  constexpr uint8_t kWp = 0x80;
  const struct {
    AccessClasses granted;
    AccessVerdict verdict;
    uint8_t wp;
  } cases[] = {
      {AccessClasses::All(), AccessVerdict::kReadOnly, 0},
      {{AccessClass::kRead}, AccessVerdict::kReadOnly, kWp},
      {{AccessClass::kRead}, AccessVerdict::kAllowed, 0},
  };
  for (const auto& [granted, verdict, wp] : cases) {
    policy_->granted = granted;
    policy_->verdict = verdict;
    const auto nexus = LogIn();
    TestCommand six({0x1a, 0, 0x3f, 0, 0xff, 0}, {}, 255);
    nexus->Run(&six);
    ASSERT_EQ(Outcome(six), "GOOD");
    EXPECT_EQ(six.received()[2] & kWp, wp);
    TestCommand ten({0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 0xff, 0}, {}, 255);
    nexus->Run(&ten);
    ASSERT_EQ(Outcome(ten), "GOOD");
    EXPECT_EQ(ten.received()[3] & kWp, wp);
  }
}

TEST_F(AccessPolicyTest, ResetsAreAskedAbout) {
  policy_->granted = AccessClasses::All();
  const auto other = LogIn();
  policy_->granted = {AccessClass::kIdentify};
  const auto nexus = LogIn();
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand victim(Cdb10(0x28, 0, 1), {}, kBlock);
  other->Submit(&victim);
  for (const AccessVerdict verdict :
       {AccessVerdict::kDenied, AccessVerdict::kReadOnly}) {
    policy_->verdict = verdict;
    for (const TaskManagement function :
         {TaskManagement::kLogicalUnitReset, TaskManagement::kTargetReset}) {
      EXPECT_EQ(nexus->Manage(function), TaskManagementResult::kNotAuthorized);
    }
    // It is about the nexus's own tasks.
    EXPECT_EQ(nexus->Manage(TaskManagement::kAbortTaskSet),
              TaskManagementResult::kFunctionComplete);
  }
  backend_->CompleteHeld();
  other->Settle();
  EXPECT_EQ(Outcome(victim), "GOOD");
  EXPECT_EQ(policy_->decided,
            std::vector<AccessClass>(4, AccessClass::kControl));
  ASSERT_FALSE(log_.empty());
  EXPECT_EQ(log_[0],
            "iqn.2026-01.example:t LUN 0: iqn.2026-01.example:i,i,0x1 has no "
            "right to reset it");
}

TEST_F(AccessPolicyTest, ResetsThatAreAllowedGoOn) {
  policy_->granted = {AccessClass::kIdentify};
  const auto nexus = LogIn();
  for (const TaskManagement function :
       {TaskManagement::kLogicalUnitReset, TaskManagement::kTargetReset}) {
    EXPECT_EQ(nexus->Manage(function), TaskManagementResult::kFunctionComplete);
  }
}

TEST_F(AccessPolicyTest, CompareAndWriteReadsAndWrites) {
  Bytes cdb = Cdb16(0x89, 0, 0);
  cdb[13] = 1;
  const Bytes data(size_t{2} * kBlock);
  policy_->verdict = AccessVerdict::kDenied;
  for (const AccessClasses granted :
       {AccessClasses{AccessClass::kIdentify, AccessClass::kWrite},
        AccessClasses{AccessClass::kIdentify, AccessClass::kRead}}) {
    policy_->granted = granted;
    EXPECT_EQ(Run(LogIn().get(), cdb, data), kDenied);
  }
  EXPECT_EQ(policy_->decided, (std::vector<AccessClass>{AccessClass::kRead,
                                                        AccessClass::kWrite}));
  EXPECT_TRUE(backend_->log.empty());
  policy_->granted = {AccessClass::kRead, AccessClass::kWrite};
  EXPECT_EQ(Run(LogIn().get(), cdb, data), "GOOD");
}

// What has no medium is nobody's.
TEST_F(AccessPolicyTest, AbsentLogicalUnitsAreNotAskedAbout) {
  policy_->verdict = AccessVerdict::kDenied;
  const auto nexus = LogIn();
  TestCommand missing(Cdb10(0x28, 0, 1), {}, kBlock, uint64_t{7} << 48);
  nexus->Run(&missing);
  EXPECT_EQ(Outcome(missing),
            "ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED (25h/00h)");
  EXPECT_TRUE(policy_->decided.empty());
}

}  // namespace
}  // namespace skiff::scsi
