// Disks of the C interface that are used as they should not be, or where it is
// hard to get right.

#include <skiff/skiff.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/initiator_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;

// By how many threads the context has.
class DiskMisuseTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url().c_str(), nullptr,
                              nullptr, nullptr, &disk_),
              0)
        << skiff_last_error();
  }
  void TearDown() override {
    if (disk_ == nullptr) return;
    EXPECT_EQ(skiff_disk_close(disk_, nullptr, nullptr), 0)
        << skiff_last_error();
  }
  bool Await(const Outcome& outcome) const {
    return context_.Await([&outcome] { return outcome.times() > 0; });
  }

  RamTarget target_;
  TestContext context_{GetParam()};
  skiff_disk* disk_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Contexts, DiskMisuseTest, ::testing::Values(0u, 2u),
                         [](const auto& info) {
                           return info.param == 0 ? "OwnLoop" : "Threads";
                         });

// Memory may be anywhere; bytes of the disk have to be whole blocks.
TEST_P(DiskMisuseTest, UnalignedReadsFromAnotherThread) {
  std::string data(4096, 'u');
  ASSERT_EQ(
      skiff_disk_write(disk_, 0, data.data(), data.size(), 0, nullptr, nullptr),
      0);
  std::string room(4096 + 3, ' ');
  Outcome anywhere;
  Outcome offset;
  Outcome length;
  std::thread([&] {
    EXPECT_EQ(skiff_disk_read(disk_, 0, room.data() + 3, 4096, Outcome::Done,
                              &anywhere),
              0)
        << skiff_last_error();
    // Both are found out by the disk, on its thread.
    EXPECT_EQ(
        skiff_disk_read(disk_, 3, data.data(), 512, Outcome::Done, &offset), 0);
    EXPECT_EQ(
        skiff_disk_read(disk_, 0, data.data(), 100, Outcome::Done, &length), 0);
    // Who may not turn the loop cannot wait for it.
    char block[512];
    EXPECT_EQ(skiff_disk_read(disk_, 0, block, sizeof(block), nullptr, nullptr),
              GetParam() == 0 ? -EPERM : 0);
  }).join();
  ASSERT_TRUE(Await(anywhere) && Await(offset) && Await(length));
  EXPECT_EQ(anywhere.result(), 0) << anywhere.message();
  EXPECT_EQ(room.substr(3), data);
  EXPECT_EQ(offset.result(), -EINVAL);
  EXPECT_THAT(offset.message(), HasSubstr("multiples of the block size"));
  EXPECT_EQ(length.result(), -EINVAL);
}

TEST_P(DiskMisuseTest, IovecsThatDoNotAddUp) {
  std::string data(1024, 'i');
  const auto submit = [&](uint32_t op, std::vector<iovec> pieces,
                          uint64_t length) {
    skiff_io io;
    SKIFF_INIT(io);
    io.op = op;
    io.length = length;
    io.iov = pieces.data();
    io.iov_count = static_cast<uint32_t>(pieces.size());
    return skiff_disk_submit(disk_, &io, 1, nullptr);
  };
  EXPECT_EQ(submit(SKIFF_IO_WRITE, {{data.data(), 512}}, 1024), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("add up to 512"));
  EXPECT_EQ(submit(SKIFF_IO_READ, {{data.data(), 1024}}, 512), -EINVAL);
  EXPECT_EQ(submit(SKIFF_IO_READ, {}, 512), -EINVAL);
  EXPECT_EQ(submit(SKIFF_IO_COMPARE_AND_WRITE, {{data.data(), 1023}}, 511),
            -EINVAL);
  EXPECT_EQ(submit(SKIFF_IO_UNMAP, {{data.data(), 512}}, 512), -EINVAL);
  // Odd pieces that do, and empty ones.
  EXPECT_EQ(
      submit(SKIFF_IO_WRITE,
             {{data.data(), 1}, {nullptr, 0}, {data.data() + 1, 511}}, 512),
      0)
      << skiff_last_error();
}

