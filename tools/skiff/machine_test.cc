#include "tools/skiff/machine.h"

#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

namespace fs = std::filesystem;

// A root directory with what the test puts there.
class MachineTest : public ::testing::Test {
 public:
  MachineTest()
      : root(fs::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  static std::string InstalledModules() {
    utsname kernel = {};
    uname(&kernel);
    return std::string("lib/modules/") + kernel.release + "/modules.dep";
  }
  static KernelModuleReport Module(const MachineReport& report,
                                   const std::string& name) {
    for (const KernelModuleReport& module : report.modules) {
      if (module.name == name) return module;
    }
    ADD_FAILURE() << "no module " << name;
    return {};
  }

  const fs::path root;
};

TEST_F(MachineTest, AnEmptyMachineHasNothing) {
  const MachineReport report = ReadMachine(root);
  EXPECT_EQ(report.limits.size(), 2u);
  EXPECT_TRUE(report.huge_pages.empty());
  EXPECT_TRUE(report.device_files.empty());
  EXPECT_EQ(Module(report, "ib_uverbs").state, "missing");
  EXPECT_NE(Module(report, "ib_uverbs").problem.find("is installed"),
            std::string::npos);
  EXPECT_EQ(Module(report, "siw").problem, "");  // Nobody needs it.
}

TEST_F(MachineTest, ModulesMayBeInstalledLoadedOrBuiltIn) {
  Write(InstalledModules(),
        "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: x\n"
        "kernel/drivers/infiniband/sw/siw/siw.ko:\n");
  fs::create_directories(root / "sys/module/rdma_cm");
  fs::create_directories(root / "sys/class/misc/rdma_cm");
  const MachineReport report = ReadMachine(root);
  EXPECT_EQ(Module(report, "ib_uverbs").state, "not loaded");
  EXPECT_NE(Module(report, "ib_uverbs").problem.find("modprobe ib_uverbs"),
            std::string::npos);
  EXPECT_EQ(Module(report, "siw").state, "not loaded");
  EXPECT_EQ(Module(report, "siw").problem, "");
  EXPECT_EQ(Module(report, "rdma_cm").state, "loaded");
  EXPECT_EQ(Module(report, "rdma_ucm").state, "loaded");
  EXPECT_EQ(Module(report, "rdma_ucm").problem, "");
  EXPECT_EQ(Module(report, "ib_core").state, "missing");
}

TEST_F(MachineTest, ReadsHugePagesOfEverySize) {
  Write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n");
  Write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n");
  Write("sys/kernel/mm/hugepages/else/nr_hugepages", "9\n");
  const auto pages = ReadMachine(root).huge_pages;
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(pages[0].page_bytes, 2u << 20);
  EXPECT_EQ(pages[0].total, 64u);
  EXPECT_EQ(pages[0].free, 60u);
  EXPECT_EQ(pages[1].page_bytes, 1u << 30);
}

TEST_F(MachineTest, FindsDeviceFiles) {
  Write("dev/infiniband/uverbs0", "");
  Write("dev/infiniband/rdma_cm", "");
  Write("dev/infiniband/umad0", "");
  const auto files = ReadMachine(root).device_files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "/dev/infiniband/rdma_cm");
  EXPECT_TRUE(files[0].usable);
  EXPECT_EQ(files[1].path, "/dev/infiniband/uverbs0");
}

TEST_F(MachineTest, TheRightToLockMemoryLiftsItsLimit) {
  Write("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  EXPECT_EQ(ReadMachine(root).limits[0].value, std::nullopt);
}

TEST(LimitTest, LittleLockedMemoryIsAProblem) {
  LimitReport report = ReportLockedMemory({8u << 20, 16u << 20}, false);
  EXPECT_EQ(report.value, 8u << 20);
  EXPECT_EQ(report.maximum, 16u << 20);
  EXPECT_NE(report.problem.find("8 MiB are few; ulimit -l unlimited"),
            std::string::npos)
      << report.problem;
  report = ReportLockedMemory({8u << 20, 16u << 20}, true);
  EXPECT_EQ(report.value, std::nullopt);
  EXPECT_EQ(report.problem, "");
  report = ReportLockedMemory({RLIM_INFINITY, RLIM_INFINITY}, false);
  EXPECT_EQ(report.value, std::nullopt);
  EXPECT_EQ(report.problem, "");
}

TEST(LimitTest, FewFilesAreAProblem) {
  EXPECT_NE(ReportOpenFiles({1024, 524288}).problem.find("ulimit -n 4096"),
            std::string::npos);
  EXPECT_NE(ReportOpenFiles({1024, 1024}).problem.find("limits.conf"),
            std::string::npos);
  EXPECT_EQ(ReportOpenFiles({20000, 20000}).problem, "");
}

}  // namespace
}  // namespace skiff::tools
