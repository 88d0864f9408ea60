// Logical units that come, change and go; nexuses that close; I/O that fails;
// buffers that run out.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestReactor;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint64_t kWellKnown = 0xc101000000000000;
const char kLunsChanged[] =
    "UNIT ATTENTION, REPORTED LUNS DATA HAS CHANGED (3Fh/0Eh)";
const char kPowerOn[] =
    "UNIT ATTENTION, POWER ON, RESET, OR BUS DEVICE RESET OCCURRED (29h/00h)";

class LifecycleTest : public ::testing::Test {
 protected:
  LifecycleTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(8192))),
        target_(backend_) {}

  std::string Tur(uint64_t lun = 0) {
    TestCommand command(Bytes(6), {}, 0, lun);
    target_.nexus().Run(&command);
    return Outcome(command);
  }
  absl::Status Add(uint64_t lun) {
    LogicalUnitOptions options;
    options.lun = lun;
    return target_.target()->AddLogicalUnit(
        std::make_shared<TestBackend>(ThinInfo(64)), options);
  }

  std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
};

// --- Logical units.

TEST_F(LifecycleTest, AnAddedLogicalUnitIsAnnounced) {
  EXPECT_NE(Tur(uint64_t{3} << 48), "GOOD");
  ASSERT_TRUE(Add(3).ok());
  target_.nexus().Settle();
  ASSERT_EQ(target_.port().events.size(), 1u);
  EXPECT_EQ(target_.port().events[0].lun, kWellKnown);
  EXPECT_EQ(target_.port().events[0].sense.code,
            AdditionalSense::kReportedLunsDataHasChanged);
  EXPECT_EQ(Tur(), kLunsChanged);
  EXPECT_EQ(Tur(), "GOOD");
  EXPECT_EQ(Tur(uint64_t{3} << 48), kPowerOn);
  EXPECT_EQ(Tur(uint64_t{3} << 48), "GOOD");
  EXPECT_EQ(target_.target()->Luns(), (std::vector<uint64_t>{0, 3}));
}

TEST_F(LifecycleTest, ReportLunsClearsTheAnnouncement) {
  ASSERT_TRUE(Add(3).ok());
  target_.nexus().Settle();
  Bytes cdb(12);
  cdb[0] = 0xa0;
  StoreBe32(&cdb[6], 64);
  EXPECT_EQ(target_.Run(cdb, {}, 64)->task.data_in_wanted, 24u);
  EXPECT_EQ(Tur(), "GOOD");
}

TEST_F(LifecycleTest, ARemovedLogicalUnitAnswersWhatItStillHas) {
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand running(Cdb10(0x28, 0, 1), {}, 512);
  TestCommand dormant(Cdb10(0x28, 0, 1), {}, 512);
  dormant.task.attribute = Attribute::kOrdered;
  target_.nexus().Submit(&running);
  target_.nexus().Submit(&dormant);
  ASSERT_TRUE(target_.target()->RemoveLogicalUnit(0).ok());
  target_.nexus().Settle();
  EXPECT_EQ(Outcome(dormant), "TASK ABORTED");
  EXPECT_EQ(Outcome(running), "pending") << "the medium still has it";
  EXPECT_EQ(Tur(), "ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED (25h/00h)");
  const std::weak_ptr<TestBackend> alive = backend_;
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(running), "TASK ABORTED");
  target_.nexus().Settle();
  backend_.reset();
  EXPECT_TRUE(alive.expired()) << "nobody refers to the medium any more";
}

TEST_F(LifecycleTest, ALunCanBeUsedAgain) {
  ASSERT_TRUE(Add(3).ok());
  ASSERT_TRUE(target_.target()->RemoveLogicalUnit(3).ok());
  ASSERT_TRUE(Add(3).ok());
  target_.nexus().Settle();
  EXPECT_EQ(Tur(uint64_t{3} << 48), kPowerOn);
  EXPECT_EQ(Tur(uint64_t{3} << 48), "GOOD");
  EXPECT_EQ(Tur(), kLunsChanged);
  EXPECT_EQ(Tur(), "GOOD") << "told once";
}

