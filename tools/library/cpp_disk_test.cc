#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <skiff/skiff.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/library/cpp_test_util.h"

namespace skiff::library {
namespace {

class CppDiskTest : public ::testing::Test {
 protected:
  Context context_ = TwoThreads();
  CppServer server_{
      context_,
      RamBackend::Create(context_, RamOptions(CppServer::kSize)).value()};
};

TEST_F(CppDiskTest, BlocksUntilDataAreWrittenAndRead) {
  Disk disk = Disk::Open(context_, server_.Url().c_str()).value();
  const std::vector<std::byte> out(4096, std::byte{7});
  EXPECT_TRUE(disk.Write(8192, out, Durability::kStable).ok());
  EXPECT_TRUE(disk.Flush().ok());
  std::vector<std::byte> in(4096);
  EXPECT_TRUE(disk.Read(8192, in).ok());
  EXPECT_EQ(in, out);
  EXPECT_EQ(disk.Info()->size_bytes, CppServer::kSize);
  EXPECT_GE(disk.Stats()->ios, 3u);
}

TEST_F(CppDiskTest, CallsMoveOnlyCallables) {
  Ended opened, written, read, closed;
  Disk disk = Disk::Open(context_, server_.Url().c_str(), {}, opened.Callable())
                  .value();
  ASSERT_TRUE(opened.Wait().ok());
  const std::string out(512, 'x');
  std::string in(512, ' ');
  ASSERT_TRUE(
      disk.Write(0, out, Durability::kFlushed, written.Callable()).ok());
  EXPECT_TRUE(written.Wait().ok());
  ASSERT_TRUE(disk.Read(0, in, read.Callable()).ok());
  EXPECT_TRUE(read.Wait().ok());
  EXPECT_EQ(in, out);
  ASSERT_TRUE(disk.Close(closed.Callable()).ok());
  EXPECT_TRUE(closed.Wait().ok());
  EXPECT_EQ(disk.get(), nullptr);
}

TEST_F(CppDiskTest, ScattersAndGathers) {
  Disk disk = Disk::Open(context_, server_.Url().c_str()).value();
  std::string a(512, 'a'), b(512, 'b');
  std::vector<iovec> both = {{a.data(), a.size()}, {b.data(), b.size()}};
  ASSERT_TRUE(disk.Submit(Io::Write(0, both)).ok());
  std::string in(1024, ' ');
  ASSERT_TRUE(disk.Read(0, in).ok());
  EXPECT_EQ(in, a + b);

  // What is there is "a"; it becomes "b", and is "a" no more.
  ASSERT_TRUE(disk.Submit(Io::CompareAndWrite(0, both)).ok());
  EXPECT_EQ(disk.Submit(Io::CompareAndWrite(0, both)).error(), EILSEQ);
  ASSERT_TRUE(disk.Submit(Io::WriteZeroes(512, 512)).ok());
  ASSERT_TRUE(disk.Read(0, in).ok());
  EXPECT_EQ(in, b + std::string(512, '\0'));
}

TEST_F(CppDiskTest, SaysWhatIsWrong) {
  const auto bad = Disk::Open(context_, "nonsense");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().error(), EINVAL);
  EXPECT_NE(bad.status().message(), "");
  EXPECT_THROW(static_cast<void>(bad.value()), std::system_error);
  EXPECT_EQ(Disk::Open(context_, server_.Url(5).c_str()).status().error(),
            ENOENT);

