#include "tools/common/journal.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/log/queued_log.h"

namespace skiff::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using transport::LogField;
using transport::LogLevel;
using transport::QueuedLog;

using Fields = std::map<std::string, std::string>;

constexpr absl::Duration kPatience = absl::Seconds(30);

// The journal's native protocol: "NAME=VALUE\n", or for a value with newlines
// "NAME\n", its size in 64 bits, the value and "\n".
Fields Parse(absl::string_view datagram) {
  Fields fields;
  while (!datagram.empty()) {
    const size_t end = datagram.find('\n');
    const absl::string_view line = datagram.substr(0, end);
    datagram.remove_prefix(std::min(line.size() + 1, datagram.size()));
    const std::pair<std::string, std::string> field =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (absl::StrContains(line, '=')) {
      EXPECT_TRUE(fields.insert(field).second) << line << " comes twice";
      continue;
    }
    uint64_t size = 0;
    std::memcpy(&size, datagram.data(), sizeof(size));
    fields[field.first] = std::string(datagram.substr(sizeof(size), size));
    datagram.remove_prefix(sizeof(size) + size + 1);
  }
  return fields;
}

// A mount namespace with a /run of its own, in which the test is the journal.
class JournalTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0) << std::strerror(errno);
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(mount("none", "/run", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(mkdir("/run/systemd", 0755), 0);
    ASSERT_EQ(mkdir("/run/systemd/journal", 0755), 0);
  }
  void SetUp() override {
    journal_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval patience = absl::ToTimeval(kPatience);
    ASSERT_EQ(setsockopt(journal_, SOL_SOCKET, SO_RCVTIMEO, &patience,
                         sizeof(patience)),
              0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, kJournalSocket, sizeof(kJournalSocket));
    ASSERT_EQ(
        bind(journal_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
  }
  void TearDown() override {
    close(journal_);
    unlink(kJournalSocket);
  }

  StderrLog::Options Options() {
    StderrLog::Options options;
    const absl::Status status = LogToJournal("skiffd", &options);
    EXPECT_TRUE(status.ok()) << status;
    fd_ = options.queue.fd;
    return options;
  }
  Fields Receive(int flags = 0) {
    char datagram[2 * transport::kMaxLogLine];
    const ssize_t size = recv(journal_, datagram, sizeof(datagram), flags);
    if (size < 0) return {};
    return Parse({datagram, static_cast<size_t>(size)});
  }
  // Until there is one with this in its message.
  bool ReceiveUntil(absl::string_view message) {
    for (Fields fields; !(fields = Receive()).empty();) {
      if (absl::StrContains(fields["MESSAGE"], message)) return true;
    }
    return false;
  }

  int journal_ = -1;
  int fd_ = -1;
};

// The first of the tests, as ThreadSanitizer lets a child of fork() start no
// thread where the parent has had some.
TEST_F(JournalTest, ACrashWritesWhatIsKnown) {
  const transport::QueuedLogOptions options = Options().queue;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    QueuedLog log(options);
    log.WriteOnFatalSignals();
    for (int i = 0; i < 3000; ++i) log.Write(LogLevel::kInfo, "one of many");
    log.Write(LogLevel::kInfo, "the last words");
    std::abort();
  }
  EXPECT_TRUE(ReceiveUntil("the last words"));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(JournalTest, EventsComeWithTheirFields) {
  {
    StderrLog log(Options());
    const std::vector<LogField> fields = {
        {transport::kLogAddress, "10.0.0.2:1"},
        {transport::kLogInitiator, "iqn.2026-11.com.example:host"},
        {transport::kLogLun, "3"},
        {transport::kLogReason, "why"}};
    transport::LogTo(log.Sink(), {LogLevel::kWarning, "closing: why", fields});
    log.Sink()(LogLevel::kDebug, "too much");
    log.Sink()(LogLevel::kError, "two");
  }
  Fields fields = Receive();
  EXPECT_THAT(fields["SKIFF_TIME"], ::testing::MatchesRegex("2.*T.*Z"));
  fields.erase("SKIFF_TIME");
  EXPECT_THAT(fields,
              UnorderedElementsAre(
                  Pair("MESSAGE", "closing: why"), Pair("PRIORITY", "4"),
                  Pair("SYSLOG_IDENTIFIER", "skiffd"),
                  Pair("SKIFF_ADDRESS", "10.0.0.2:1"),
                  Pair("SKIFF_INITIATOR", "iqn.2026-11.com.example:host"),
                  Pair("SKIFF_LUN", "3"), Pair("SKIFF_REASON", "why")));
  fields = Receive();
  EXPECT_EQ(fields["MESSAGE"], "two");
  EXPECT_EQ(fields["PRIORITY"], "3");
  EXPECT_TRUE(Receive(MSG_DONTWAIT).empty());
}

TEST_F(JournalTest, WhatPeersSendStaysInItsField) {
  const std::string hostile("a\nPRIORITY=0\0SKIFF_LUN=1\xe2\x80\xae\xff", 28);
  QueuedLog log(Options().queue);
  const std::vector<LogField> fields = {{transport::kLogInitiator, hostile}};
  log.Write({LogLevel::kInfo, hostile, fields});
  Fields got = Receive();
  const std::string escaped = "a\\x0aPRIORITY=0\\x00SKIFF_LUN=1\\u202e\\xff";
  EXPECT_EQ(got["MESSAGE"], escaped);
  EXPECT_EQ(got["SKIFF_INITIATOR"], escaped);
  EXPECT_EQ(got["PRIORITY"], "6");
  EXPECT_EQ(got.count("SKIFF_LUN"), 0u);
}

TEST_F(JournalTest, LongValuesAreCut) {
  const std::string controls(transport::kMaxLogLine, '\x01');
  const std::vector<LogField> fields = {{transport::kLogInitiator, controls},
                                        {transport::kLogReason, controls}};
  const std::string record = FormatJournalRecord(
      "skiffd", absl::Now(), {LogLevel::kInfo, controls, fields});
  EXPECT_LE(record.size(), transport::kMaxLogLine);
  for (const absl::string_view field :
       std::vector<absl::string_view>(absl::StrSplit(record, '\0'))) {
    if (absl::StartsWith(field, "MESSAGE") ||
        absl::StartsWith(field, "SKIFF_REASON")) {
      EXPECT_THAT(std::string(field), EndsWith(" ... (cut)"));
    }
  }
}

TEST_F(JournalTest, AMachineWithoutAJournalIsAnError) {
  ASSERT_EQ(unlink(kJournalSocket), 0);
  StderrLog::Options options;
  const absl::Status status = LogToJournal("skiffd", &options);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(kJournalSocket));
}

TEST_F(JournalTest, AJournalThatIsStuckStopsNobody) {
  transport::QueuedLogOptions options = Options().queue;
  options.max_bytes = options.kMinQueueBytes;
  QueuedLog log(options);
  for (int i = 0; log.dropped() == 0; ++i) {
    ASSERT_LT(i, 1000000);
    log.Write(LogLevel::kInfo, std::string(200, 'x'));
  }
  EXPECT_TRUE(ReceiveUntil("lines of the log are missing"));
}

TEST_F(JournalTest, WhatAJournalThatIsGoneDoesNotGetIsCounted) {
  QueuedLog log(Options().queue);
  TearDown();
  log.Write(LogLevel::kInfo, "one");
  EXPECT_TRUE(log.Flush(kPatience));
  EXPECT_EQ(log.dropped(), 1u);
  // When there is one again, it is told.
  SetUp();
  log.Write(LogLevel::kInfo, "two");
  EXPECT_EQ(Receive()["MESSAGE"], "two");
  EXPECT_TRUE(ReceiveUntil("1 lines of the log are missing"));
}

TEST_F(JournalTest, AChildOfForkLogs) {
  QueuedLog log(Options().queue);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    log.Write(LogLevel::kInfo, "of the child");
    _exit(0);
  }
  EXPECT_EQ(Receive()["MESSAGE"], "of the child");
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace skiff::tools
