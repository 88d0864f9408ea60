#include "tools/skiffd/config.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiffd/config_test_util.h"
#include "tools/skiffd/flags.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Wraps a LUN that is not the point of a case.
std::string InTarget(const std::string& lun) {
  return absl::StrCat("target {\n name: \"iqn.2026-11.com.example:a\"\n", lun,
                      "\n}\n");
}

struct BadConfig {
  const char* name;
  std::string text;
  std::string problem;
};

std::vector<BadConfig> BadSyntax() {
  return {
      {"UnknownField", "portals: \"x\"\n",
       "f:1:8: there is no 'portals' here; known are log_level, reactors, "
       "limits, negotiation, transport, shutdown_grace, portal, target, iser, "
       "log, state_directory, chap, discovery_account, metrics, "
       "management, restart_grace, restart_patience"},
      {"UnknownNestedField", "target {\n  lun { size: \"1GiB\" }\n}\n",
       "f:2:13: there is no 'size' here; known are lun, ram, file, block_size, "
       "read_only, serial, vendor, product, revision, max_transfer, "
       "max_tasks"},
      {"TwiceGiven", "log_level: \"info\"\nlog_level: \"debug\"\n",
       "f:2:10: Non-repeated field \"log_level\" is specified multiple times"},
      {"WrongType", "reactors { count: \"two\" }\n",
       "f:1:19: Expected integer, got: \"two\""},
      {"BothMedia", InTarget("lun { ram { size: \"1MiB\" } file {} }"),
       "f:3:33: Field \"file\" is specified along with field \"ram\", another "
       "member of oneof \"medium\""},
      {"NotClosed", "target {\n",
       "f:2:1: the file ends here, before something is complete; is a } "
       "missing?"},
  };
}

std::vector<BadConfig> BadTargets() {
  const std::string target = kGoodTarget;
  return {
      {"NoTarget", "log_level: \"info\"\n",
       "f: there is no target; add at least one, with a name and a LUN"},
      {"DuplicateTarget", target + target,
       "f:2: target iqn.2026-11.com.example:a is defined already by f:1; give "
       "each target a name of its own"},
      {"DuplicateTargetInCapitals",
       target + "target { name: \"iqn.2026-11.com.EXAMPLE:a\"\n"
                " lun { ram { size: \"1MiB\" } } }\n",
       "f:2: target iqn.2026-11.com.example:a is defined already by f:1; give "
       "each target a name of its own"},
      {"NoLun", "target { name: \"iqn.2026-11.com.example:a\" }\n",
       "f:1: target iqn.2026-11.com.example:a has no LUN; add at least one"},
      {"BadAlias",
       "target {\n alias: \"a\\nb\"\n name: \"iqn.2026-11.com.example:a\"\n"
       " lun { ram { size: \"1MiB\" } }\n}\n",
       "f:2: alias must be 1 to 255 printable ASCII characters; leave it out "
       "for the default"},
  };
}

std::vector<BadConfig> BadLuns() {
  return {
      {"NoMedium", InTarget(" lun { }"),
       "f:3: this LUN has no medium; add ram { size: \"1GiB\" } or file { "
       "path: \"/path\" }"},
      {"DuplicateLun",
       InTarget(" lun { ram { size: \"1MiB\" } }\n"
                " lun {\n  lun: 0\n  ram { size: \"1MiB\" }\n }"),
       "f:5: LUN 0 is taken by f:3; give each LUN of a target a number of its "
       "own"},
      {"LunTooLarge", InTarget(" lun { lun: 16384 ram { size: \"1MiB\" } }"),
       "f:3: lun is 16384; it can be 0 to 16383"},
      {"BadBlockSize",
       InTarget(" lun { block_size: 520 ram { size: \"1MiB\" } }"),
       "f:3: block_size is 520; it can be 512 or 4096"},
      {"LongVendor",
       InTarget(" lun { vendor: \"TOO LONG.\" ram { size: \"1MiB\" } }"),
       "f:3: vendor must be 1 to 8 printable ASCII characters; leave it out "
       "for the default"},
      {"SmallMaxTransfer",
       InTarget(" lun { max_transfer: \"512\" ram { size: \"1MiB\" } }"),
       "f:3: max_transfer is 512 B; it can be 64 KiB to 1 GiB"},
  };
}

