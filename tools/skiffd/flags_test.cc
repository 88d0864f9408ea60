#include "tools/skiffd/flags.h"

#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiffd/config_test_util.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FlagsTest : public ConfigTest {};

TEST_F(FlagsTest, FlagsWinOverTheFile) {
  const std::string path = directory_ + "/conf";
  std::ofstream(path) << kGoodTarget
                      << "log_level: \"error\" reactors { count: 5 }\n";
  Flags flags;
  flags.config_file = path;
  flags.reactors = 3;
  flags.spin = "always";
  flags.queue_depth = 9;
  flags.log_level = "debug";
  ASSERT_THAT(FlagProblems(flags), IsEmpty());
  EXPECT_EQ(config_.reactors.count, 3);
  EXPECT_EQ(config_.reactors.reactor.spin, absl::InfiniteDuration());
  EXPECT_EQ(config_.server.limits.session.queue_depth, 9u);
  EXPECT_EQ(config_.log_level, protocol::LogLevel::kDebug);

  flags.reactors = 0;
  flags.queue_depth = 0;
  flags.spin = "x";
  EXPECT_THAT(FlagProblems(flags),
              ElementsAre("--reactors: count is 0; it can be 1 to 1024",
                          "--spin: spin: 'x' does not say how long to poll "
                          "before sleeping: write auto, auto:100us (at most "
                          "a minute), never, always, or a duration such as "
                          "50us",
                          "--queue-depth: queue_depth is 0; it can be 1 to "
                          "8192"));
  flags = {};
  flags.config_file = path;
  flags.log_level = "loud";
  EXPECT_THAT(FlagProblems(flags),
              ElementsAre("--log-level: 'loud' is no log level; write error, "
                          "warning, info or debug"));
}

TEST_F(FlagsTest, QuickFormGivesLunsToTheTargetBefore) {
  Flags flags;
  const char* const argv[] = {"skiffd",   "--lun=ram:1MiB",
                              "--listen", "tcp://127.0.0.1:0",
                              "--target", "iqn.2026-11.com.example:a"};
  ASSERT_EQ(ParseFlags(6, argv, &flags), std::nullopt);
  EXPECT_THAT(FlagProblems(flags),
              ElementsAre("--lun 'ram:1MiB': comes before any --target; a "
                          "--lun belongs to the --target before it"));

  flags = {};
  const char* const good[] = {
      "skiffd",
      "--target",
      "iqn.2026-11.com.example:a",
      "--lun",
      "ram:1MiB",
      "--lun=ram:2MiB,block_size=4096,lun=9,vendor=V",
      "--listen",
      "tcp://127.0.0.1:0",
      "--target",
      "iqn.2026-11.com.example:b",
      "--lun",
      "ram:3MiB,read_only,thin=off,serial=X,product=P,revision=R"};
  ASSERT_EQ(ParseFlags(12, good, &flags), std::nullopt);
  ASSERT_THAT(FlagProblems(flags), IsEmpty());
  ASSERT_EQ(config_.targets.size(), 2u);
  ASSERT_EQ(config_.targets[0].luns.size(), 2u);
  EXPECT_EQ(config_.targets[0].luns[1].options.lun, 9u);
  EXPECT_EQ(config_.targets[0].luns[1].options.vendor, "V");
  ASSERT_EQ(config_.targets[1].luns.size(), 1u);
  const LunConfig& last = config_.targets[1].luns[0];
  EXPECT_EQ(last.options.serial, "X");
  EXPECT_EQ(last.options.product, "P");
  EXPECT_EQ(last.options.revision, "R");
  EXPECT_EQ(std::get<scsi::RamBackendOptions>(last.medium).size_bytes,
            3u << 20);
  EXPECT_TRUE(std::get<scsi::RamBackendOptions>(last.medium).read_only);
  EXPECT_FALSE(std::get<scsi::RamBackendOptions>(last.medium).thin);
}

TEST_F(FlagsTest, QuickFormServesFiles) {
  ASSERT_THAT(
      QuickProblems({{QuickFlag::Kind::kTarget, "iqn.2026-11.com.example:a"},
                     {QuickFlag::Kind::kLun,
                      "file:DIR/new,size=1MiB,direct,block_size=4096"}}),
      IsEmpty());
  const auto& file =
      std::get<scsi::FileBackendOptions>(config_.targets[0].luns[0].medium);
  EXPECT_EQ(file.path, directory_ + "/new");
  EXPECT_EQ(file.size_bytes, 1u << 20);
  EXPECT_TRUE(file.direct);
}

TEST_F(FlagsTest, QuickFormExplainsEachMistake) {
  const std::string syntax =
      "write ram:SIZE or file:PATH, then perhaps ,size=SIZE "
      ",block_size=512|4096 ,read_only ,direct ,huge_pages=on|off "
      ",thin=on|off ,lun=N ,serial=TEXT ,vendor=TEXT ,product=TEXT "
      ",revision=TEXT";
  const struct {
    std::string lun;
    std::string problem;
  } cases[] = {
      {"1GiB", syntax},
      {"ram:", syntax},
      {"tape:x", "'tape' is no kind of medium; " + syntax},
      {"ram:1GiB,direct", "direct is for file: only"},
      {"file:/x,huge_pages=on", "huge_pages= is for ram: only"},
      {"ram:1GiB,huge_pages=yes", "huge_pages=yes; it can be on or off"},
      {"file:/x,thin=off", "thin= is for ram: only"},
      {"ram:1GiB,thin=no", "thin=no; it can be on or off"},
      {"ram:1GiB,size=2GiB", "size= is for file: only; write ram:SIZE"},
      {"ram:1GiB,fast", "'fast' is no option; " + syntax},
      {"ram:1GiB,speed=9", "'speed' is no option; " + syntax},
      {"ram:1GiB,lun=x", "lun=x is not a number"},
      {"ram:1GiB,lun=20000", "lun is 20000; it can be 0 to 16383"},
      {"file:DIR/none",
       "DIR/none does not exist; correct the path, or give a "
       "size to have it created"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        QuickProblems({{QuickFlag::Kind::kTarget, "iqn.2026-11.com.example:a"},
                       {QuickFlag::Kind::kLun, c.lun}}),
        ElementsAre(absl::StrCat("--lun '", c.lun, "': ", c.problem)));
  }
  EXPECT_THAT(
      QuickProblems({{QuickFlag::Kind::kListen, "tcp://:x"},
                     {QuickFlag::Kind::kTarget, "iqn.2026-11.com.example:a"},
                     {QuickFlag::Kind::kLun, "ram:1MiB"}}),
      ElementsAre(::testing::StartsWith("--listen 'tcp://:x': ")));
  EXPECT_THAT(QuickProblems({}),
              ElementsAre("command line: there is no target; add at least "
                          "one, with a name and a LUN"));
}

TEST(ParseFlagsTest, TellsUsageFromHelp) {
  Flags flags;
  const char* const help[] = {"skiffd", "--help"};
  EXPECT_EQ(ParseFlags(2, help, &flags), kExitOk);
  const char* const unknown[] = {"skiffd", "--lunn", "x"};
  EXPECT_EQ(ParseFlags(3, unknown, &flags), kExitUsage);
  const char* const both[] = {"skiffd", "--config", "f", "--lun", "ram:1"};
  EXPECT_EQ(ParseFlags(5, both, &flags), kExitUsage);
}

}  // namespace
}  // namespace skiff::tools::skiffd
