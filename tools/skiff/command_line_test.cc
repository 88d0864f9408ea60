#include "tools/skiff/command_line.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "protocol/initiator/initiator.h"
#include "tools/common/read_file.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr int kUsage = static_cast<int>(ExitCode::kUsage);

std::optional<int> Parse(std::vector<const char*> arguments,
                         CommandLine* line) {
  arguments.insert(arguments.begin(), "skiff");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(),
                          line);
}

TEST(CommandLineTest, FillsTheOptionsOfASubcommand) {
  CommandLine line;
  ASSERT_EQ(Parse({"perf",
                   "iscsi://h/iqn.2026-11.com.example:a/1",
                   "--rw=randrw",
                   "--rwmixread=70",
                   "--bs=128k",
                   "--iodepth=32",
                   "--numjobs=2",
                   "--size",
                   "1GiB",
                   "--offset",
                   "1M",
                   "--runtime=10s",
                   "--verify=crc32c",
                   "--seed=9",
                   "--json",
                   "--spin=always",
                   "--coalesce=50us",
                   "--lasting-keys",
                   "--unsolicited-data-out",
                   "--timeout=3s",
                   "--header-digest=crc32c"},
                  &line),
            std::nullopt);
  const auto& perf = std::get<PerfOptions>(line.command);
  EXPECT_EQ(perf.url, "iscsi://h/iqn.2026-11.com.example:a/1");
  EXPECT_EQ(perf.rw, "randrw");
  EXPECT_EQ(perf.read_percent, 70u);
  EXPECT_EQ(perf.io_bytes, 131072u);
  EXPECT_EQ(perf.depth, 32u);
  EXPECT_EQ(perf.jobs, 2u);
  EXPECT_EQ(perf.size, uint64_t{1} << 30);
  EXPECT_EQ(perf.offset, 1u << 20);
  EXPECT_EQ(perf.runtime, absl::Seconds(10));
  EXPECT_EQ(perf.verify, "crc32c");
  EXPECT_EQ(perf.seed, 9u);
  EXPECT_TRUE(line.common.json);
  EXPECT_EQ(line.common.reactor.spin, absl::InfiniteDuration());
  EXPECT_EQ(line.common.initiator.coalesce.max_delay, absl::Microseconds(50));
  EXPECT_TRUE(line.common.initiator.rdma.lasting_keys);
  EXPECT_TRUE(line.common.initiator.offer.iser.unsolicited_data_out);
  EXPECT_EQ(line.common.initiator.timeouts.login_timeout, absl::Seconds(3));
  EXPECT_EQ(line.common.header_digest, "crc32c");
  EXPECT_EQ(line.common.data_digest, "");
}

TEST(CommandLineTest, AnEmptyNameIsTheDefault) {
  CommandLine line;
  ASSERT_EQ(Parse({"ping", "h", "--initiator-name", ""}, &line), std::nullopt);
  EXPECT_EQ(line.common.initiator.initiator_name,
            protocol::InitiatorOptions().initiator_name);
  ASSERT_EQ(Parse({"ping", "h", "--initiator-name=iqn.a"}, &line),
            std::nullopt);
  EXPECT_EQ(line.common.initiator.initiator_name, "iqn.a");
}

TEST(CommandLineTest, VerifyDoesNotTakeTheUrl) {
  CommandLine line;
  ASSERT_EQ(Parse({"perf", "--verify", "URL"}, &line), std::nullopt);
  EXPECT_EQ(std::get<PerfOptions>(line.command).verify, "crc32c");
  EXPECT_EQ(std::get<PerfOptions>(line.command).url, "URL");
}

TEST(CommandLineTest, ReadAndWriteAreCopies) {
  CommandLine line;
  ASSERT_EQ(Parse({"read", "URL", "--offset=4k", "--length=8k"}, &line),
            std::nullopt);
  auto copy = std::get<CopyOptions>(line.command);
  EXPECT_EQ(copy.source, "URL");
  EXPECT_EQ(copy.destination, "-");
  EXPECT_EQ(copy.source_offset, 4096u);
  EXPECT_EQ(copy.length, 8192u);

  ASSERT_EQ(Parse({"write", "URL", "-i", "f", "--offset=4k", "--pad",
                   "--verify", "-q"},
                  &line),
            std::nullopt);
  copy = std::get<CopyOptions>(line.command);
  EXPECT_EQ(copy.source, "f");
  EXPECT_EQ(copy.destination, "URL");
  EXPECT_EQ(copy.destination_offset, 4096u);
  EXPECT_TRUE(copy.pad);
  EXPECT_TRUE(copy.verify);
  EXPECT_TRUE(copy.quiet);

  ASSERT_EQ(
      Parse({"copy", "a", "b", "--sparse", "--depth=4", "--transfer-size=64k"},
            &line),
      std::nullopt);
  copy = std::get<CopyOptions>(line.command);
  EXPECT_EQ(copy.source, "a");
  EXPECT_EQ(copy.destination, "b");
  EXPECT_TRUE(copy.sparse);
  EXPECT_EQ(copy.depth, 4u);
  EXPECT_EQ(copy.piece_bytes, 65536u);
}