std::vector<BadConfig> BadMedia() {
  return {
      {"RamWithoutSize", InTarget(" lun { ram { } }"),
       "f:3: ram needs its size, such as size: \"1GiB\""},
      {"NoSize", InTarget(" lun { ram { size: \"large\" } }"),
       "f:3: size: 'large' is not a size: write a whole number of bytes, or "
       "one with KiB, MiB, GiB, TiB or PiB (4k and 4KiB are 4096 bytes, 4KB "
       "are 4000)"},
      {"OddSize",
       InTarget(" lun {\n  block_size: 4096\n  ram {\n   size: \"4608\"\n  }\n "
                "}"),
       "f:6: the size, 4608 bytes, is not a multiple of the block size, 4096; "
       "change one of them"},
      {"FileWithoutPath", InTarget(" lun { file { size: \"1MiB\" } }"),
       "f:3: file needs its path"},
      {"MissingFile", InTarget(" lun { file {\n  path: \"DIR/none\" } }"),
       "f:4: DIR/none does not exist; correct the path, or give a size to have "
       "it created"},
      {"MissingReadOnlyFile",
       InTarget(
           " lun { read_only: true file { path: \"DIR/none\" size: \"1M\" } }"),
       "f:3: DIR/none does not exist; a read_only LUN needs a file that does"},
      {"MissingDirectory",
       InTarget(" lun { file { path: \"DIR/no/disk\" size: \"1MiB\" } }"),
       "f:3: cannot create DIR/no/disk: directory DIR/no: No such file or "
       "directory"},
      {"FileIsADirectory", InTarget(" lun { file { path: \"DIR\" } }"),
       "f:3: DIR is neither a regular file nor a block device"},
      {"EmptyFile", InTarget(" lun { file { path: \"DIR/empty\" } }"),
       "f:3: DIR/empty is empty; remove it and give a size to have it created"},
      {"OddFile", InTarget(" lun { file { path: \"DIR/odd\" } }"),
       "f:3: DIR/odd: the size, 1000 bytes, is not a multiple of the block "
       "size, 512; extend the file with truncate(1)"},
      {"OtherFileSize",
       InTarget(" lun { file { path: \"DIR/disk\" size: \"8KiB\" } }"),
       "f:3: DIR/disk has 4096 bytes, not 8192; leave the size out to serve it "
       "as it is"},
      {"SharedFile",
       InTarget(" lun { file { path: \"DIR/disk\" } }\n"
                " lun { file { path: \"DIR/./disk\" } read_only: true }"),
       "f:4: DIR/./disk is served already by f:3; two LUNs may share a file "
       "only when both are read_only"},
      {"SharedMissingFile",
       InTarget(" lun { file { path: \"DIR/new\" size: \"1M\" } }\n"
                " lun { file { path: \"DIR/new\" size: \"1M\" } }"),
       "f:4: DIR/new is served already by f:3; two LUNs may share a file only "
       "when both are read_only"},
  };
}

std::vector<BadConfig> BadPortals() {
  const std::string target = kGoodTarget;
  return {
      {"BadScheme", target + "portal: \"rfc1149://pigeon\"\n",
       "f:2: no transport for scheme \"rfc1149\"; this program has: "
       "tcp"},
      {"UnknownPortalOption", target + "portal: \"tcp://[::1]?mtu=9000\"\n",
       "f:2: tcp://[::1]:3260?mtu=9000: option \"mtu\" is unknown; tcp has "
       "send_buffer, receive_buffer and v6only"},
      {"BadPortalOption", target + "portal: \"tcp://[::]?v6only=yes\"\n",
       "f:2: tcp://[::]:3260?v6only=yes: option v6only=yes is neither 0 nor 1"},
      {"PortalTwice",
       target + "portal: \"tcp://[::1]\"\nportal: \"tcp://[::1]:3260\"\n",
       "f:3: tcp://[::1]:3260 is listened on twice"},
  };
}

