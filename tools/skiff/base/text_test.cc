#include "tools/skiff/base/text.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiff/base/json.h"
#include "tools/skiff/progress.h"

namespace skiff::tools {
namespace {

using ::testing::EndsWith;

TEST(FormatTableTest, AlignsNumbersToTheRight) {
  EXPECT_EQ(FormatTable({{"NAME", "SIZE", "WHAT"},
                         {"a", "1", "x"},
                         {"long name", "1,000", "y"}}),
            "NAME        SIZE  WHAT\n"
            "a              1  x\n"
            "long name  1,000  y\n");
  EXPECT_EQ(FormatTable({}), "");
}

TEST(WithCommasTest, GroupsThousands) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
}

TEST(FirstFewTest, NamesSixteen) {
  EXPECT_EQ(FirstFew({}, "ls lists"), "none");
  EXPECT_EQ(FirstFew({"a", "b"}, "ls lists"), "a, b");
  const std::vector<std::string> names(16, "a");
  EXPECT_EQ(FirstFew(names, "ls lists"), absl::StrJoin(names, ", "));
  EXPECT_EQ(FirstFew(std::vector<std::string>(5000, "a"), "ls lists"),
            absl::StrCat(absl::StrJoin(names, ", "),
                         " and 4984 more (ls lists them)"));
}

TEST(ProgressLineTest, TellsWhatIsKnown) {
  EXPECT_EQ(
      ProgressLine("copying", 512 << 20, uint64_t{1} << 30, absl::Seconds(1)),
      "copying  50 %  512 MiB of 1 GiB  537 MB/s  1 s left");
  EXPECT_EQ(ProgressLine("copying", 1 << 20, std::nullopt, absl::Seconds(1)),
            "copying  1 MiB  1 MB/s");
  EXPECT_EQ(ProgressLine("copying", 0, 1024, absl::ZeroDuration()),
            "copying   0 %  0 B of 1 KiB  0 MB/s");
}

TEST(TextTest, ShowsAllOfASession) {
  SessionReport report;
  report.target = "iqn.a";
  report.peer = "192.0.2.1:3260";
  report.transport = "verbs";
  report.data_model = "iSER";
  report.dialect = "as deployed";
  report.device = "siw0";
  report.remote_invalidation = true;
  report.fallbacks = {"slower than it could be"};
  report.keys = {{"InitialR2T", "Yes"}, {"ImmediateData", "No"}};
  report.commands = 3;
  report.retries = 2;
  report.reconnects = 1;
  report.counters = {{"pdus_in", 4}, {"pdus_out", 5}};
  EXPECT_EQ(ToText(report),
            "iqn.a at 192.0.2.1:3260: iSER over verbs\n"
            "  iSER: as deployed\n"
            "  device siw0, remote invalidation yes\n"
            "  slower than it could be\n"
            "  InitialR2T=Yes ImmediateData=No\n"
            "  commands=3 retries=2 reconnects=1\n"
            "  pdus_in=4 pdus_out=5\n");
  report.target.clear();
  report.dialect.clear();
  report.device.clear();
  report.fallbacks.clear();
  EXPECT_EQ(ToText(report),
            "discovery session at 192.0.2.1:3260: iSER over verbs\n"
            "  InitialR2T=Yes ImmediateData=No\n"
            "  commands=3 retries=2 reconnects=1\n"
            "  pdus_in=4 pdus_out=5\n");
}

ListReport TwoTargets() {
  ListReport report;
  LunReport good;
  good.lun = 0;
  good.size_bytes = 1 << 30;
  good.block_size = 512;
  good.vendor = "SKIFF";
  good.product = "SKIFF DISK";
  good.revision = "1.0";
  good.serial = "S1";
  LunReport bad;
  bad.lun = 3;
  bad.problem = "NOT READY";
  report.targets.push_back({"iqn.a", "", {good, bad}});
  report.targets.push_back({"iqn.b", "login failed", {}});
  return report;
}

TEST(TextTest, ListsLunsAndProblems) {
  EXPECT_EQ(ToText(TwoTargets()),
            "TARGET  LUN  SIZE   BLOCK  VENDOR  PRODUCT     REVISION  SERIAL\n"
            "iqn.a     0  1 GiB    512  SKIFF   SKIFF DISK       1.0  S1\n"
            "iqn.a     3  -\n"
            "iqn.b     -\n"
            "iqn.a LUN 3: NOT READY\n"
            "iqn.b: login failed\n");
  EXPECT_TRUE(TwoTargets().incomplete());
  EXPECT_FALSE(ListReport().incomplete());
  EXPECT_EQ(ToText(ListReport()), "no targets\n");
}

TEST(JsonTest, ListsLunsAndProblems) {
  EXPECT_EQ(ToJson(TwoTargets()), R"({
  "targets": [
    {
      "name": "iqn.a",
      "luns": [
        {
          "lun": 0,
          "size": 1073741824,
          "block_size": 512,
          "vendor": "SKIFF",
          "product": "SKIFF DISK",
          "revision": "1.0",
          "serial": "S1"
        },
        {
          "lun": 3,
          "problem": "NOT READY"
        }
      ]
    },
    {
      "name": "iqn.b",
      "luns": [],
      "problem": "login failed"
    }
  ]
})");
}

