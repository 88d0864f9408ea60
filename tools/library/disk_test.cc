#include <skiff/skiff.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/initiator_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;
using ::testing::TestWithParam;
using ::testing::Values;

// Events, as their user counts them.
struct Events {
  std::atomic<int> count[8] = {};

  static void On(void* user, skiff_disk* /*disk*/, int event, int /*result*/,
                 const char* /*message*/) {
    ++static_cast<Events*>(user)->count[event];
  }
};

// In a context of both kinds, by how many threads it has.
class DiskTest : public TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    skiff_disk_options options;
    SKIFF_INIT(options);
    options.on_event = Events::On;
    options.event_user = &events_;
    options.restore_timeout_ms = 1;
    options.ping_interval_ms = 20;
    ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url().c_str(), &options,
                              nullptr, nullptr, &disk_),
              0)
        << skiff_last_error();
  }
  void TearDown() override {
    if (disk_ == nullptr) return;
    EXPECT_EQ(skiff_disk_close(disk_, nullptr, nullptr), 0)
        << skiff_last_error();
  }

  // One I/O over `data`, with a `done`.
  skiff_io MakeIo(uint32_t op, uint64_t offset, Outcome* outcome) {
    skiff_io io;
    SKIFF_INIT(io);
    io.op = op;
    io.offset = offset;
    io.length = 512;
    io.iov = &iov_;
    io.iov_count = 1;
    io.done = Outcome::Done;
    io.user = outcome;
    return io;
  }
  // The message of what Submit() refuses.
  std::string Refused(const skiff_io& io) {
    EXPECT_EQ(skiff_disk_submit(disk_, &io, 1, nullptr), -EINVAL);
    return skiff_last_error();
  }
  // Starts one, and waits for its end.
  int Run(const skiff_io& io, Outcome* outcome) {
    EXPECT_EQ(skiff_disk_submit(disk_, &io, 1, nullptr), 0)
        << skiff_last_error();
    EXPECT_TRUE(context_.Await([&] { return outcome->times() == 1; }));
    return outcome->result();
  }
  int RunAndWait(skiff_io io) {
    io.done = nullptr;
    return skiff_disk_submit(disk_, &io, 1, nullptr);
  }

  RamTarget target_;
  TestContext context_{GetParam()};
  Events events_;
  skiff_disk* disk_ = nullptr;
  std::array<char, 1024> data_ = {};
  iovec iov_ = {data_.data(), 512};
};

INSTANTIATE_TEST_SUITE_P(Kinds, DiskTest, Values(0, 2));

TEST_P(DiskTest, MovesDataForThoseWhoWait) {
  std::array<char, 4096> out;
  out.fill('x');
  std::array<char, 4096> in = {};
  ASSERT_EQ(skiff_disk_write(disk_, 8192, out.data(), out.size(), SKIFF_IO_FUA,
                             nullptr, nullptr),
            0)
      << skiff_last_error();
  ASSERT_EQ(skiff_disk_flush(disk_, nullptr, nullptr), 0);
  ASSERT_EQ(
      skiff_disk_read(disk_, 8192, in.data(), in.size(), nullptr, nullptr), 0);
  EXPECT_EQ(in, out);
}

TEST_P(DiskTest, CallsBack) {
  data_.fill('y');
  Outcome written;
  EXPECT_EQ(Run(MakeIo(SKIFF_IO_WRITE, 512, &written), &written), 0);
  EXPECT_EQ(written.message(), "");
  // In pieces.
  std::array<char, 512> in = {};
  const iovec pieces[] = {{in.data(), 100},       {in.data() + 100, 0},
                          {in.data() + 100, 12},  {in.data() + 112, 100},
                          {in.data() + 212, 100}, {in.data() + 312, 200}};
  Outcome read;
  skiff_io io = MakeIo(SKIFF_IO_READ, 512, &read);
  io.iov = pieces;
  io.iov_count = 6;
  EXPECT_EQ(Run(io, &read), 0);
  EXPECT_EQ(std::string(in.data(), 512), std::string(512, 'y'));
}