TEST_F(LifecycleTest, ARemovedLogicalUnitWaitsForThePort) {
  target_.port().auto_release = false;
  TestCommand read(Cdb10(0x28, 0, 1), {}, 512);
  target_.nexus().Run(&read);
  ASSERT_TRUE(target_.target()->RemoveLogicalUnit(0).ok());
  target_.nexus().Settle();
  const std::weak_ptr<TestBackend> alive = backend_;
  backend_.reset();
  EXPECT_FALSE(alive.expired()) << "the port may still send its data";
  target_.port().ReleaseCompleted();
  target_.nexus().Settle();
  EXPECT_TRUE(alive.expired());
}

TEST_F(LifecycleTest, ARemovalIsToldWhenNothingIsInFlight) {
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand read(Cdb10(0x28, 0, 1), {}, 512);
  target_.nexus().Submit(&read);
  int told = 0;
  std::shared_ptr<Backend> handed;
  const auto removed = [&](std::shared_ptr<Backend> backend) {
    ++told;
    handed = std::move(backend);
    EXPECT_EQ(backend_->unused_with_channels, std::vector<int>{0});
    EXPECT_TRUE(Add(0).ok()) << "it may call the target";
  };
  ASSERT_TRUE(target_.target()->RemoveLogicalUnit(0, removed).ok());
  EXPECT_EQ(target_.target()->RemoveLogicalUnit(0, removed).code(),
            absl::StatusCode::kNotFound);
  target_.nexus().Settle();
  EXPECT_EQ(told, 0) << "the medium still has the command";
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(handed, backend_);
  EXPECT_EQ(backend_->channels, 0);
  handed.reset();
  EXPECT_EQ(backend_.use_count(), 1) << "the target has no reference";
}

TEST_F(LifecycleTest, ARemovalWithoutSessionsIsToldAtOnce) {
  target_.nexus().Close();
  int told = 0;
  ASSERT_TRUE(target_.target()
                  ->RemoveLogicalUnit(
                      0, [&](const std::shared_ptr<Backend>&) { ++told; })
                  .ok());
  EXPECT_EQ(told, 1);
}

TEST_F(LifecycleTest, ARemovalIsToldWhereTheLastSessionIs) {
  TestReactor other;
  TestNexus second(target_.target(), &other, "iqn.2026-01.example:j,i,0x2");
  int told = 0;
  ASSERT_TRUE(target_.target()
                  ->RemoveLogicalUnit(
                      0, [&](const std::shared_ptr<Backend>&) { ++told; })
                  .ok());
  target_.nexus().Settle();
  EXPECT_EQ(told, 0) << "the other reactor has not heard of it";
  second.Settle();
  EXPECT_EQ(told, 1);
}