std::vector<BadConfig> BadMetrics() {
  std::vector<BadConfig> all;
  for (const char* const address :
       {"localhost:9464", "127.0.0.1:70000", "", "127.0.0.1:1,127.0.0.1:2",
        "127.0.0.1:443s", "1.2.3.4:1?a=b"}) {
    all.push_back(
        {"Metrics",
         absl::StrCat("metrics {\n listen: \"", address, "\"\n}\n",
                      kGoodTarget),
         absl::StrCat("f:2: '", address,
                      "' is not an IP address and a port: write such as "
                      "127.0.0.1:9464 or [::1]:9464")});
  }
  return all;
}

std::vector<BadConfig> BadSettings() {
  const std::string target = kGoodTarget;
  return {
      {"BadLogLevel", "log_level: \"loud\"\n" + target,
       "f:1: 'loud' is no log level; write error, warning, info or debug"},
      {"BadLogFormat", target + "log { format: \"xml\" }\n",
       "f:2: 'xml' is no format of the log; write text, json or journal"},
      {"BadRepeatWindow", target + "log { repeat_window: \"10ms\" }\n",
       "f:2: repeat_window is 10ms; write 0s for each is a line, or at least "
       "1s"},
      {"BadDigest",
       target + "negotiation {\n data_digest: \"None\"\n data_digest: "
                "\"MD5\"\n}\n",
       "f:4: 'MD5' is no digest; write None or CRC32C"},
      {"NoReactors", target + "reactors {\n  count: 0\n}\n",
       "f:3: count is 0; it can be 1 to 1024"},
      {"CpusDoNotMatch", target + "reactors {\n count: 2\n cpu: 1\n}\n",
       "f:4: 1 cpu for 2 reactors; give one for each, or none"},
      {"BadSpin", target + "reactors { spin: \"often\" }\n",
       "f:2: spin: 'often' does not say how long to poll before sleeping: "
       "write auto, auto:100us (at most a minute), never, always, or a "
       "duration such as 50us"},
      {"BadDuration", target + "limits { login_timeout: \"15\" }\n",
       "f:2: login_timeout: '15' is not a duration: write a number with its "
       "unit, such as 50us, 20ms, 1.5s, 2m or 1h"},
      {"NoTimeToLogIn", target + "limits { login_timeout: \"0s\" }\n",
       "f:2: login_timeout must be positive"},
      {"NoTimeToSend", target + "limits { send_timeout: \"0s\" }\n",
       "f:2: send_timeout must be positive"},
      {"NoTimeToAnswer", target + "limits { nop_timeout: \"0s\" }\n",
       "f:2: nop_timeout must be positive"},
      {"NoPatience", target + "limits { data_patience: \"0s\" }\n",
       "f:2: data_patience must be positive"},
      {"ShortRetry", target + "limits { listen_retry_interval: \"9ms\" }\n",
       "f:2: listen_retry_interval is 9ms; write 0s for never, or at least "
       "10ms"},
      {"LongDelay", target + "limits { coalesce_delay: \"11ms\" }\n",
       "f:2: coalesce_delay is 11ms; at most 10ms"},
      {"SmallPool",
       target + "limits {\n buffer_size: \"2MiB\"\n buffer_pool: \"1MiB\"\n}\n",
       "f:4: buffer_pool must hold one buffer (buffer_size) and a third more, "
       "for small ones"},
      {"NoRoomForSmallBuffers",
       target + "limits {\n buffer_size: \"2MiB\"\n buffer_pool: \"2MiB\"\n}\n",
       "f:4: buffer_pool must hold one buffer (buffer_size) and a third more, "
       "for small ones"},
      {"MessageMemory", target + "iser { message_memory: \"1023KiB\" }\n",
       "f:2: message_memory is 1023 KiB; it can be 1 MiB to 1 TiB"},
      {"MessageMemoryOfOneSession",
       target + "limits { queue_depth: 1024 }\n"
                "iser { message_memory: \"9MiB\" }\n",
       "f:3: message_memory must hold one session, which takes 9585 KiB with "
       "queue_depth 1024"},
      {"UnsolicitedDataOutTakesMemory",
       target +
           "iser { message_memory: \"16MiB\" unsolicited_data_out: true }\n",
       "f:2: message_memory must hold one session, which takes 42529 KiB with "
       "queue_depth 128 and unsolicited_data_out; a shorter "
       "first_burst_length makes it less"},
      {"UnsolicitedDataOutOfNothing",
       target + "iser { unsolicited_data_out: true }\n"
                "negotiation { initial_r2t: true }\n",
       "f:2: unsolicited_data_out does nothing with initial_r2t: true; take "
       "out one of them"},
      {"SmallBuffers", target + "limits { buffer_size: \"128KiB\" }\n",
       "f:2: buffer_size is 128 KiB; it can be 256 KiB to 1 GiB"},
      {"OddBuffers", target + "limits { buffer_size: \"1000000\" }\n",
       "f:2: buffer_size must be a multiple of 4096"},
      {"FileQueueDepth",
       "target { name: \"iqn.2026-11.com.example:a\"\n"
       "lun { file { path: \"DIR/disk\"\n queue_depth: 4097 } } }\n",
       "f:3: queue_depth is 4097; it can be 1 to 4096"},
      {"QueueDepth", target + "limits { queue_depth: 8193 }\n",
       "f:2: queue_depth is 8193; it can be 1 to 8192"},
      {"Backlog", target + "transport { backlog: 0 }\n",
       "f:2: backlog is 0; it can be 1 to 65535"},
      {"BurstTooLarge",
       target + "negotiation { max_burst_length: \"16MiB\" }\n",
       "f:2: max_burst_length is 16 MiB; it can be 512 B to 16.0 MiB"},
  };
}