TEST_P(DiskTest, DoesAllThatDisksDo) {
  data_.fill('a');
  EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_WRITE, 0, nullptr)), 0);
  skiff_io io = MakeIo(SKIFF_IO_COMPARE_AND_WRITE, 0, nullptr);
  std::fill(data_.begin() + 512, data_.end(), 'b');
  iov_.iov_len = 1024;
  EXPECT_EQ(RunAndWait(io), 0) << skiff_last_error();
  EXPECT_EQ(RunAndWait(io), -EILSEQ);
  EXPECT_THAT(skiff_last_error(), HasSubstr("MISCOMPARE"));
  iov_.iov_len = 512;
  EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_READ, 0, nullptr)), 0);
  EXPECT_EQ(data_[0], 'b');
  for (const uint32_t op : {SKIFF_IO_WRITE_ZEROES, SKIFF_IO_UNMAP}) {
    io = MakeIo(op, 0, nullptr);
    io.length = 4096;
    io.iov = nullptr;
    io.iov_count = 0;
    EXPECT_EQ(RunAndWait(io), 0) << skiff_last_error();
  }
  EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_READ, 0, nullptr)), 0);
  EXPECT_EQ(data_[0], 0);
  EXPECT_EQ(skiff_disk_reset(disk_, nullptr, nullptr), 0) << skiff_last_error();
}

TEST_P(DiskTest, NamesMistakes) {
  skiff_io io = MakeIo(99, 0, nullptr);
  EXPECT_THAT(Refused(io), HasSubstr("is 99, which is no skiff_io_op"));
  io = MakeIo(SKIFF_IO_READ, 0, nullptr);
  io.flags = SKIFF_IO_FUA;
  EXPECT_THAT(Refused(io), HasSubstr("have 0x1, which means nothing to op 1"));
  io = MakeIo(SKIFF_IO_READ, 0, nullptr);
  io.length = 1024;
  EXPECT_THAT(Refused(io), HasSubstr("the iovecs of skiff_io add up to 512 "
                                     "bytes, but its length is 1024"));
  io = MakeIo(SKIFF_IO_COMPARE_AND_WRITE, 0, nullptr);
  EXPECT_THAT(Refused(io), HasSubstr("of which they have to have two"));
  io = MakeIo(SKIFF_IO_READ, 0, nullptr);
  io.iov = nullptr;
  EXPECT_THAT(Refused(io), HasSubstr("iov is NULL, but iov_count is 1"));
  io.iov_count = 2000;
  EXPECT_THAT(Refused(io), HasSubstr("iov_count is 2000"));
  const iovec strange[] = {{nullptr, 512}, {data_.data(), SIZE_MAX}};
  io.iov = strange;
  io.iov_count = 1;
  EXPECT_THAT(Refused(io), HasSubstr("iov[0] has 512 bytes at NULL"));
  const iovec too_long[] = {{data_.data(), 512}, {data_.data(), SIZE_MAX}};
  io.iov = too_long;
  io.iov_count = 2;
  EXPECT_THAT(Refused(io), HasSubstr("iov[1] has 18446744073709551615 bytes"));
  io = MakeIo(SKIFF_IO_READ, UINT64_MAX - 511, nullptr);
  EXPECT_THAT(Refused(io), HasSubstr("no disk has as many"));
  io = MakeIo(SKIFF_IO_FLUSH, 512, nullptr);
  EXPECT_THAT(Refused(io), HasSubstr("flushes all of the disk"));
  io = MakeIo(SKIFF_IO_UNMAP, 0, nullptr);
  EXPECT_THAT(Refused(io), HasSubstr("moves no data"));
  io = MakeIo(SKIFF_IO_READ, 0, nullptr);
  io.struct_size = 0;
  EXPECT_THAT(Refused(io), HasSubstr("write SKIFF_INIT()"));

  std::array<skiff_io, 2> both = {MakeIo(SKIFF_IO_READ, 0, nullptr),
                                  MakeIo(SKIFF_IO_READ, 0, nullptr)};
  both[1].done = nullptr;
  EXPECT_EQ(skiff_disk_submit(disk_, both.data(), 2, nullptr), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("number 1 has no done"));
  both[1].struct_size -= 8;
  EXPECT_EQ(skiff_disk_submit(disk_, both.data(), 2, nullptr), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("number 1 has struct_size 56, but "
                                            "the first has 64"));
  EXPECT_EQ(skiff_disk_submit(disk_, nullptr, 1, nullptr), -EINVAL);
  EXPECT_EQ(skiff_disk_submit(disk_, both.data(), 1 << 20, nullptr), -ENOBUFS);
  EXPECT_EQ(skiff_disk_submit(disk_, nullptr, 0, nullptr), 0);
}