TEST_F(LifecycleTest, BadOptionsAreRefusedInWords) {
  const auto add = [&](const LogicalUnitOptions& options,
                       const BackendInfo& info) {
    return target_.target()->AddLogicalUnit(std::make_shared<TestBackend>(info),
                                            options);
  };
  struct {
    LogicalUnitOptions options;
    const char* message;
  } cases[] = {
      {{.lun = 0}, "LUN 0 of iqn.2026-01.example:t is in use"},
      {{.lun = 16384}, "LUN 16384 is beyond 16383"},
      {{.lun = 1, .vendor = "NINE CHAR"}, "more than 8 characters"},
      {{.lun = 1, .product = "tab\there"}, "outside of ASCII"},
      {{.lun = 1, .max_transfer_bytes = 100}, "must hold a block"},
      {{.lun = 1, .max_tasks = 0}, "must be positive"},
  };
  for (const auto& c : cases) {
    const absl::Status status = add(c.options, ThinInfo(64));
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos)
        << status;
  }
  BackendInfo info = ThinInfo(64);
  info.block_size = 520;
  EXPECT_FALSE(add({.lun = 1}, info).ok());
  info = ThinInfo(64);
  info.size_bytes += 1;
  EXPECT_FALSE(add({.lun = 1}, info).ok());
  EXPECT_FALSE(target_.target()->AddLogicalUnit(nullptr, {.lun = 1}).ok());
  EXPECT_EQ(target_.target()->RemoveLogicalUnit(9).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(LifecycleTest, WhatElseChangesOfABackendIsToldAndHolds) {
  BackendInfo info = backend_->info();
  info.description = "another";
  info.identity = "new";
  backend_->SetInfo(info);
  target_.target()->NotifyBackendChanged(0);
  target_.nexus().Settle();
  EXPECT_EQ(Tur(), "UNIT ATTENTION, CAPACITY DATA HAS CHANGED (2Ah/09h)");
  EXPECT_EQ(Tur(), "GOOD");
  const LogicalUnitStatus status = target_.target()->LogicalUnitStatuses()[0];
  EXPECT_EQ(status.medium, "another");
  EXPECT_NE(status.serial, "new") << "a disk does not become another one";

  info.read_only = true;
  backend_->SetInfo(info);
  target_.target()->NotifyBackendChanged(0);
  target_.nexus().Settle();
  EXPECT_EQ(Tur(), "UNIT ATTENTION, MODE PARAMETERS CHANGED (2Ah/01h)");
  EXPECT_EQ(Tur(), "GOOD") << "told once";
  EXPECT_EQ(target_.Run(Cdb10(0x2a, 0, 1), Bytes(512))->code(),
            AdditionalSense::kWriteProtected);

  info.read_only = false;
  info.volatile_write_cache = !info.volatile_write_cache;
  info.rotational = true;
  backend_->SetInfo(info);
  target_.target()->NotifyBackendChanged(0);
  target_.nexus().Settle();
  EXPECT_EQ(Tur(), "UNIT ATTENTION, MODE PARAMETERS CHANGED (2Ah/01h)");
  EXPECT_EQ(Tur(), "UNIT ATTENTION, INQUIRY DATA HAS CHANGED (3Fh/03h)");
  EXPECT_EQ(Tur(), "GOOD");
  EXPECT_EQ(target_.Run(Cdb10(0x2a, 0, 1), Bytes(512))->status(),
            ScsiStatus::kGood);
  // WCE of the Caching page: behind a header of 4 bytes.
  const Bytes page =
      target_.Run({0x1a, 0x08, 0x08, 0, 64, 0}, {}, 64)->received();
  ASSERT_GT(page.size(), 6u);
  EXPECT_EQ((page[4 + 2] & 0x04) != 0, info.volatile_write_cache);
}

TEST_F(LifecycleTest, ACapacityChangeIsToldAndHolds) {
  EXPECT_EQ(target_.Run(Cdb10(0x28, 8192, 1), {}, 512)->code(),
            AdditionalSense::kLbaOutOfRange);
  backend_->Resize(8193 * 512);
  target_.target()->NotifyBackendChanged(0);
  target_.target()->NotifyBackendChanged(99);
  target_.nexus().Settle();
  ASSERT_EQ(target_.port().events.size(), 1u);
  EXPECT_EQ(target_.port().events[0].lun, 0u);
  EXPECT_EQ(Tur(), "UNIT ATTENTION, CAPACITY DATA HAS CHANGED (2Ah/09h)");
  EXPECT_EQ(Outcome(*target_.Run(Cdb10(0x28, 8192, 1), {}, 512)), "GOOD");
}

TEST_F(LifecycleTest, IdentifiersAreStableAndDistinct) {
  TestTarget again(std::make_shared<TestBackend>(ThinInfo(64)));
  TestTarget elsewhere(std::make_shared<TestBackend>(ThinInfo(64)),
                       {.lun = 0, .serial = "named"});
  const Bytes inquiry = {0x12, 1, 0x83, 0, 255, 0};
  const auto naa = [&](TestTarget& target) {
    return LoadBe64(&target.Run(inquiry, {}, 255)->data_in[8]);
  };
  EXPECT_EQ(naa(target_), naa(again)) << "by target name and LUN";
  EXPECT_NE(naa(target_), naa(elsewhere)) << "by serial";
}

// --- Closing.

TEST_F(LifecycleTest, CloseAbortsEverythingWithoutResponse) {
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand running(Cdb10(0x28, 0, 1), {}, 512);
  TestCommand receiving(Cdb10(0x2a, 0, 1), Bytes(512), 0);
  TestCommand dormant(Bytes(6), {}, 0);
  dormant.task.attribute = Attribute::kOrdered;
  TestNexus nexus(target_.target(), &target_.reactor());
  nexus.ClearUnitAttentions();
  nexus.port.immediate_data_out = false;
  nexus.Submit(&running);
  nexus.Submit(&receiving);
  nexus.Submit(&dormant);
  bool closed = false;
  nexus.nexus()->Close([&] { closed = true; });
  EXPECT_EQ(Outcome(dormant), "aborted");
  nexus.Settle();
  EXPECT_EQ(Outcome(receiving), "aborted");
  EXPECT_FALSE(closed) << "the medium still has one";
  TestCommand late(Bytes(6), {}, 0);
  nexus.Submit(&late);
  EXPECT_EQ(Outcome(late), "BUSY");
  backend_->CompleteHeld();
  nexus.Settle();
  EXPECT_EQ(Outcome(running), "aborted");
  EXPECT_TRUE(closed);
  nexus.Abandon();
}

TEST_F(LifecycleTest, CloseWaitsForTaskManagementOfItsOwn) {
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand theirs(Cdb10(0x28, 0, 1), {}, 512);
  TestNexus nexus(target_.target(), &target_.reactor());
  nexus.ClearUnitAttentions();
  target_.nexus().Submit(&theirs);
  std::vector<std::string> events;
  nexus.nexus()->Manage(
      TaskManagement::kLogicalUnitReset, 0, nullptr,
      [&](TaskManagementResult) { events.push_back("reset"); });
  nexus.nexus()->Close([&] { events.push_back("closed"); });
  nexus.Settle();
  EXPECT_TRUE(events.empty());
  backend_->CompleteHeld();
  nexus.Settle();
  EXPECT_EQ(events, (std::vector<std::string>{"reset", "closed"}));
  nexus.Abandon();
}

// --- I/O that fails.

TEST_F(LifecycleTest, IoErrorsBecomeSenseData) {
  using Op = IoRequest::Op;
  struct {
    Op op;
    IoStatus status;
    Bytes cdb;
    size_t data_out;
    const char* outcome;
  } cases[] = {
      {Op::kRead, IoStatus::kReadError, Cdb10(0x28, 4, 4), 0,
       "MEDIUM ERROR, UNRECOVERED READ ERROR (11h/00h), information 6"},
      {Op::kRead, IoStatus::kReadError, Cdb10(0x2f, 4, 4), 0,
       "MEDIUM ERROR, UNRECOVERED READ ERROR (11h/00h), information 6"},
      {Op::kWrite, IoStatus::kWriteError, Cdb10(0x2a, 4, 4), 2048,
       "MEDIUM ERROR, WRITE ERROR (0Ch/00h), information 6"},
      {Op::kWrite, IoStatus::kNoSpace, Cdb10(0x2a, 4, 4), 2048,
       "DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT (27h/07h)"},
      {Op::kWrite, IoStatus::kGone, Cdb10(0x2e, 4, 4), 2048,
       "NOT READY, LOGICAL UNIT NOT READY, CAUSE NOT REPORTABLE (04h/00h)"},
      {Op::kUnmap, IoStatus::kNotSupported, Cdb10(0x42, 0, 24), 24,
       "HARDWARE ERROR, INTERNAL TARGET FAILURE (44h/00h)"},
      {Op::kWriteZeroes, IoStatus::kWriteError, Cdb10(0x41, 4, 4), 512,
       "MEDIUM ERROR, WRITE ERROR (0Ch/00h), information 6"},
      {Op::kCompareAndWrite, IoStatus::kWriteError, Cdb16(0x89, 4, 1), 1024,
       "MEDIUM ERROR, WRITE ERROR (0Ch/00h), information 6"},
  };
  for (const auto completion :
       {TestBackend::Completion::kInline, TestBackend::Completion::kPosted}) {
    backend_->completion = completion;
    for (const auto& c : cases) {
      backend_->failure = TestBackend::Failure{c.op, c.status, 6 * 512 + 10};
      Bytes data(c.data_out);
      if (c.op == Op::kUnmap) {
        data[3] = 16;
        data[19] = 1;
      }
      EXPECT_EQ(Outcome(*target_.Run(c.cdb, data, 2048)), c.outcome);
      EXPECT_FALSE(backend_->failure.has_value());
    }
  }
  // Nothing keeps the write guard.
  EXPECT_EQ(Outcome(*target_.Run(Cdb16(0x89, 0, 1), Bytes(1024))), "GOOD");
}

TEST_F(LifecycleTest, ALaterStepMayFail) {
  const uint32_t blocks = 1500;  // Three buffers.
  target_.port().immediate_data_out = false;
  TestCommand write(Cdb16(0x8a, 0, blocks), Pattern(blocks * 512, 1), 0);
  backend_->completion = TestBackend::Completion::kHeld;
  target_.nexus().Submit(&write);
  target_.port().FinishTransfers();
  backend_->CompleteHeld();
  target_.port().FinishTransfers();
  backend_->failure = TestBackend::Failure{IoRequest::Op::kWrite,
                                           IoStatus::kWriteError, 512 * 600};
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(write),
            "MEDIUM ERROR, WRITE ERROR (0Ch/00h), information 600");
}