  Disk disk = Disk::Open(context_, server_.Url().c_str()).value();
  std::vector<std::byte> odd(100);
  Status status = disk.Read(0, odd);
  EXPECT_EQ(status.error(), EINVAL);
  EXPECT_EQ(status.code(), std::errc::invalid_argument);
  std::vector<std::byte> block(512);
  EXPECT_EQ(disk.Read(CppServer::kSize, block).error(), ERANGE);
  ASSERT_TRUE(disk.Close().ok());
  EXPECT_EQ(disk.Read(0, block).error(), EINVAL);
}

TEST_F(CppDiskTest, ACallThatFailsDropsItsCallable) {
  Disk disk = Disk::Open(context_, server_.Url().c_str()).value();
  std::promise<void> promise;
  std::future<void> future = promise.get_future();
  std::vector<std::byte> block(512);
  ASSERT_TRUE(disk.Close().ok());
  const Status status = disk.Read(
      0, block,
      [held = std::move(promise)](const Status&) mutable { held.set_value(); });
  EXPECT_EQ(status.error(), EINVAL);
  EXPECT_THROW(future.get(), std::future_error);
}

TEST_F(CppDiskTest, CanBeDestroyedInItsCallback) {
  std::optional<Disk> disk =
      Disk::Open(context_, server_.Url().c_str()).value();
  std::vector<std::byte> block(512);
  Ended read;
  ASSERT_TRUE(disk->Read(0, block,
                         [&disk, done = read.Callable()](Status end) mutable {
                           disk.reset();
                           done(std::move(end));
                         })
                  .ok());
  EXPECT_TRUE(read.Wait().ok());
  EXPECT_FALSE(disk.has_value());
}

TEST_F(CppDiskTest, FindsTargets) {
  const std::string portal =
      "iscsi://" + server_.portal.substr(server_.portal.find("//") + 2);
  const auto found = Discover(context_, portal.c_str()).value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, CppServer::kName);

  // And without blocking, by a callable that cannot be copied.
  std::promise<Result<std::vector<FoundTarget>>> told;
  auto answer = told.get_future();
  ASSERT_TRUE(Discover(context_, portal.c_str(), {},
                       [told = std::move(told)](auto result) mutable {
                         told.set_value(std::move(result));
                       })
                  .ok());
  const auto again = answer.get();
  ASSERT_TRUE(again.ok()) << again.status().message();
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ((*again)[0].name, CppServer::kName);
}

TEST_F(CppDiskTest, SaysWhyItFoundNoTargets) {
  std::promise<Result<std::vector<FoundTarget>>> told;
  auto answer = told.get_future();
  const auto tell = [&told](auto result) { told.set_value(std::move(result)); };
  EXPECT_FALSE(Discover(context_, "no url", {}, tell).ok())
      << "the call itself fails, and tells nobody else";
  ASSERT_TRUE(Discover(context_, "iscsi://127.0.0.1:1", {}, tell).ok());
  EXPECT_FALSE(answer.get().ok());
}

TEST_F(CppDiskTest, SendsCommands) {
  Disk disk = Disk::Open(context_, server_.Url().c_str()).value();
  const unsigned char test_unit_ready[6] = {};
  skiff_command command;
  SKIFF_INIT(command);
  command.cdb = test_unit_ready;
  command.cdb_length = sizeof(test_unit_ready);
  skiff_command_result result;
  ASSERT_TRUE(disk.Command(command, &result).ok());
  EXPECT_EQ(result.answered, 1u);
  EXPECT_EQ(result.status, 0u);
}

TEST_F(CppDiskTest, WorksWithALoopOfTheCallers) {
  Context mine = Context::Create().value();
  EXPECT_GE(mine.fd(), 0);
  Disk disk = Disk::Open(mine, server_.Url().c_str()).value();
  Buffer buffer = Buffer::Create(mine, 4096).value();
  bool done = false;
  ASSERT_TRUE(disk.Read(0, buffer,
                        [&](const Status& end) {
                          EXPECT_TRUE(end.ok()) << end.message();
                          done = true;
                        })
                  .ok());
  while (!done) ASSERT_GE(mine.Wait(10000), 0);

  bool posted = false;
  ASSERT_TRUE(mine.Post([&] { posted = true; }).ok());
  while (!posted) ASSERT_GE(mine.Wait(10000), 0);
  // Something of it is open.
  EXPECT_EQ(mine.Close().error(), EBUSY);
}

}  // namespace
}  // namespace skiff::library