TEST_P(DiskTest, TellsErrorsOfIo) {
  EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_READ, RamTarget::kBytes, nullptr)),
            -ERANGE);
  EXPECT_THAT(skiff_last_error(), HasSubstr("are not on the disk"));
  Outcome outcome;
  EXPECT_EQ(Run(MakeIo(SKIFF_IO_READ, 100, &outcome), &outcome), -EINVAL);
  EXPECT_THAT(outcome.message(), HasSubstr("multiples of the block size"));
}

TEST_P(DiskTest, ManyAtOnceFromAnyThread) {
  constexpr size_t kCount = 200;
  std::vector<skiff_io> ios;
  Outcome outcome;
  for (size_t i = 0; i < kCount; ++i) {
    ios.push_back(MakeIo(SKIFF_IO_READ, i * 512, &outcome));
  }
  std::array<uint64_t, kCount> ids;
  std::thread([&] {
    EXPECT_EQ(skiff_disk_submit(disk_, ios.data(), kCount, ids.data()), 0);
  }).join();
  EXPECT_TRUE(context_.Await([&] { return outcome.times() == kCount; }));
  EXPECT_EQ(outcome.result(), 0);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kCount);
  // One of them is wrong, and none is started.
  ios.back().length = 1024;
  EXPECT_EQ(skiff_disk_submit(disk_, ios.data(), kCount, nullptr), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("number 199"));
  EXPECT_EQ(outcome.times(), static_cast<int>(kCount));
  // All of them are waited for.
  for (skiff_io& io : ios) io.done = nullptr;
  ios.back().length = 512;
  ios.back().offset = RamTarget::kBytes;
  EXPECT_EQ(skiff_disk_submit(disk_, ios.data(), kCount, nullptr), -ERANGE);
}

TEST_P(DiskTest, WaitsOnlyWhereThatWorks) {
  context_.InCallback([this] {
    EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_READ, 0, nullptr)), -EDEADLK);
    EXPECT_EQ(skiff_disk_close(disk_, nullptr, nullptr), -EDEADLK);
  });
  if (GetParam() != 0) return;
  std::thread([this] {
    EXPECT_EQ(RunAndWait(MakeIo(SKIFF_IO_READ, 0, nullptr)), -EPERM);
    EXPECT_EQ(skiff_disk_close(disk_, nullptr, nullptr), -EPERM);
  }).join();
}

TEST_P(DiskTest, GivesUp) {
  EXPECT_EQ(skiff_disk_cancel(disk_, 0), -ENOENT);
  EXPECT_EQ(skiff_disk_cancel(disk_, 1234567), -ENOENT);
  constexpr size_t kCount = 100;
  Outcome outcome;
  std::vector<skiff_io> ios(kCount, MakeIo(SKIFF_IO_READ, 0, &outcome));
  std::array<uint64_t, kCount> ids;
  ASSERT_EQ(skiff_disk_submit(disk_, ios.data(), kCount, ids.data()), 0);
  for (const uint64_t id : ids) {
    const int result = skiff_disk_cancel(disk_, id);
    EXPECT_TRUE(result == 0 || result == -ENOENT);
  }
  EXPECT_TRUE(context_.Await([&] { return outcome.times() == kCount; }));
  EXPECT_TRUE(outcome.result() == 0 || outcome.result() == -ECANCELED);
}