TEST_F(LifecycleTest, WriteSameWritesZeroesWhenThereIsNoShorterWay) {
  backend_->supports_write_zeroes = false;
  backend_->bytes().assign(backend_->bytes().size(), 7);
  EXPECT_EQ(Outcome(*target_.Run(Cdb16(0x93, 1, 1200, 0x08), Bytes(512))),
            "GOOD");
  EXPECT_EQ(backend_->bytes()[511], 7);
  EXPECT_EQ(backend_->bytes()[512], 0);
  EXPECT_EQ(backend_->bytes()[1201 * 512 - 1], 0);
  EXPECT_EQ(backend_->bytes()[1201 * 512], 7);
}

TEST_F(LifecycleTest, AMediumThatCannotBeReachedIsNotReady) {
  auto unreachable = std::make_shared<TestBackend>(ThinInfo(64));
  unreachable->refuse_channels = true;
  ASSERT_TRUE(target_.target()->AddLogicalUnit(unreachable, {.lun = 1}).ok());
  target_.nexus().Settle();
  const uint64_t lun = uint64_t{1} << 48;
  Tur(lun);
  const std::string not_ready =
      "NOT READY, LOGICAL UNIT NOT READY, CAUSE NOT REPORTABLE (04h/00h)";
  EXPECT_EQ(Tur(lun), not_ready);
  for (const uint8_t opcode : {0x28, 0x2a, 0x2e, 0x2f, 0x41, 0x42, 0x89}) {
    Bytes cdb = opcode == 0x89 ? Cdb16(opcode, 0, 1)
                               : Cdb10(opcode, 0, opcode == 0x42 ? 8 : 1);
    const size_t length = opcode == 0x89 ? 1024 : opcode == 0x42 ? 8 : 512;
    TestCommand command(cdb, Bytes(length), 512, lun);
    target_.nexus().Run(&command);
    EXPECT_EQ(Outcome(command), not_ready) << int{opcode};
  }
  TestCommand self_test({0x1d, 0x04, 0, 0, 0, 0}, {}, 0, lun);
  target_.nexus().Run(&self_test);
  EXPECT_EQ(Outcome(self_test), not_ready);
  unreachable->refuse_channels = false;
  EXPECT_EQ(Tur(lun), "GOOD") << "tried again";
}

