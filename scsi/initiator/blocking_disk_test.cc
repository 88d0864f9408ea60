#include "scsi/initiator/blocking_disk.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/fake_command_port.h"
#include "scsi/initiator/run_until.h"
#include "scsi/initiator/scsi_error.h"

namespace skiff::scsi {
namespace {

TEST(BlockingDiskTest, DoesEverythingInOrder) {
  auto reactor = *transport::EpollReactor::Create();
  FakeCommandPort port(reactor.get());
  auto opened = BlockingDisk::Open(reactor.get(), &port);
  ASSERT_TRUE(opened.ok()) << opened.status();
  BlockingDisk& disk = **opened;
  EXPECT_EQ(disk.info().product, "Fake");

  const std::string a(1024, 'a');
  const std::string b(1024, 'b');
  std::string data(1024, '?');
  EXPECT_TRUE(disk.Write(512, a.data(), a.size()).ok());
  EXPECT_TRUE(disk.Flush().ok());
  EXPECT_TRUE(disk.CompareAndWrite(512, a.data(), b.data(), 1024).ok());
  EXPECT_EQ(disk.CompareAndWrite(512, a.data(), b.data(), 1024).code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(disk.Read(512, data.data(), data.size()).ok());
  EXPECT_EQ(data, b);
  EXPECT_TRUE(disk.WriteZeroes(512, 512).ok());
  EXPECT_TRUE(disk.Unmap(1024, 512).ok());
  EXPECT_TRUE(disk.Read(512, data.data(), data.size()).ok());
  EXPECT_EQ(data, std::string(1024, '\0'));
  EXPECT_EQ(disk.Read(1, data.data(), 512).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BlockingDiskTest, OpenFailsWithTheReason) {
  auto reactor = *transport::EpollReactor::Create();
  FakeCommandPort port(reactor.get());
  port.disk.peripheral_qualifier = 3;
  EXPECT_EQ(BlockingDisk::Open(reactor.get(), &port).status().code(),
            absl::StatusCode::kNotFound);
  DiskOptions options;
  options.max_commands = 0;
  EXPECT_EQ(BlockingDisk::Open(reactor.get(), &port, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BlockingDiskTest, RunsOneCommand) {
  auto reactor = *transport::EpollReactor::Create();
  FakeCommandPort port(reactor.get());
  Command command;
  SetCdb(cdb::ReportLuns(0), &command);
  RunCommand(reactor.get(), &port, &command);
  EXPECT_EQ(CommandStatus(command).code(), absl::StatusCode::kUnimplemented);
}

TEST(RunUntilTest, SleepsUntilTheTimeout) {
  auto reactor = *transport::EpollReactor::Create();
  int looks = 0;
  const absl::Time start = transport::EpollReactor::MonotonicNow();
  EXPECT_FALSE(RunUntil(
      reactor.get(), [&looks] { return ++looks > 1000; },
      absl::Milliseconds(30)));
  EXPECT_GE(transport::EpollReactor::MonotonicNow() - start,
            absl::Milliseconds(30));
  EXPECT_LT(looks, 100) << "spins";
}

TEST(RunUntilTest, WakesForTimers) {
  auto reactor = *transport::EpollReactor::Create();
  bool expired = false;
  transport::Timer timer(reactor.get(), [&expired] { expired = true; });
  timer.ScheduleAfter(absl::Milliseconds(5));
  EXPECT_TRUE(RunUntil(
      reactor.get(), [&expired] { return expired; }, absl::Seconds(20)));
}

}  // namespace
}  // namespace skiff::scsi