TEST_F(ConfigTest, ExplainsEachMistake) {
  MakeFile("disk", 4096);
  MakeFile("empty", 0);
  MakeFile("odd", 1000);
  for (const auto& cases : {BadSyntax(), BadTargets(), BadLuns(), BadMedia(),
                            BadPortals(), BadSettings(), BadMetrics()}) {
    for (const BadConfig& c : cases) {
      EXPECT_THAT(Problems(c.text), ElementsAre(c.problem)) << c.name;
    }
  }
}

// Each level is a call of the parser's to itself.
TEST_F(ConfigTest, NestingHasAnEnd) {
  for (const char* const text : {"target { ", "rubbish { ", "rubbish < "}) {
    std::string all;
    for (int i = 0; i < 50'000; ++i) all += text;
    const std::vector<std::string> problems = Problems(all);
    ASSERT_FALSE(problems.empty());
    EXPECT_THAT(problems.back(), HasSubstr("Message is too deep")) << text;
  }
}

TEST_F(ConfigTest, MetricsAreServedWhereTheyAreAskedFor) {
  const auto address = [this](const std::string& text) {
    EXPECT_THAT(Problems(text + kGoodTarget), IsEmpty());
    return config_.metrics.address;
  };
  EXPECT_EQ(address(""), "");
  EXPECT_EQ(address("metrics {}\n"), "127.0.0.1:9464");
  EXPECT_EQ(address("metrics { listen: \"[::1]:80\" }\n"), "[::1]:80");
}

TEST_F(ConfigTest, ReportsAllMistakesAtOnce) {
  EXPECT_THAT(Problems("portal: \"tcp://[::1\"\n"
                       "limits { queue_depth: 0 }\n"
                       "target { name: \"disk\" lun { } }\n"),
              ::testing::SizeIs(4));
}

// Also of LUNs that have no number of their own.
TEST_F(ConfigTest, RefusesNumbersThatNoLunCanHave) {
  const std::string ram = "lun { ram { size: \"1MiB\" } }\n";
  EXPECT_THAT(
      Problems(InTarget("lun { lun: 16383 ram { size: \"1MiB\" } }\n" + ram)),
      ElementsAre("f:4: LUN 16384 is beyond 16383: without a number, it has "
                  "the next one; give it one that is free, as lun: NUMBER, or "
                  "serve it by another target"));
}

TEST_F(ConfigTest, RefusesPathsThatNoSocketCanHave) {
  const std::string path = "/" + std::string(106, 'x');
  const auto at = [](const std::string& socket) {
    return absl::StrCat("management { socket: \"", socket, "\" }\n",
                        kGoodTarget);
  };
  EXPECT_THAT(Problems(at(path)), IsEmpty());
  EXPECT_THAT(Problems(at(path + "x")),
              ElementsAre(absl::StrCat("f:1: '", path,
                                       "x': a socket's path has 107 bytes at "
                                       "most; name a shorter one")));
}

TEST_F(ConfigTest, RefusesBadNamesWhereTheyAreWritten) {
  const std::vector<std::string> problems = Problems(
      "target {\n  name: \"my disk\"\n"
      "  lun { ram { size: \"1MiB\" } }\n}\n");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], ::testing::StartsWith("f:2: "));
  EXPECT_THAT(problems[0], ::testing::HasSubstr("my disk"));
}