// --- Stable storage.

TEST_F(LifecycleTest, FuaAndFlushReachAVolatileCache) {
  BackendInfo info = ThinInfo(64);
  info.volatile_write_cache = true;
  auto cached = std::make_shared<TestBackend>(info);
  TestTarget target(cached);
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x2a, 0, 1), Bytes(512))), "GOOD");
  EXPECT_EQ(cached->fua_requests, 0);
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x2a, 0, 1, 0x08), Bytes(512))), "GOOD");
  EXPECT_EQ(cached->fua_requests, 1);
  EXPECT_EQ(Outcome(*target.Run(Cdb16(0x89, 0, 1, 0x08), Bytes(1024))), "GOOD");
  EXPECT_EQ(cached->fua_requests, 2);
  Bytes write6(6);
  write6[0] = 0x0a;
  write6[1] = 0x08;  // A bit of the LBA there.
  write6[4] = 1;
  EXPECT_EQ(target.Run(write6, Bytes(512))->code(),
            AdditionalSense::kLbaOutOfRange);
  cached->log.clear();
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x35, 0, 0))), "GOOD");
  EXPECT_EQ(Outcome(*target.Run(Cdb16(0x91, 3, 5))), "GOOD");
  EXPECT_EQ(cached->log, (std::vector<IoRequest::Op>{IoRequest::Op::kFlush,
                                                     IoRequest::Op::kFlush}));
  cached->failure =
      TestBackend::Failure{IoRequest::Op::kFlush, IoStatus::kWriteError, 0};
  EXPECT_EQ(target.Run(Cdb10(0x35, 0, 0))->sense()->key,
            SenseKey::kMediumError);
  EXPECT_EQ(target.Run({0x1a, 8, 0x08, 0, 64, 0}, {}, 64)->data_in[6] & 4, 4)
      << "WCE";
  EXPECT_EQ(target.Run({0x12, 1, 0x86, 0, 64, 0}, {}, 64)->data_in[6], 1)
      << "V_SUP";
}

