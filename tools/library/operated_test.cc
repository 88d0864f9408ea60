// What operators want of a program that runs: more of its log, or a trace.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <skiff/context.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"
#include "transport/trace/pcapng_reader.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// With that many threads.
class OperatedTest : public ::testing::TestWithParam<uint32_t> {
 public:
  OperatedTest() {
    store_.Create(server_.context);
    server_.AddLun(0, store_.backend);
  }
  ~OperatedTest() override {
    server_.Close();
    EXPECT_TRUE(server_.Await(
        [this] { return skiff_backend_close(store_.backend) == 0; }));
  }

 protected:
  TestServer server_{GetParam(), nullptr, SKIFF_CONTEXT_TRACEABLE};
  TestStore store_{TestStore::Mode::kInside, 1 << 20};
};

INSTANTIATE_TEST_SUITE_P(Contexts, OperatedTest, ::testing::Values(0u, 2u),
                         [](const auto& info) {
                           return info.param == 0 ? std::string("OwnLoop")
                                                  : std::string("Threads");
                         });

std::string FileInTestDirectory(const std::string& name) {
  const char* const directory = std::getenv("TEST_TMPDIR");
  return std::string(directory != nullptr ? directory : "/tmp") + "/" +
         std::to_string(getpid()) + name;
}

// The payload of all segments of a capture.
std::string CarriedBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto segments = transport::ReadPcapng(bytes);
  EXPECT_TRUE(segments.ok()) << segments.status();
  std::string carried;
  if (!segments.ok()) return carried;
  for (const auto& segment : *segments) {
    carried.append(segment.bytes.data(), segment.bytes.size());
  }
  return carried;
}

TEST_P(OperatedTest, ATraceBeginsAndEndsWhileConnectionsAreThere) {
  const std::string path = FileInTestDirectory("trace");
  const auto disk = server_.Disk();
  ASSERT_TRUE(disk->Open().ok());
  ASSERT_TRUE(disk->Write(0, std::string(512, '1')).ok());
  ASSERT_EQ(skiff_context_start_trace(server_.context, path.c_str()), 0)
      << skiff_last_error();
  ASSERT_TRUE(disk->Write(0, std::string(512, '2')).ok());
  EXPECT_EQ(skiff_context_start_trace(server_.context, path.c_str()), -EBUSY);
  EXPECT_THAT(skiff_last_error(), HasSubstr("already; stop it first"));
  ASSERT_EQ(skiff_context_stop_trace(server_.context), 0) << skiff_last_error();
  ASSERT_TRUE(disk->Write(0, std::string(512, '3')).ok());
  const std::string carried = CarriedBytes(path);
  EXPECT_THAT(carried, Not(HasSubstr(std::string(512, '1'))));
  EXPECT_THAT(carried, HasSubstr(std::string(512, '2')));
  EXPECT_THAT(carried, Not(HasSubstr(std::string(512, '3'))));
  struct stat file = {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);

  // What is there is not destroyed.
  EXPECT_EQ(skiff_context_start_trace(server_.context, path.c_str()), -EEXIST);
  EXPECT_EQ(CarriedBytes(path), carried);
  std::filesystem::remove(path);
}

TEST_P(OperatedTest, TracesThatCantBe) {
  EXPECT_EQ(skiff_context_stop_trace(server_.context), -ENOENT);
  EXPECT_EQ(skiff_context_start_trace(server_.context, nullptr), -EINVAL);
  EXPECT_EQ(skiff_context_start_trace(server_.context, ""), -EINVAL);
  EXPECT_EQ(skiff_context_start_trace(server_.context, "/nowhere/at/all"),
            -ENOENT);
  EXPECT_THAT(skiff_last_error(), HasSubstr("/nowhere/at/all"));
  EXPECT_EQ(skiff_context_start_trace(nullptr, "trace"), -EINVAL);
  const TestContext plain(GetParam());
  EXPECT_EQ(skiff_context_start_trace(plain.get(), "trace"), -ENOTSUP);
  EXPECT_EQ(skiff_context_stop_trace(plain.get()), -ENOTSUP);
  EXPECT_THAT(skiff_last_error(), HasSubstr("SKIFF_CONTEXT_TRACEABLE"));
}

TEST(OperatedCppTest, IsTheSame) {
  ContextOptions options;
  options.flags = SKIFF_CONTEXT_TRACEABLE;
  Result<Context> context = Context::Create(options);
  ASSERT_TRUE(context.ok()) << context.status().message();
  const std::string path = FileInTestDirectory("empty");
  EXPECT_TRUE(context->StartTrace(path.c_str()).ok());
  EXPECT_TRUE(context->StopTrace().ok());
  EXPECT_EQ(CarriedBytes(path), "");
  std::filesystem::remove(path);
  EXPECT_FALSE(context->StopTrace().ok());
  EXPECT_TRUE(context->SetLogLevel(SKIFF_LOG_DEBUG).ok());
  EXPECT_FALSE(context->SetLogLevel(7).ok());
}

TEST_P(OperatedTest, TheLevelOfTheLogChanges) {
  const auto log_in = [this] { return server_.Disk()->Open().ok(); };
  ASSERT_TRUE(log_in());
  EXPECT_TRUE(
      server_.Await([this] { return server_.Lines("logged in") == 1; }));
  ASSERT_EQ(skiff_context_set_log_level(server_.context, SKIFF_LOG_WARNING), 0);
  ASSERT_TRUE(log_in());
  ASSERT_EQ(skiff_context_set_log_level(server_.context, SKIFF_LOG_INFO), 0);
  ASSERT_TRUE(log_in());
  EXPECT_TRUE(
      server_.Await([this] { return server_.Lines("logged in") == 2; }));
  EXPECT_EQ(skiff_context_set_log_level(server_.context, 0), -EINVAL);
  EXPECT_EQ(skiff_context_set_log_level(server_.context, 5), -EINVAL);
  EXPECT_THAT(skiff_last_error(), HasSubstr("the level is 5"));
}

}  // namespace
}  // namespace skiff::library