TEST_F(ConfigTest, RefusesOffersThatContradictThemselves) {
  const std::vector<std::string> problems =
      Problems(absl::StrCat(kGoodTarget,
                            "negotiation {\n  max_burst_length: \"64KiB\"\n"
                            "  first_burst_length: \"128KiB\"\n}\n"));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], ::testing::StartsWith("f:2: "));
}

TEST_F(ConfigTest, FillsInDefaults) {
  ASSERT_THAT(Problems(kGoodTarget), IsEmpty());
  EXPECT_EQ(config_.log_level, protocol::LogLevel::kInfo);
  EXPECT_EQ(config_.reactors.count, 1);
  EXPECT_EQ(config_.reactors.reactor.spin, absl::ZeroDuration());
  EXPECT_TRUE(config_.reactors.reactor.adaptive_spin);
  ASSERT_EQ(config_.portals.size(), 1u);
  EXPECT_EQ(config_.portals[0].address.ToString(), "tcp://127.0.0.1:3260");
  ASSERT_EQ(config_.targets.size(), 1u);
  ASSERT_EQ(config_.targets[0].luns.size(), 1u);
  const LunConfig& lun = config_.targets[0].luns[0];
  EXPECT_EQ(lun.options.lun, 0u);
  EXPECT_EQ(lun.options.vendor, "SKIFF");
  const auto& ram = std::get<scsi::RamBackendOptions>(lun.medium);
  EXPECT_EQ(ram.size_bytes, 1u << 20);
  EXPECT_EQ(ram.block_size, 512u);
  EXPECT_FALSE(ram.read_only);
  EXPECT_FALSE(ram.huge_pages.has_value());
  EXPECT_TRUE(ram.thin);
}

TEST_F(ConfigTest, SetsHugePages) {
  ASSERT_THAT(Problems(R"(target { name: "iqn.2026-11.org.example:t"
                                   lun { ram { size: "1MiB" huge_pages: false } }
                                   lun { ram { size: "1MiB" huge_pages: true } } })"),
              IsEmpty());
  const auto& luns = config_.targets[0].luns;
  EXPECT_EQ(std::get<scsi::RamBackendOptions>(luns[0].medium).huge_pages,
            false);
  EXPECT_EQ(std::get<scsi::RamBackendOptions>(luns[1].medium).huge_pages, true);
}

TEST_F(ConfigTest, SetsThin) {
  ASSERT_THAT(Problems(R"(target { name: "iqn.2026-11.org.example:t"
                                   lun { ram { size: "1MiB" thin: false } } })"),
              IsEmpty());
  const auto& luns = config_.targets[0].luns;
  EXPECT_FALSE(std::get<scsi::RamBackendOptions>(luns[0].medium).thin);
}