TEST_P(DiskTest, MayBeClosedInACallbackWithMoreInFlight) {
  constexpr int kCount = 50;
  Outcome closed;
  Outcome outcome;
  outcome.then = [&] {
    EXPECT_EQ(skiff_disk_close(disk_, Outcome::Done, &closed), 0);
    EXPECT_EQ(skiff_disk_close(disk_, Outcome::Done, &closed), -EBADF);
  };
  std::vector<skiff_io> ios(kCount, MakeIo(SKIFF_IO_READ, 0, &outcome));
  ASSERT_EQ(skiff_disk_submit(disk_, ios.data(), kCount, nullptr), 0);
  EXPECT_TRUE(context_.Await([&] { return closed.times() == 1; }));
  EXPECT_EQ(closed.result(), 0);
  EXPECT_EQ(outcome.times(), kCount);
  EXPECT_EQ(skiff_disk_read(disk_, 0, data_.data(), 512, nullptr, nullptr),
            -EBADF);
  disk_ = nullptr;
}

TEST_P(DiskTest, KeepsItsContextOpen) {
  EXPECT_EQ(skiff_context_close(context_.get()), -EBUSY);
  EXPECT_STREQ(skiff_last_error(),
               "the context still has 1 disk: close what uses it before");
}

TEST_P(DiskTest, TellsWhatItIs) {
  skiff_disk_info info;
  SKIFF_INIT(info);
  ASSERT_EQ(skiff_disk_get_info(disk_, &info), 0) << skiff_last_error();
  EXPECT_EQ(info.struct_size, sizeof(info));
  EXPECT_EQ(info.size_bytes, RamTarget::kBytes);
  EXPECT_EQ(info.block_size, 512u);
  EXPECT_STREQ(info.vendor, "SKIFF");
  EXPECT_NE(info.serial[0], '\0');
  // An older caller's is shorter.
  skiff_disk_info older;
  std::memset(&older, 0x55, sizeof(older));
  older.struct_size = 16;
  ASSERT_EQ(skiff_disk_get_info(disk_, &older), 0);
  EXPECT_EQ(older.size_bytes, RamTarget::kBytes);
  EXPECT_EQ(older.block_size, 0x55555555u);
  older.struct_size = 0;
  EXPECT_EQ(skiff_disk_get_info(disk_, &older), -EINVAL);
  EXPECT_EQ(skiff_disk_get_info(disk_, nullptr), -EINVAL);
}