TEST(JsonTest, SurvivesTextThatIsNoUtf8) {
  EXPECT_EQ(ToJson(ErrorReport{1, "a\xff\"b"}),
            "{\n  \"error\": {\n    \"exit_code\": 1,\n    \"message\": "
            "\"a\xef\xbf\xbd\\\"b\"\n  }\n}");
}

TEST(TextTest, ShowsFacts) {
  FactsReport report;
  report.sections.push_back(
      {"limits",
       "Limits",
       {{"max", "maximum", uint64_t{8}, "blocks"},
        {"size", "size", uint64_t{4096}, "B"},
        {"thin", "thin", true, ""},
        {"pages", "pages", std::vector<std::string>{"00h", "80h"}, ""},
        {"name", "name", std::string("x"), ""}}});
  EXPECT_EQ(ToText(report),
            "Limits\n"
            "  maximum:  8 blocks\n"
            "  size:     4096 bytes (4 KiB)\n"
            "  thin:     yes\n"
            "  pages:    00h, 80h\n"
            "  name:     x\n");
}

TEST(TextTest, ShowsPerf) {
  PerfReport report;
  report.rw = "randread";
  report.io_bytes = 4096;
  report.depth = 32;
  report.jobs = 1;
  report.seconds = 10;
  report.data_model = "iSCSI";
  report.transport = "tcp";
  report.read = {1234567,
                 123456.7,
                 505.7,
                 250,
                 100,
                 900,
                 {{"p50", 240}, {"p99.9", 800.5}}};
  report.cpu_user_us = 1;
  report.cpu_system_us = 2.5;
  report.verify = true;
  report.verified_blocks = 1000;
  EXPECT_EQ(ToText(report),
            "randread 4 KiB, queue depth 32, 1 job, 10 s, iSCSI over tcp\n"
            "         IOPS   MB/s  mean us    p50  p99.9  max us\n"
            "read  123,457  505.7    250.0  240.0  800.5   900.0\n"
            "CPU 3.50 us per I/O here (user 1.00, system 2.50)\n"
            "verified 1,000 blocks, all intact\n");
  report.interrupted = 1200;
  report.unanswered = 1;
  EXPECT_THAT(ToText(report),
              EndsWith("\nsent again: 1,200 interrupted (by a reset, for "
                       "example), 1 not answered in time\n"));
  report.recovered = 1200;
  EXPECT_THAT(ToText(report), EndsWith("\nrecovered errors of the disk: 1,200; "
                                       "look at its health\n"));
}

TEST(TextTest, ShowsPings) {
  PingReport report;
  report.peer = "127.0.0.1:3260";
  report.sent = 3;
  report.round_trips_us = {100, 300, 200};
  EXPECT_EQ(ToText(report),
            "3 pings to 127.0.0.1:3260, 3 answers; min/mean/max 100/200/300 "
            "us\n");
}

}  // namespace
}  // namespace skiff::tools