TEST_F(ConfigTest, KeepsAndClearsWhatIsKnownOfMedia) {
  const std::string path = MakeFile("disk", 8192);
  ASSERT_THAT(Problems("state_directory: \"/srv/state\"\n"
                       "target { name: \"iqn.2026-11.org.example:t\"\n"
                       "  lun { ram { size: \"1MiB\" } }\n"
                       "  lun { file { path: \"DIR/disk\" } }\n}\n"),
              IsEmpty());
  const auto& file =
      std::get<scsi::FileBackendOptions>(config_.targets[0].luns[1].medium);
  EXPECT_EQ(file.state_directory, "/srv/state");
  EXPECT_FALSE(file.clear_data_loss);

  std::vector<std::string> problems;
  const std::string target = "iqn.2026-11.org.example:t/";
  ClearDataLoss({target + "1"}, &config_, &problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_TRUE(file.clear_data_loss);
  ClearDataLoss({target + "0", target + "2", "1"}, &config_, &problems);
  EXPECT_THAT(problems, ::testing::SizeIs(3));
}

TEST_F(ConfigTest, SetsTheLog) {
  ASSERT_THAT(Problems(R"(target { name: "iqn.2026-11.org.example:t"
                                   lun { ram { size: "1MiB" } } }
                          log_level: "error"
                          log { queue: "64KiB" flush_timeout: "2s" burst: 3
                                interval: "4s" total_burst: 5 peers: 6 })"),
              IsEmpty());
  EXPECT_EQ(config_.log.level, protocol::LogLevel::kError);
  EXPECT_EQ(config_.log.queue.max_bytes, 64u << 10);
  EXPECT_EQ(config_.log.flush_timeout, absl::Seconds(2));
  const transport::LogLimits& limits = config_.server.log_limits;
  EXPECT_EQ(limits.burst, 3u);
  EXPECT_EQ(limits.interval, absl::Seconds(4));
  EXPECT_EQ(limits.total_burst, 5u);
  EXPECT_EQ(limits.peers, 6u);
}

