// Sessions that go on with another server, in virtual time.

#include "protocol/target/handover.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/ram_backend.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Dialect {
  const char* name;
  Digest digest;
  bool initial_r2t;
};

class HandoverTest : public ::testing::TestWithParam<Dialect> {
 protected:
  HandoverTest()
      : stack_(testing::SimWorld::SeedFromEnvironment(1),
               /*server_reactors=*/2) {
    scsi::RamBackendOptions ram;
    ram.size_bytes = kBlocks * kBlock;
    medium_ = scsi::MakeRamBackend(ram).value();
    stack_.StopServer();
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    Serve();
    stack_.StartServer();
  }

  // As another process would: a target of its own.
  void Serve(uint64_t size = 0) {
    stack_.target = scsi::Target::Create(kTargetName);
    if (size > 0) other_ = MakeRam(size);
    EXPECT_TRUE(
        stack_.target->AddLogicalUnit(size > 0 ? other_ : medium_, {}).ok());
  }
  static std::shared_ptr<scsi::Backend> MakeRam(uint64_t size) {
    scsi::RamBackendOptions ram;
    ram.size_bytes = size;
    return scsi::MakeRamBackend(ram).value();
  }

  ServerHandover HandOver(const HandOverOptions& how = {}) {
    std::optional<ServerHandover> given;
    stack_.server->HandOver(how, [&given](ServerHandover handover) {
      given.emplace(std::move(handover));
    });
    EXPECT_TRUE(stack_.RunUntil([&given] { return given.has_value(); }));
    stack_.server.reset();
    return *std::move(given);
  }
  void Restart(uint64_t size = 0) {
    ServerHandover handover = HandOver();
    EXPECT_EQ(handover.sessions.size(), 1u);
    Serve(size);
    stack_.StartServer();
    stack_.server->TakeOver(std::move(handover));
  }
  InitiatorOptions Options() const {
    InitiatorOptions options = stack_.Options();
    options.offer.data_digest =
        options.offer.header_digest = {GetParam().digest};
    options.offer.initial_r2t = GetParam().initial_r2t;
    return options;
  }
  std::string ReadCapacity() {
    TestCommand command(scsi::cdb::ReadCapacity16(32), 32);
    stack_.RunToGood(&command);
    return command.buffer;
  }

  std::vector<std::string> log_;
  std::shared_ptr<scsi::Backend> medium_;
  std::shared_ptr<scsi::Backend> other_;
  SimStack stack_;
};

INSTANTIATE_TEST_SUITE_P(
    Dialects, HandoverTest,
    ::testing::Values(Dialect{"Plain", Digest::kNone, false},
                      Dialect{"Digests", Digest::kCrc32c, false},
                      Dialect{"InitialR2t", Digest::kNone, true}),
    [](const auto& info) { return info.param.name; });

TEST_P(HandoverTest, VerifiedLoadGoesOnThroughManyServers) {
  stack_.LogIn(Options());
  VerifiedLoad::Options options;
  options.commands = 1500;
  options.depth = 16;
  options.max_blocks = 96;
  VerifiedLoad load(stack_.initiator.get(), &stack_.random(), options);
  load.Start();
  const uint16_t tsih = stack_.Sessions().at(0).tsih;
  int restarts = 0;
  while (!load.done()) {
    // Also at once, before what was handed over was read.
    testing::SimRandom& random = stack_.random();
    const uint64_t more = random.Chance(0.25) ? 0 : random.Between(1, 80);
    const uint64_t until = load.completed() + more;
    ASSERT_TRUE(stack_.RunUntil(
        [&] { return load.done() || load.completed() >= until; }));
    if (load.done()) break;
    Restart();
    ++restarts;
  }
  for (const std::string& error : load.errors()) ADD_FAILURE() << error;
  EXPECT_GE(restarts, 10);
  EXPECT_EQ(load.unit_attentions(), 1u) << "at first, and never again";
  const std::vector<SessionInfo> sessions = stack_.Sessions();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].tsih, tsih);
  EXPECT_GE(sessions[0].commands, 1500u);
  EXPECT_EQ(stack_.Counts().logins, 0u);
  EXPECT_THAT(log_, Not(Contains(HasSubstr("can't"))));
}

TEST_P(HandoverTest, AnIdleSessionGoesOn) {
  stack_.LogIn(Options());
  ReadCapacity();
  for (int i = 0; i < 3; ++i) {
    Restart();
    stack_.RunFor(absl::Minutes(2));  // Pings go on.
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);
    EXPECT_EQ(ready.command.status, 0);
  }
  EXPECT_EQ(stack_.Counts().logins, 0u);
}