TEST_P(DiskTest, Counts) {
  EXPECT_EQ(skiff_disk_read(disk_, 0, data_.data(), 512, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_disk_read(disk_, 3, data_.data(), 512, nullptr, nullptr),
            -EINVAL);
  skiff_disk_stats stats;
  SKIFF_INIT(stats);
  ASSERT_EQ(skiff_disk_get_stats(disk_, &stats), 0);
  EXPECT_EQ(stats.ios, 2u);
  EXPECT_EQ(stats.failed_ios, 1u);
  EXPECT_GT(stats.latency_ns_sum, 0u);
  EXPECT_EQ(stats.connected, 1u);
  EXPECT_GE(stats.commands, 1u);
  EXPECT_STREQ(stats.transport, "tcp");
  EXPECT_STREQ(stats.data_model, "iSCSI");
  EXPECT_STREQ(stats.target, RamTarget::kName);
  EXPECT_EQ("iscsi://" + std::string(stats.peer), target_.portal());
}

TEST_P(DiskTest, SeesItsSizeChange) {
  target_.Resize(RamTarget::kBytes / 4);
  // The target tells with the next command.
  EXPECT_EQ(skiff_disk_read(disk_, 0, data_.data(), 512, nullptr, nullptr), 0);
  EXPECT_TRUE(
      context_.Await([&] { return events_.count[SKIFF_DISK_RESIZED] == 1; }));
  skiff_disk_info info;
  SKIFF_INIT(info);
  ASSERT_EQ(skiff_disk_get_info(disk_, &info), 0);
  EXPECT_EQ(info.size_bytes, RamTarget::kBytes / 4);
  EXPECT_EQ(skiff_disk_refresh(disk_, nullptr, nullptr), 0);
}

TEST_P(DiskTest, TellsWhenItsSessionIsLost) {
  target_.Stop();
  EXPECT_TRUE(
      context_.Await([&] { return events_.count[SKIFF_DISK_GIVEN_UP] == 1; }));
  EXPECT_EQ(events_.count[SKIFF_DISK_LOST], 1);
  EXPECT_EQ(skiff_disk_read(disk_, 0, data_.data(), 512, nullptr, nullptr),
            -ENOTCONN);
  EXPECT_FALSE(context_.log().empty());
}

TEST_P(DiskTest, SendsCommands) {
  uint8_t cdb[16] = {0x12, 0, 0, 0, 96};
  std::array<char, 96> in = {};
  const iovec iov = {in.data(), in.size()};
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = cdb;
  command.cdb_length = 6;
  command.data_in = &iov;
  command.data_in_count = 1;
  skiff_command_result result;
  SKIFF_INIT(result);
  ASSERT_EQ(
      skiff_disk_command(disk_, &command, &result, nullptr, nullptr, nullptr),
      0)
      << skiff_last_error();
  EXPECT_EQ(result.answered, 1u);
  EXPECT_EQ(result.status, 0u);
  EXPECT_EQ(std::string(in.data() + 8, 5), "SKIFF");
  EXPECT_GE(result.data_in_length, 36u);

  cdb[0] = 0xc1;
  command.flags = SKIFF_COMMAND_ONCE;
  Outcome outcome;
  uint64_t id = 0;
  ASSERT_EQ(skiff_disk_command(disk_, &command, &result, Outcome::Done,
                               &outcome, &id),
            0);
  EXPECT_NE(id, 0u);
  EXPECT_TRUE(context_.Await([&] { return outcome.times() == 1; }));
  EXPECT_EQ(outcome.result(), -EOPNOTSUPP) << outcome.message();
  EXPECT_EQ(result.status, 2u);
  EXPECT_GE(result.sense_length, 8u);

  cdb[0] = 0x12;
  command.cdb_length = 10;
  EXPECT_EQ(
      skiff_disk_command(disk_, &command, nullptr, nullptr, nullptr, nullptr),
      -EINVAL);
  EXPECT_THAT(skiff_last_error(),
              HasSubstr("cdb_length is 10, but a command of operation code "
                        "0x12 has 6 bytes"));
  EXPECT_EQ(
      skiff_disk_command(disk_, nullptr, nullptr, nullptr, nullptr, nullptr),
      -EINVAL);
}

TEST_P(DiskTest, SharesItsSession) {
  skiff_disk* other = nullptr;
  ASSERT_EQ(skiff_disk_open_lun(disk_, 1, nullptr, nullptr, nullptr, &other), 0)
      << skiff_last_error();
  skiff_disk_info info;
  SKIFF_INIT(info);
  ASSERT_EQ(skiff_disk_get_info(other, &info), 0);
  EXPECT_EQ(info.size_bytes, RamTarget::kBytes / 2);
  EXPECT_EQ(info.lun, 1u);
  // Each is of use without the other.
  EXPECT_EQ(skiff_disk_close(disk_, nullptr, nullptr), 0);
  EXPECT_EQ(skiff_disk_read(other, 0, data_.data(), 512, nullptr, nullptr), 0);
  disk_ = other;
  EXPECT_EQ(skiff_disk_open_lun(disk_, 9, nullptr, nullptr, nullptr, &other),
            -ENOENT);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(
      skiff_disk_open_lun(disk_, 20000, nullptr, nullptr, nullptr, &other),
      -ERANGE);
}

// The opening of disks that are not there.
class OpenTest : public TestWithParam<uint32_t> {
 protected:
  int Open(const std::string& url) {
    skiff_disk* disk = reinterpret_cast<skiff_disk*>(1);
    const int result = skiff_disk_open(context_.get(), url.c_str(), nullptr,
                                       nullptr, nullptr, &disk);
    EXPECT_EQ(disk, nullptr);
    return result;
  }

  RamTarget target_;
  TestContext context_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kinds, OpenTest, Values(0, 1));

TEST_P(OpenTest, SaysWhatIsWrong) {
  EXPECT_EQ(Open("nonsense"), -EINVAL);
  EXPECT_EQ(Open(target_.portal()), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("names no logical unit"));
  EXPECT_EQ(Open(target_.portal() + "/iqn.2026-11.org.example:none/0"),
            -ENOENT);
  EXPECT_THAT(skiff_last_error(), HasSubstr("ound"));
  EXPECT_EQ(Open(target_.Url(7)), -ENOENT);
  EXPECT_EQ(Open("iscsi://me%secret@127.0.0.1/iqn.2026-11.org.example:a/0"),
            -EINVAL);
  const std::string url = target_.Url();
  target_.Stop();
  EXPECT_EQ(Open(url), -ENOTCONN) << skiff_last_error();
  skiff_disk* disk = nullptr;
  EXPECT_EQ(skiff_disk_open(context_.get(), nullptr, nullptr, nullptr, nullptr,
                            &disk),
            -EINVAL);
  EXPECT_EQ(skiff_disk_open(context_.get(), url.c_str(), nullptr, nullptr,
                            nullptr, nullptr),
            -EINVAL);
  skiff_disk_options options;
  SKIFF_INIT(options);
  options.thread = 5;
  EXPECT_EQ(skiff_disk_open(context_.get(), url.c_str(), &options, nullptr,
                            nullptr, &disk),
            -ERANGE);
}

TEST_P(OpenTest, CanBeGivenUp) {
  Outcome opened;
  Outcome closed;
  skiff_disk* disk = nullptr;
  ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url().c_str(), nullptr,
                            Outcome::Done, &opened, &disk),
            0);
  ASSERT_NE(disk, nullptr);
  const int early = skiff_disk_read(disk, 0, nullptr, 0, skiff_ignore, nullptr);
  if (GetParam() == 0) {
    EXPECT_EQ(early, -ENOTCONN);
  }
  ASSERT_EQ(skiff_disk_close(disk, Outcome::Done, &closed), 0);
  EXPECT_TRUE(context_.Await([&] { return closed.times() == 1; }));
  EXPECT_EQ(opened.times(), 1);
  if (GetParam() == 0) {
    EXPECT_EQ(opened.result(), -ECANCELED);
  }
}