TEST_P(DiskMisuseTest, CallsOnAThreadThatDoesNotDriveIt) {
  const int wrong = GetParam() == 0 ? -EPERM : 0;
  std::thread([&] {
    skiff_disk_stats stats;
    SKIFF_INIT(stats);
    EXPECT_EQ(skiff_disk_get_stats(disk_, &stats), wrong);
    EXPECT_EQ(skiff_disk_flush(disk_, nullptr, nullptr), wrong);
    EXPECT_EQ(skiff_disk_refresh(disk_, nullptr, nullptr), wrong);
    EXPECT_EQ(skiff_disk_reset(disk_, nullptr, nullptr), wrong);
    skiff_extent extent;
    size_t count = 0;
    EXPECT_LE(skiff_disk_get_lba_status(disk_, 0, &extent, 1, &count, nullptr,
                                        nullptr),
              wrong);
    skiff_disk* other = nullptr;
    EXPECT_EQ(skiff_disk_open(context_.get(), target_.Url(1).c_str(), nullptr,
                              nullptr, nullptr, &other),
              wrong);
    if (other != nullptr) {
      EXPECT_EQ(skiff_disk_close(other, nullptr, nullptr), 0);
    }
    // These do not wait.
    skiff_disk_info info;
    SKIFF_INIT(info);
    EXPECT_EQ(skiff_disk_get_info(disk_, &info), 0) << skiff_last_error();
    EXPECT_EQ(skiff_disk_cancel(disk_, 99), -ENOENT);
  }).join();
}

// Its handle is known before it is open, and in the callback that says so.
TEST_P(DiskMisuseTest, ClosingInTheCallbackOfItsOpening) {
  for (const std::string& url :
       {target_.Url(1), target_.Url(7),
        std::string("iscsi://127.0.0.1:1/iqn.2026-11.com.example:a/0")}) {
    skiff_disk* other = nullptr;
    Outcome opened;
    Outcome closed;
    context_.InCallback([&] {
      opened.then = [&] {
        EXPECT_EQ(skiff_disk_close(other, Outcome::Done, &closed), 0)
            << skiff_last_error();
      };
      ASSERT_EQ(skiff_disk_open(context_.get(), url.c_str(), nullptr,
                                Outcome::Done, &opened, &other),
                0)
          << skiff_last_error();
    });
    ASSERT_TRUE(Await(opened) && Await(closed));
    EXPECT_EQ(closed.result(), 0);
  }
}

struct Told {
  std::atomic<int> events = 0;
  Outcome closed;
};

TEST_P(DiskMisuseTest, ClosingInAnEvent) {
  Told told;
  skiff_disk_options options;
  SKIFF_INIT(options);
  options.event_user = &told;
  options.on_event = [](void* user, skiff_disk* disk, int, int, const char*) {
    auto* const self = static_cast<Told*>(user);
    ++self->events;
    EXPECT_EQ(skiff_disk_close(disk, Outcome::Done, &self->closed), 0)
        << skiff_last_error();
  };
  skiff_disk* other = nullptr;
  ASSERT_EQ(skiff_disk_open(context_.get(), target_.Url(1).c_str(), &options,
                            nullptr, nullptr, &other),
            0)
      << skiff_last_error();
  ASSERT_EQ(skiff_disk_reconnect(other), 0) << skiff_last_error();
  ASSERT_TRUE(Await(told.closed));
  EXPECT_EQ(told.events, 1);
  EXPECT_EQ(skiff_disk_reconnect(other), -EBADF);
}

// What waits in it is told, too.
TEST_P(DiskMisuseTest, ClosingInTheCallbackOfAnAbort) {
  std::string data(512, ' ');
  const iovec piece = {data.data(), data.size()};
  Outcome read;
  Outcome abort;
  Outcome closed;
  abort.then = [&] {
    EXPECT_EQ(skiff_disk_close(disk_, Outcome::Done, &closed), 0);
  };
  context_.InCallback([&] {
    skiff_io io;
    SKIFF_INIT(io);
    io.op = SKIFF_IO_READ;
    io.length = data.size();
    io.iov = &piece;
    io.iov_count = 1;
    io.done = Outcome::Done;
    io.user = &read;
    uint64_t id = 0;
    ASSERT_EQ(skiff_disk_submit(disk_, &io, 1, &id), 0) << skiff_last_error();
    EXPECT_EQ(skiff_disk_abort(disk_, id, nullptr, nullptr), -EDEADLK);
    ASSERT_EQ(skiff_disk_abort(disk_, id, Outcome::Done, &abort), 0);
  });
  ASSERT_TRUE(Await(read) && Await(abort) && Await(closed));
  EXPECT_EQ(abort.result(), read.result() == -ECANCELED ? 0 : -EALREADY);
  disk_ = nullptr;
}

}  // namespace
}  // namespace skiff::library