TEST_F(ConfigTest, TakesWhatIsSet) {
  const std::string path = MakeFile("disk", 8192);
  ASSERT_THAT(
      Problems("log_level: \"DEBUG\"\n"
               "portal: \"tcp://[::]:0\"\n"
               "shutdown_grace: \"2s\" restart_grace: \"3s\" "
               "restart_patience: \"4s\"\n"
               "reactors { count: 2 cpu: 0 cpu: 1 spin: \"50us\" }\n"
               "limits { queue_depth: 32 nop_interval: \"1s\" "
               "listen_retry_interval: \"3s\" buffer_pool: "
               "\"8MiB\" spare_buffers: \"0\" coalesce_delay: \"7us\" "
               "memory_budget: \"24MiB\" data_patience: \"700ms\" "
               "min_read_rate: \"32KiB\" }\n"
               "transport { backlog: 5 user_timeout: \"9s\" } "
               "iser { lasting_keys: true message_memory: \"19MiB\" "
               "unsolicited_data_out: true }\n"
               "negotiation { header_digest: \"CRC32C\" immediate_data: false "
               "first_burst_length: \"64KiB\" "
               "max_recv_data_segment_length: \"8k\" }\n"
               "target { name: \"iqn.2026-11.com.example:a\"\n"
               "  alias: \"A\" access: OPEN\n"
               "  lun { lun: 5 serial: \"S\" file { path: \"DIR/disk\" "
               "direct: true queue_depth: 7 } block_size: 4096 read_only: "
               "true }\n"
               "  lun { ram { size: \"1MiB\" } }\n"
               "}\n"),
      IsEmpty());
  EXPECT_EQ(config_.log_level, protocol::LogLevel::kDebug);
  EXPECT_EQ(config_.shutdown_grace, absl::Seconds(2));
  EXPECT_EQ(config_.restart_grace, absl::Seconds(3));
  EXPECT_EQ(config_.restart_patience, absl::Seconds(4));
  EXPECT_EQ(config_.reactors.count, 2);
  EXPECT_THAT(config_.reactors.cpus, ElementsAre(0, 1));
  EXPECT_EQ(config_.reactors.reactor.spin, absl::Microseconds(50));
  EXPECT_FALSE(config_.reactors.reactor.adaptive_spin);
  EXPECT_EQ(config_.server.limits.session.queue_depth, 32u);
  EXPECT_EQ(config_.server.limits.session.nop_interval, absl::Seconds(1));
  EXPECT_EQ(config_.server.limits.listen_retry_interval, absl::Seconds(3));
  EXPECT_EQ(config_.server.limits.memory.max_spare_buffer_bytes, 0u);
  EXPECT_EQ(config_.server.limits.coalesce_delay, absl::Microseconds(7));
  EXPECT_EQ(config_.server.limits.memory_budget, 24u << 20);
  EXPECT_EQ(config_.server.worker.data_patience, absl::Milliseconds(700));
  EXPECT_EQ(config_.server.worker.min_read_rate, 32u << 10);
  EXPECT_EQ(config_.server.worker.buffer_pool_bytes, 8u << 20);
  EXPECT_EQ(config_.server.listen.backlog, 5);
  EXPECT_EQ(config_.server.accept.user_timeout, absl::Seconds(9));
  EXPECT_TRUE(config_.server.rdma.lasting_keys);
  EXPECT_EQ(config_.server.rdma.message_memory, 19u << 20);
  EXPECT_TRUE(config_.server.offer.iser.unsolicited_data_out);
  EXPECT_THAT(config_.server.offer.header_digest,
              ElementsAre(protocol::Digest::kCrc32c));
  EXPECT_FALSE(config_.server.offer.immediate_data);
  EXPECT_EQ(config_.server.offer.first_burst_length, 65536u);
  EXPECT_EQ(config_.server.offer.max_recv_data_segment_length, 8192u);
  ASSERT_EQ(config_.targets.size(), 1u);
  EXPECT_EQ(config_.targets[0].alias, "A");
  ASSERT_EQ(config_.targets[0].luns.size(), 2u);
  const LunConfig& lun = config_.targets[0].luns[0];
  EXPECT_EQ(lun.where, "f:10");
  EXPECT_EQ(lun.options.lun, 5u);
  EXPECT_EQ(lun.options.serial, "S");
  const auto& file = std::get<scsi::FileBackendOptions>(lun.medium);
  EXPECT_EQ(file.path, path);
  EXPECT_EQ(file.size_bytes, 0u);
  EXPECT_EQ(file.block_size, 4096u);
  EXPECT_EQ(file.queue_depth, 7u);
  EXPECT_TRUE(file.direct);
  EXPECT_TRUE(file.read_only);
  EXPECT_EQ(config_.targets[0].luns[1].options.lun, 6u);
}

TEST_F(ConfigTest, TwoReadersMayShareAFile) {
  MakeFile("disk", 4096);
  EXPECT_THAT(
      Problems(InTarget(" lun { file { path: \"DIR/disk\" } read_only: true }\n"
                        " lun { file { path: \"DIR/disk\" } read_only: true "
                        "}")),
      IsEmpty());
}

TEST_F(ConfigTest, ChecksWithoutCreatingFiles) {
  ASSERT_THAT(Problems(InTarget(" lun { file { path: \"DIR/new\" size: \"1M\" "
                                "} }")),
              IsEmpty());
  EXPECT_NE(access((directory_ + "/new").c_str(), F_OK), 0);
}

TEST_F(ConfigTest, AcceptsTheExample) {
  Flags flags;
  flags.config_file = "tools/skiffd/example.conf";
  EXPECT_THAT(FlagProblems(flags), IsEmpty());
  EXPECT_EQ(config_.targets.size(), 2u);
  EXPECT_EQ(config_.portals.size(), 2u);
}

TEST_F(ConfigTest, SaysWhichFileCannotBeRead) {
  Flags flags;
  flags.config_file = "no/such/file";
  EXPECT_THAT(FlagProblems(flags),
              ElementsAre("cannot read the configuration: no/such/file: No "
                          "such file or directory"));
}

}  // namespace
}  // namespace skiff::tools::skiffd