TEST_P(OpenTest, AFailureIsToldAndLeavesAHandle) {
  Outcome opened;
  skiff_disk* disk = nullptr;
  ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url(7).c_str(), nullptr,
                            Outcome::Done, &opened, &disk),
            0);
  EXPECT_TRUE(context_.Await([&] { return opened.times() == 1; }));
  EXPECT_EQ(opened.result(), -ENOENT);
  char data[512];
  EXPECT_EQ(skiff_disk_read(disk, 0, data, 512, nullptr, nullptr), -ENOTCONN);
  EXPECT_THAT(skiff_last_error(), HasSubstr("could not be opened"));
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
}

TEST_P(OpenTest, ForCommandsOnly) {
  skiff_disk_options options;
  SKIFF_INIT(options);
  options.flags = SKIFF_DISK_COMMANDS_ONLY;
  skiff_disk* disk = nullptr;
  ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url(7).c_str(), &options,
                            nullptr, nullptr, &disk),
            0);
  char data[512];
  EXPECT_EQ(skiff_disk_read(disk, 0, data, 512, nullptr, nullptr), -EOPNOTSUPP);
  const uint8_t test_unit_ready[6] = {};
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = test_unit_ready;
  command.cdb_length = 6;
  EXPECT_EQ(
      skiff_disk_command(disk, &command, nullptr, nullptr, nullptr, nullptr),
      -ENOENT);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
}

TEST_P(OpenTest, Discovers) {
  std::vector<std::string> names;
  const auto each = [](void* user, const skiff_found_target* target) {
    static_cast<std::vector<std::string>*>(user)->push_back(target->name);
  };
  EXPECT_EQ(skiff_discover(context_.get(), target_.portal().c_str(), nullptr,
                           each, nullptr, &names),
            0)
      << skiff_last_error();
  EXPECT_EQ(names, std::vector<std::string>{RamTarget::kName});
  EXPECT_EQ(skiff_discover(context_.get(), target_.Url().c_str(), nullptr, each,
                           nullptr, &names),
            -EINVAL);
  EXPECT_EQ(skiff_discover(context_.get(), target_.portal().c_str(), nullptr,
                           nullptr, nullptr, &names),
            -EINVAL);
  target_.Stop();
  EXPECT_EQ(skiff_discover(context_.get(), target_.portal().c_str(), nullptr,
                           each, nullptr, &names),
            -ENOTCONN);
}

}  // namespace
}  // namespace skiff::library