TEST_P(HandoverTest, ANewCapacityIsTold) {
  stack_.LogIn(Options());
  const std::string before = ReadCapacity();
  ServerHandover handover = HandOver();
  ASSERT_EQ(handover.sessions.size(), 1u);
  Serve(2 * kBlocks * kBlock);
  stack_.StartServer();
  stack_.server->TakeOver(std::move(handover));
  TestCommand ready(scsi::cdb::TestUnitReady(), 0);
  stack_.Run(&ready.command);
  EXPECT_TRUE(IsUnitAttention(ready.command));
  EXPECT_NE(ReadCapacity(), before);
}

// What it has sent already must not be done on the other one.
TEST_P(HandoverTest, AnotherDiskEndsIt) {
  stack_.LogIn(Options());
  ReadCapacity();
  ServerHandover handover = HandOver();
  ASSERT_EQ(handover.sessions.size(), 1u);
  stack_.target = scsi::Target::Create(kTargetName);
  scsi::LogicalUnitOptions other;
  other.serial = "OTHER";
  ASSERT_TRUE(stack_.target->AddLogicalUnit(medium_, other).ok());
  stack_.StartServer();
  stack_.server->TakeOver(std::move(handover));
  stack_.RunFor(absl::Milliseconds(100));
  EXPECT_THAT(log_, Contains(HasSubstr("a disk is another one than it was")));
  ReadCapacity();
  EXPECT_EQ(stack_.Counts().logins, 1u) << "it has not logged in again";
}

TEST_P(HandoverTest, WhoIsNotWantedLogsInAgain) {
  stack_.LogIn(Options());
  HandOverOptions how;
  how.wanted = [](const std::string&) { return false; };
  ServerHandover handover = HandOver(how);
  EXPECT_THAT(handover.sessions, IsEmpty());
  Serve();
  stack_.StartServer();
  stack_.server->TakeOver(std::move(handover));
  ReadCapacity();
  EXPECT_EQ(stack_.Counts().logins, 1u);
}

TEST_P(HandoverTest, ATargetThatIsGoneEndsIt) {
  stack_.LogIn(Options());
  ServerHandover handover = HandOver();
  ASSERT_EQ(handover.sessions.size(), 1u);
  stack_.target = scsi::Target::Create("iqn.2001-04.com.example:other");
  stack_.StartServer();
  stack_.server->TakeOver(std::move(handover));
  stack_.RunFor(absl::Milliseconds(100));
  EXPECT_THAT(stack_.Sessions(), IsEmpty());
  EXPECT_THAT(log_, Contains(HasSubstr("has to log in again")));
}

// Its data never come: the session ends, and the server does.
TEST_P(HandoverTest, AWriteThatIsNotContinuedIsNotWaitedForLong) {
  RawPeer peer(&stack_);
  peer.LogIn(1);
  ScsiCommandPdu write;
  write.write = true;
  write.final = true;
  write.initiator_task_tag = 7;
  write.expected_data_transfer_length = 512;
  write.cdb[0] = 0x2a;
  write.cdb[8] = 1;
  for (write.cmd_sn = 1; write.cmd_sn <= 2; ++write.cmd_sn) {
    peer.Send(ToWire(write));
    stack_.RunFor(absl::Milliseconds(10));
  }
  const absl::Time began = stack_.world.now();
  ServerHandover handover = HandOver();
  EXPECT_THAT(handover.sessions, IsEmpty());
  EXPECT_LE(stack_.world.now() - began, absl::Seconds(6));
  EXPECT_THAT(log_, Contains(HasSubstr("did not end in time")));
  Serve();
  stack_.StartServer();
}

// It logs out as it is asked to, and in again.
TEST(HandoverOverRdmaTest, ASessionComesBack) {
  SimStack stack(testing::SimWorld::SeedFromEnvironment(1),
                 /*server_reactors=*/2, testing::SimRdmaOptions::InfiniBand());
  stack.LogIn();
  TestCommand before(scsi::cdb::TestUnitReady(), 0);
  stack.RunToGood(&before);
  std::optional<size_t> sessions;
  const absl::Time began = stack.world.now();
  stack.server->HandOver({}, [&sessions](const ServerHandover& handover) {
    sessions = handover.sessions.size();
  });
  ASSERT_TRUE(stack.RunUntil([&sessions] { return sessions.has_value(); }));
  EXPECT_EQ(sessions, 0u);
  EXPECT_LT(stack.world.now() - began, HandOverOptions().grace);
  stack.server.reset();
  stack.StartServer();
  TestCommand after(scsi::cdb::TestUnitReady(), 0);
  stack.RunToGood(&after);
  EXPECT_EQ(stack.Counts().logins, 1u);
}

}  // namespace
}  // namespace skiff::protocol
