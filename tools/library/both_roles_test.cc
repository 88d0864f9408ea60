// Both roles of the C interface, in one context and in two.

#include <cerrno>
#include <cstdint>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

constexpr uint64_t kSize = 4 << 20;

std::string UrlOf(const TestServer& server) {
  return "iscsi" + server.portal.substr(server.portal.find(':')) + "/" +
         TestServer::kName + "/0";
}

// With that many threads, and storage that answers so.
class BothRolesTest
    : public ::testing::TestWithParam<std::tuple<uint32_t, TestStore::Mode>> {
 public:
  BothRolesTest()
      : server_(std::get<0>(GetParam())),
        store_(std::get<1>(GetParam()), kSize) {
    store_.Create(server_.context);
    server_.AddLun(0, store_.backend);
  }
  ~BothRolesTest() override {
    EXPECT_EQ(skiff_target_remove_lun(server_.target, 0, nullptr, nullptr), 0)
        << skiff_last_error();
    EXPECT_EQ(skiff_backend_close(store_.backend), 0) << skiff_last_error();
  }

 protected:
  TestServer server_;
  TestStore store_;
};

INSTANTIATE_TEST_SUITE_P(
    Contexts, BothRolesTest,
    ::testing::Combine(::testing::Values(0u, 2u),
                       ::testing::Values(TestStore::Mode::kInside,
                                         TestStore::Mode::kThread)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == 0 ? "OwnLoop" : "Threads") +
             (std::get<1>(info.param) == TestStore::Mode::kInside ? "Inside"
                                                                  : "Later");
    });

int CompareAndWrite(skiff_disk* disk, const std::string& expected,
                    const std::string& data) {
  std::string both = expected + data;
  const iovec piece = {both.data(), both.size()};
  skiff_io io;
  SKIFF_INIT(io);
  io.op = SKIFF_IO_COMPARE_AND_WRITE;
  io.length = expected.size();
  io.iov = &piece;
  io.iov_count = 1;
  return skiff_disk_submit(disk, &io, 1, nullptr);
}

// Calls that wait drive both ends.
TEST_P(BothRolesTest, ADiskOfTheSameContext) {
  skiff_disk* disk = nullptr;
  ASSERT_EQ(skiff_disk_open(server_.context, UrlOf(server_).c_str(), nullptr,
                            nullptr, nullptr, &disk),
            0)
      << skiff_last_error();
  const std::string data(64 << 10, 'd');
  EXPECT_EQ(skiff_disk_write(disk, 4096, data.data(), data.size(), 0, nullptr,
                             nullptr),
            0)
      << skiff_last_error();
  std::string back(data.size(), '\0');
  EXPECT_EQ(
      skiff_disk_read(disk, 4096, back.data(), back.size(), nullptr, nullptr),
      0)
      << skiff_last_error();
  EXPECT_TRUE(back == data);
  EXPECT_EQ(skiff_disk_flush(disk, nullptr, nullptr), 0);
  EXPECT_EQ(store_.flushes(), 1);
  // The store cannot compare: the library does.
  EXPECT_EQ(
      CompareAndWrite(disk, std::string(512, '\0'), std::string(512, 'n')), 0)
      << skiff_last_error();
  EXPECT_EQ(
      CompareAndWrite(disk, std::string(512, '\0'), std::string(512, 'o')),
      -EILSEQ);
  store_.error = -ENOSPC;
  EXPECT_EQ(skiff_disk_write(disk, 0, data.data(), 512, 0, nullptr, nullptr),
            -ENOSPC);
  store_.error = 0;
  EXPECT_EQ(skiff_backend_resize(store_.backend, kSize / 2), 0);
  skiff_disk_info info;
  SKIFF_INIT(info);
  EXPECT_EQ(skiff_disk_refresh(disk, nullptr, nullptr), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_disk_get_info(disk, &info), 0);
  EXPECT_EQ(info.size_bytes, kSize / 2);
  EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
}

// The thread of one waits for what those of the other do.
TEST(TwoContextsTest, ADiskOfAnotherContext) {
  TestServer server(2);
  TestStore store(TestStore::Mode::kThread, kSize);
  store.Create(server.context);
  server.AddLun(0, store.backend);
  {
    const TestContext other(0);
    skiff_disk* disk = nullptr;
    ASSERT_EQ(skiff_disk_open(other.get(), UrlOf(server).c_str(), nullptr,
                              nullptr, nullptr, &disk),
              0)
        << skiff_last_error();
    char block[512];
    EXPECT_EQ(skiff_disk_read(disk, 0, block, sizeof(block), nullptr, nullptr),
              0);
    EXPECT_EQ(skiff_disk_close(disk, nullptr, nullptr), 0);
  }
  EXPECT_EQ(skiff_target_remove_lun(server.target, 0, nullptr, nullptr), 0)
      << skiff_last_error();
  EXPECT_EQ(skiff_backend_close(store.backend), 0) << skiff_last_error();
}

}  // namespace
}  // namespace skiff::library
