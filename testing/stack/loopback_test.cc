#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/file_test_util.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/initiator/blocking_disk.h"
#include "scsi/initiator/disk.h"
#include "scsi/initiator/run_until.h"
#include "scsi/initiator/scsi_error.h"
#include "scsi/target/target.h"
#include "testing/stack/loopback_port.h"
#include "transport/reactor/epoll_reactor.h"

// The initiator's Disk on the target's device server, over each backend,
// without a transport.

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;
using Op = DiskIo::Op;

constexpr uint64_t kSize = 4u << 20;

enum class Medium { kRam, kThickRam, kFile, kDirectFile };

class LoopbackTest : public ::testing::TestWithParam<Medium> {
 protected:
  LoopbackTest() {
    auto added = target_->AddLogicalUnit(MakeBackend(), LogicalUnitOptions());
    EXPECT_TRUE(added.ok()) << added;
    WorkerOptions small;  // So that commands wait for buffers.
    small.buffer_bytes = 256u << 10;
    small.buffer_pool_bytes = 1u << 20;
    worker_ = *Worker::Create(reactor_.get(), small);
    port_ = MakePort("iqn.2026-01.example:first");
  }

  std::shared_ptr<Backend> MakeBackend() {
    RamBackendOptions ram;
    ram.size_bytes = kSize;
    ram.thin = GetParam() != Medium::kThickRam;
    FileBackendOptions file;
    file.path = file_.path();
    file.size_bytes = kSize;
    file.queue_depth = 16;
    file.direct = GetParam() == Medium::kDirectFile;
    if (file.direct) file.block_size = 4096;
    absl::StatusOr<std::unique_ptr<Backend>> backend;
    if (GetParam() == Medium::kFile || GetParam() == Medium::kDirectFile) {
      backend = MakeFileBackend(file);
    } else {
      backend = MakeRamBackend(ram);
    }
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  std::unique_ptr<LoopbackPort> MakePort(const std::string& name) {
    return std::make_unique<LoopbackPort>(reactor_.get(), target_.get(),
                                          worker_.get(), name);
  }
  std::unique_ptr<BlockingDisk> Open(LoopbackPort* port) {
    auto disk = BlockingDisk::Open(reactor_.get(), port);
    EXPECT_TRUE(disk.ok()) << disk.status();
    return *std::move(disk);
  }

  TemporaryFile file_{"loopback_test"};
  std::unique_ptr<transport::EpollReactor> reactor_ =
      *transport::EpollReactor::Create();
  std::unique_ptr<Target> target_ = Target::Create("iqn.2026-01.example:t");
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<LoopbackPort> port_;
};

std::string MediumName(const ::testing::TestParamInfo<Medium>& info) {
  switch (info.param) {
    case Medium::kRam:
      return "Ram";
    case Medium::kThickRam:
      return "ThickRam";
    case Medium::kFile:
      return "File";
    case Medium::kDirectFile:
      return "DirectFile";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Media, LoopbackTest,
                         ::testing::Values(Medium::kRam, Medium::kThickRam,
                                           Medium::kFile, Medium::kDirectFile),
                         MediumName);

TEST_P(LoopbackTest, DiskLearnsWhatTheBackendIs) {
  const DiskInfo info = Open(port_.get())->info();
  EXPECT_EQ(info.size_bytes, kSize);
  EXPECT_EQ(info.block_size, GetParam() == Medium::kDirectFile ? 4096u : 512u);
  EXPECT_EQ(info.product, "SKIFF DISK");
  EXPECT_FALSE(info.identifier.empty());
  EXPECT_FALSE(info.read_only);
  EXPECT_TRUE(info.dpo_fua);
  EXPECT_EQ(info.unmap, GetParam() != Medium::kThickRam);
  EXPECT_EQ(info.volatile_write_cache,
            GetParam() == Medium::kFile || GetParam() == Medium::kDirectFile);
  EXPECT_GT(info.max_compare_and_write_bytes, 0u);
}

TEST_P(LoopbackTest, RandomIoAgreesWithAModel) {
  constexpr uint64_t kRegions = 8;
  constexpr uint64_t kRegion = kSize / kRegions;
  constexpr uint64_t kBlock = 4096;
  DiskOptions options;
  options.max_transfer_bytes = 96u
                               << 10;  // More than a buffer, not a multiple.
  options.max_commands = 24;
  auto created = Disk::Create(port_.get(), reactor_.get(), options);
  ASSERT_TRUE(created.ok()) << created.status();
  Disk& disk = **created;
  absl::Status opened = absl::UnknownError("");
  disk.Open([&opened](absl::Status status) { opened = std::move(status); });
  RunUntil(reactor_.get(),
           [&opened] { return opened.code() != absl::StatusCode::kUnknown; });
  ASSERT_TRUE(opened.ok()) << opened;

  struct Io : DiskIo {
    std::string data;
    iovec element;
    bool ended = false;
  };
  std::string model(kSize, '\0');
  std::mt19937 random(31);
  for (int round = 0; round < 40; ++round) {
    std::deque<Io> ios;
    for (uint64_t region = 0; region < kRegions; ++region) {
      constexpr Op kOps[] = {Op::kRead, Op::kWrite, Op::kWriteZeroes,
                             Op::kFlush, Op::kUnmap};
      Io& io = ios.emplace_back();
      io.op = kOps[random() % (disk.info().unmap ? 5 : 4)];
      const uint64_t first = random() % (kRegion / kBlock);
      io.offset = region * kRegion + first * kBlock;
      io.length = (1 + random() % (kRegion / kBlock - first)) * kBlock;
      io.fua = random() % 8 == 0;
      io.may_unmap = random() % 2 == 0;
      io.data.assign(io.length, static_cast<char>(random()));
      io.element = {io.data.data(), io.length};
      io.iov = &io.element;
      io.iov_count = 1;
      io.done = [](DiskIo* ended) { static_cast<Io*>(ended)->ended = true; };
      if (io.op == Op::kWrite) model.replace(io.offset, io.length, io.data);
      if (io.op == Op::kUnmap || io.op == Op::kWriteZeroes) {
        model.replace(io.offset, io.length, std::string(io.length, '\0'));
      }
      disk.Submit(&io);
    }
    ASSERT_TRUE(RunUntil(
        reactor_.get(),
        [&ios] {
          return std::all_of(ios.begin(), ios.end(),
                             [](const Io& io) { return io.ended; });
        },
        absl::Seconds(60)));
    for (const Io& io : ios) {
      ASSERT_TRUE(io.status.ok()) << io.status;
      if (io.op == Op::kRead) {
        ASSERT_EQ(io.data, model.substr(io.offset, io.length));
      }
    }
  }
}

TEST_P(LoopbackTest, TwoInitiatorsCountWithCompareAndWrite) {
  auto second_port = MakePort("iqn.2026-01.example:second");
  const std::unique_ptr<BlockingDisk> disks[] = {Open(port_.get()),
                                                 Open(second_port.get())};
  const uint32_t block = disks[0]->info().block_size;
  int collisions = 0;
  for (int i = 0; i < 50; ++i) {
    BlockingDisk& disk = *disks[i % 2];
    std::string seen(block, '\0');
    ASSERT_TRUE(disk.Read(0, seen.data(), block).ok());
    uint32_t count = 0;
    std::memcpy(&count, seen.data(), sizeof(count));
    ++count;
    std::string next = seen;
    std::memcpy(next.data(), &count, sizeof(count));
    ASSERT_TRUE(disk.CompareAndWrite(0, seen.data(), next.data(), block).ok());
    // The other one still believes in the old value.
    const absl::Status late =
        disks[1 - i % 2]->CompareAndWrite(0, seen.data(), next.data(), block);
    ASSERT_EQ(late.code(), absl::StatusCode::kAborted) << late;
    ++collisions;
  }
  std::string last(block, '\0');
  ASSERT_TRUE(disks[0]->Read(0, last.data(), block).ok());
  EXPECT_EQ(static_cast<uint8_t>(last[0]), 50);
  EXPECT_EQ(collisions, 50);
}

TEST_P(LoopbackTest, CancelledIoEnds) {
  auto created = Disk::Create(port_.get(), reactor_.get());
  ASSERT_TRUE(created.ok()) << created.status();
  bool opened = false;
  (*created)->Open([&opened](const absl::Status&) { opened = true; });
  RunUntil(reactor_.get(), [&opened] { return opened; });
  std::string data(kSize, '?');
  const iovec iov = {data.data(), data.size()};
  int ended = 0;
  DiskIo io;
  io.length = kSize;
  io.iov = &iov;
  io.iov_count = 1;
  io.context = &ended;
  io.done = [](DiskIo* done) { ++*static_cast<int*>(done->context); };
  (*created)->Submit(&io);
  (*created)->Cancel(&io);
  EXPECT_TRUE(RunUntil(
      reactor_.get(), [&ended] { return ended > 0; }, absl::Seconds(20)));
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(io.status.code(), absl::StatusCode::kCancelled) << io.status;
}

// What cannot be tested on every medium.
class FileLoopbackTest : public LoopbackTest {};
INSTANTIATE_TEST_SUITE_P(Media, FileLoopbackTest,
                         ::testing::Values(Medium::kFile), MediumName);

TEST_P(FileLoopbackTest, ErrorsOfTheFileReachTheInitiator) {
  auto disk = Open(port_.get());
  ASSERT_EQ(truncate(file_.path().c_str(), 4096), 0);
  std::string data(8192, '?');
  const absl::Status status = disk->Read(0, data.data(), data.size());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MEDIUM ERROR"));
  const auto error = GetScsiError(status);
  ASSERT_TRUE(error.has_value() && error->sense.has_value());
  EXPECT_EQ(error->sense->information, 8u) << "the first block that is gone";
}

}  // namespace
}  // namespace skiff::scsi