TEST(CommandLineTest, KnowsTheOtherSubcommands) {
  CommandLine line;
  ASSERT_EQ(Parse({"discover", "h"}, &line), std::nullopt);
  EXPECT_EQ(std::get<DiscoverOptions>(line.command).url, "h");
  ASSERT_EQ(Parse({"ls", "h"}, &line), std::nullopt);
  EXPECT_EQ(std::get<ListOptions>(line.command).url, "h");
  ASSERT_EQ(Parse({"inquiry", "--vpd", "80", "--vpd=83", "h"}, &line),
            std::nullopt);
  EXPECT_EQ(std::get<InquiryOptions>(line.command).pages,
            (std::vector<std::string>{"80", "83"}));
  EXPECT_EQ(std::get<InquiryOptions>(line.command).url, "h");
  ASSERT_EQ(Parse({"capacity", "h"}, &line), std::nullopt);
  ASSERT_EQ(Parse({"ping", "h", "-c", "9", "--interval=10ms"}, &line),
            std::nullopt);
  EXPECT_EQ(std::get<PingOptions>(line.command).count, 9u);
  ASSERT_EQ(Parse({"transports", "--json"}, &line), std::nullopt);
  EXPECT_TRUE(std::holds_alternative<TransportsOptions>(line.command));
  ASSERT_EQ(Parse({"doctor"}, &line), std::nullopt);
  EXPECT_EQ(std::get<DoctorOptions>(line.command).url, "");
  ASSERT_EQ(Parse({"doctor", "h", "--timeout=1s", "--json"}, &line),
            std::nullopt);
  EXPECT_EQ(std::get<DoctorOptions>(line.command).url, "h");
  ASSERT_EQ(Parse({"dump", "f.pcapng"}, &line), std::nullopt);
  EXPECT_EQ(std::get<DumpOptions>(line.command).file, "f.pcapng");
  ASSERT_EQ(Parse({"ping", "h", "--trace", "f"}, &line), std::nullopt);
  EXPECT_EQ(line.common.trace_file, "f");
  ASSERT_EQ(Parse({"reset", "h", "--target"}, &line), std::nullopt);
  EXPECT_TRUE(std::get<ResetOptions>(line.command).target);
}

// "--depth" and "16" of "  --depth N   Transfers in flight (16)". A description
// may be on a line of its own.
std::vector<std::pair<std::string, std::string>> DefaultsOf(
    const std::string& help) {
  std::vector<std::pair<std::string, std::string>> defaults;
  std::string flag;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
    if (absl::StartsWith(text, "-")) {
      const absl::string_view names = text.substr(0, text.find(' '));
      flag = std::string(names.substr(names.find("--")));
    }
    const size_t open = text.rfind('(');
    if (flag.empty() || open == absl::string_view::npos ||
        !absl::EndsWith(text, ")")) {
      continue;
    }
    defaults.emplace_back(flag, text.substr(open + 1, text.size() - open - 2));
  }
  return defaults;
}

TEST(CommandLineTest, HelpAndDocumentTellTheSameDefaults) {
  const std::string document =
      absl::StrReplaceAll(ReadFile("docs/skiff-cli.md").value(), {{"`", ""}});
  const std::vector<std::string> lines = absl::StrSplit(document, '\n');
  size_t told = 0;
  for (const char* subcommand : {"perf", "copy", "ping"}) {
    CommandLine line;
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(Parse({subcommand, "--help"}, &line), 0);
    for (const auto& [flag, value] :
         DefaultsOf(::testing::internal::GetCapturedStdout())) {
      // From the start, to the end, once: no value that could differ.
      if (value == "0" || absl::StrContains(value, ' ')) continue;
      ++told;
      EXPECT_TRUE(std::any_of(
          lines.begin(), lines.end(),
          [&flag = flag, &value = value](const std::string& text) {
            return absl::StrContains(text, flag) &&
                   absl::StrContains(text, absl::StrCat("(", value));
          }))
          << flag << " (" << value << ")";
    }
  }
  EXPECT_GT(told, 20u);
}

TEST(CommandLineTest, RefusesWhatItDoesNotUnderstand) {
  CommandLine line;
  EXPECT_EQ(Parse({}, &line), kUsage);
  EXPECT_EQ(Parse({"--help"}, &line), 0);
  EXPECT_EQ(Parse({"perf", "--help"}, &line), 0);
  EXPECT_EQ(Parse({"frobnicate"}, &line), kUsage);
  EXPECT_EQ(Parse({"ls"}, &line), kUsage);
  EXPECT_EQ(Parse({"transports", "h"}, &line), kUsage);
  EXPECT_EQ(Parse({"transports", "--timeout=3s"}, &line), kUsage);
  EXPECT_EQ(Parse({"ls", "a", "b"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--bs=4x"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--bs=5GiB"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--runtime=5"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--iodepth=-1"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--spin=often"}, &line), kUsage);
  EXPECT_EQ(Parse({"perf", "u", "--verify=md5"}, &line), kUsage);
  EXPECT_EQ(Parse({"ping", "u", "--header-digest", ""}, &line), kUsage);
  EXPECT_EQ(Parse({"ping", "u", "--data-digest", ""}, &line), kUsage);
}

}  // namespace
}  // namespace skiff::tools
