// Checks that every system library compiles, links and loads in the build
// configuration at hand.

#include <benchmark/benchmark.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <isa-l.h>
#include <liburing.h>
#include <openssl/evp.h>
#include <rdma/fabric.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tools/bazel/toolchain_test.pb.h"

ABSL_FLAG(int, toolchain_probe, 7, "A flag for the test to find.");

namespace skiff::tools {
namespace {

using ::testing::ElementsAre;

TEST(ToolchainTest, Abseil) {
  absl::flat_hash_map<std::string, absl::StatusOr<int>> results;
  results.emplace("good", 1);
  results.emplace("bad", absl::NotFoundError(absl::StrCat("no ", "such")));
  EXPECT_EQ(*results.at("good"), 1);
  EXPECT_EQ(results.at("bad").status().message(), "no such");
  EXPECT_EQ(absl::GetFlag(FLAGS_toolchain_probe), 7);
  EXPECT_NE(absl::FindCommandLineFlag("toolchain_probe"), nullptr);
}

TEST(ToolchainTest, Protobuf) {
  ToolchainProbe probe;
  probe.set_name("probe");
  probe.add_values(3);
  probe.add_values(5);
  ToolchainProbe parsed;
  ASSERT_TRUE(parsed.ParseFromString(probe.SerializeAsString()));
  EXPECT_EQ(parsed.name(), "probe");
  EXPECT_THAT(parsed.values(), ElementsAre(3, 5));
}

TEST(ToolchainTest, IsaL) {
  // The check value of CRC32C for "123456789".
  std::string digits = "123456789";
  EXPECT_EQ(crc32_iscsi(reinterpret_cast<unsigned char*>(digits.data()),
                        static_cast<int>(digits.size()), 0xffffffff) ^
                0xffffffff,
            0xe3069283);
}

TEST(ToolchainTest, Crypto) { EXPECT_EQ(EVP_MD_get_size(EVP_sha256()), 32); }

TEST(ToolchainTest, RdmaLibrariesLoad) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED),
               "RDMA_CM_EVENT_ESTABLISHED");
  EXPECT_GE(fi_version(), static_cast<uint32_t>(FI_VERSION(1, 17)));
}

TEST(ToolchainTest, LibUringKnowsItsVersion) {
  std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe(), &io_uring_free_probe);
  // A kernel may refuse io_uring altogether; then there is no probe.
  if (probe != nullptr) {
    EXPECT_NE(io_uring_opcode_supported(probe.get(), IORING_OP_NOP), 0);
  }
}

TEST(ToolchainTest, Benchmark) {
  EXPECT_GE(benchmark::CPUInfo::Get().num_cpus, 1);
}

TEST(ToolchainTest, Threads) {
  int value = 0;
  std::thread thread([&value] { value = 1; });
  thread.join();
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace skiff::tools