TEST_F(LifecycleTest, AReadOnlyMediumIsWriteProtected) {
  RamBackendOptions options;
  options.size_bytes = 1 << 20;
  options.read_only = true;
  auto backend = MakeRamBackend(options);
  ASSERT_TRUE(backend.ok());
  TestTarget target(*std::move(backend));
  for (const uint8_t opcode : {0x2a, 0x2e, 0x41, 0x8a, 0x8e, 0x93, 0x89}) {
    const Bytes cdb =
        opcode >= 0x80 ? Cdb16(opcode, 0, 1) : Cdb10(opcode, 0, 1);
    EXPECT_EQ(Outcome(*target.Run(cdb, Bytes(1024))),
              "DATA PROTECT, WRITE PROTECTED (27h/00h)");
  }
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x28, 0, 1), {}, 512)), "GOOD");
  EXPECT_EQ(Outcome(*target.Run({0x1d, 0x04, 0, 0, 0, 0})), "GOOD");
  EXPECT_EQ(target.Run({0x1a, 8, 0x0a, 0, 64, 0}, {}, 64)->data_in[2], 0x90);
}

// --- Buffers.

TEST_F(LifecycleTest, TasksWaitForBuffersInOrder) {
  // 4 MiB of pool, of which a quarter is eight buffers of 128 KiB; a new nexus
  // is trusted with half of them.
  target_.port().auto_release = false;
  std::vector<std::unique_ptr<TestCommand>> reads;
  for (int i = 0; i < 30; ++i) {
    reads.push_back(
        std::make_unique<TestCommand>(Cdb10(0x28, i, 64), Bytes(), 64 * 512));
    target_.nexus().Submit(reads.back().get());
  }
  target_.nexus().Settle();
  const auto completed = [&] {
    int n = 0;
    for (const auto& read : reads) n += read->completed;
    return n;
  };
  EXPECT_EQ(completed(), 4);
  TestCommand tur(Bytes(6), {}, 0);
  target_.nexus().Submit(&tur);
  EXPECT_EQ(Outcome(tur), "GOOD") << "needs none";
  EXPECT_TRUE(reads[3]->completed);
  // One that waits can be aborted.
  EXPECT_EQ(
      target_.nexus().Manage(TaskManagement::kAbortTask, 0, &reads[4]->task),
      TaskManagementResult::kFunctionComplete);
  target_.port().ReleaseCompleted();
  target_.nexus().Settle();
  EXPECT_TRUE(reads[5]->completed && reads[8]->completed);
  for (int before = 0; before < completed();) {
    before = completed();
    target_.port().ReleaseCompleted();
    target_.nexus().Settle();
  }
  EXPECT_EQ(completed(), 29);
  EXPECT_TRUE(reads[4]->aborted);
  target_.port().ReleaseCompleted();
}

TEST(WorkerTest, RefusesPoolsThatCannotWork) {
  auto reactor = transport::EpollReactor::Create();
  ASSERT_TRUE(reactor.ok());
  for (const WorkerOptions& options :
       {WorkerOptions{.buffer_pool_bytes = 1u << 20, .buffer_bytes = 1u << 20},
        WorkerOptions{.buffer_pool_bytes = 8u << 20, .buffer_bytes = 64u << 10},
        WorkerOptions{.buffer_pool_bytes = 8u << 20,
        .buffer_bytes = (1u << 20) + 1}}) {
    EXPECT_EQ(Worker::Create(reactor->get(), options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace skiff::scsi
