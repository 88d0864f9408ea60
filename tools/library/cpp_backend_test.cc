#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <skiff/skiff.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/library/cpp_test_util.h"

namespace skiff::library {
namespace {

// Memory; what happens to a request is the test's.
class TestBackend : public Backend {
 public:
  enum class Mode : uint8_t { kComplete, kThread, kDrop };

  ~TestBackend() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Submit(Request request) override {
    ++requests;
    if (mode == Mode::kDrop) return;
    if (mode == Mode::kComplete) return Finish(std::move(request));
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.emplace_back([this, held = std::move(request)]() mutable {
      Finish(std::move(held));
    });
  }
  void Unused() override { ++unused; }

  std::atomic<Mode> mode = Mode::kComplete;
  std::atomic<int> requests = 0;
  std::atomic<int> unused = 0;

 private:
  void Finish(Request request) {
    request.Complete(request.CopyWith(bytes_.data()));
    request.Complete();  // Does nothing.
  }

  std::vector<char> bytes_ = std::vector<char>(CppServer::kSize);
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

class CppBackendTest : public ::testing::Test {
 protected:
  Context context_ = TwoThreads();
  std::shared_ptr<TestBackend> backend_ = std::make_shared<TestBackend>();
  CppServer server_{context_, Medium::Create(context_, backend_,
                                             BackendOptions(CppServer::kSize))
                                  .value()};
  Disk disk_ = Disk::Open(context_, server_.Url().c_str()).value();
  std::string in_ = std::string(4096, ' ');
};

TEST_F(CppBackendTest, CompletesInsideAndOnOtherThreads) {
  for (const auto mode :
       {TestBackend::Mode::kComplete, TestBackend::Mode::kThread}) {
    backend_->mode = mode;
    const std::string out(4096, mode == TestBackend::Mode::kThread ? 't' : 'i');
    ASSERT_TRUE(disk_.Write(4096, out).ok());
    ASSERT_TRUE(disk_.Read(4096, in_).ok());
    EXPECT_EQ(in_, out);
  }
  EXPECT_GE(backend_->requests, 4);
}

TEST_F(CppBackendTest, ARequestThatIsDroppedFails) {
  backend_->mode = TestBackend::Mode::kDrop;
  EXPECT_EQ(disk_.Read(0, in_).error(), EIO);
}

TEST_F(CppBackendTest, Resizes) {
  ASSERT_TRUE(server_.medium.Resize(CppServer::kSize / 2).ok());
  Status status = disk_.Refresh();
  if (!status.ok()) status = disk_.Refresh();  // After the unit attention.
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(disk_.Info()->size_bytes, CppServer::kSize / 2);
}

TEST_F(CppBackendTest, RemovesLogicalUnitsBeforeTheirMedia) {
  EXPECT_EQ(server_.medium.Close().error(), EBUSY);
  Ended removed;
  ASSERT_TRUE(server_.target.RemoveLun(0, removed.Callable()).ok());
  EXPECT_TRUE(removed.Wait().ok());
  EXPECT_EQ(backend_->unused, 1);
  EXPECT_TRUE(server_.medium.Close().ok());
  EXPECT_EQ(backend_.use_count(), 1);
  EXPECT_EQ(server_.target.RemoveLun(0).error(), ENOENT);
}

TEST_F(CppBackendTest, CountsAndDropsSessions) {
  ASSERT_TRUE(disk_.Read(0, in_).ok());
  const auto luns = server_.target.Luns().value();
  ASSERT_EQ(luns.size(), 1u);
  EXPECT_EQ(luns[0].medium_words, "callbacks");
  EXPECT_EQ(luns[0].size_bytes, CppServer::kSize);
  EXPECT_EQ(luns[0].counts.reads, 1u);
  EXPECT_EQ(luns[0].counts.read_bytes, in_.size());
  EXPECT_EQ(luns[0].counts.writes, 0u);
  EXPECT_GT(luns[0].counts.others, 0u) << "INQUIRY and its like";

  std::promise<Result<std::vector<SessionInfo>>> told;
  ASSERT_TRUE(
      server_.server
          .Sessions([&told](auto result) { told.set_value(std::move(result)); })
          .ok());
  EXPECT_EQ(told.get_future().get().value().size(), 1u);
  const auto sessions = server_.server.Sessions().value();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].target, CppServer::kName);
  EXPECT_GE(sessions[0].bytes_out, in_.size());
  EXPECT_EQ(sessions[0].counts.reads, 1u);
  EXPECT_EQ(sessions[0].counts.read_bytes, in_.size());
  ASSERT_TRUE(server_.server.DropSession(sessions[0].id).ok());
  EXPECT_EQ(server_.target.Luns().value()[0].counts.reads, 1u)
      << "the session is gone, and its reads are not";
  EXPECT_EQ(server_.server.DropSession(~uint64_t{0}).error(), ENOENT);
}

TEST_F(CppBackendTest, RemovesTargetsAndPortals) {
  EXPECT_EQ(server_.target.Close().error(), EBUSY);
  EXPECT_EQ(server_.server.AddTarget(server_.target).error(), EEXIST);
  EXPECT_TRUE(server_.server.ClosePortal(server_.portal.c_str()).ok());
  EXPECT_EQ(server_.server.ClosePortal(server_.portal.c_str()).error(), ENOENT);
  EXPECT_TRUE(server_.server.RemoveTarget(server_.target, 0).ok());
  EXPECT_TRUE(server_.target.Close().ok());
}

TEST_F(CppBackendTest, RefusesNoBackend) {
  EXPECT_EQ(
      Medium::Create(context_, nullptr, BackendOptions(512)).status().error(),
      EINVAL);
}

// A medium that goes too early stays for those who use it, and its context,
// too: the log is told.
TEST(CppLifetimeTest, AMediumInUseStays) {
  auto backend = std::make_shared<TestBackend>();
  std::string log;
  ContextOptions options;  // The test's thread is the only one.
  options.log_level = SKIFF_LOG_ERROR;
  options.log = [&log](int, const char* line) { log += line; };
  {
    Context context = Context::Create(options).value();
    Target target = Target::Create(context, CppServer::kName).value();
    {
      Medium medium =
          Medium::Create(context, backend, BackendOptions(CppServer::kSize))
              .value();
      ASSERT_TRUE(target.AddLun(0, medium).ok());
    }
    EXPECT_EQ(backend.use_count(), 2);
    EXPECT_EQ(context.Close().error(), EBUSY);
  }
  EXPECT_EQ(backend.use_count(), 2);
  EXPECT_NE(log, "");
}

TEST(CppLifetimeTest, ServesFiles) {
  const std::string path = ::testing::TempDir() + "/cpp_backend_test.image";
  std::remove(path.c_str());
  Context context = TwoThreads();
  EXPECT_EQ(
      FileBackend::Create(context, FileOptions(path.c_str())).status().error(),
      ENOENT);
  FileOptions options(path.c_str());
  options.size_bytes = CppServer::kSize;
  CppServer server(context, FileBackend::Create(context, options).value());
  Disk disk = Disk::Open(context, server.Url().c_str()).value();
  const std::string out(512, 'f');
  std::string in(512, ' ');
  ASSERT_TRUE(disk.Write(0, out).ok());
  ASSERT_TRUE(disk.Read(0, in).ok());
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace skiff::library
