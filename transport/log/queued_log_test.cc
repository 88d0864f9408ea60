#include "transport/log/queued_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/log/log_event.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Long enough that only a log that never ends makes a test fail.
constexpr absl::Duration kPatience = absl::Seconds(60);

// A pipe with as little room as there can be: a page.
class QueuedLogTest : public ::testing::Test {
 public:
  ~QueuedLogTest() override {
    close(pipe_[0]);
    if (pipe_[1] >= 0) close(pipe_[1]);
  }

 protected:
  QueuedLogTest() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    EXPECT_GE(fcntl(pipe_[0], F_SETPIPE_SZ, 4096), 4096);
    options_.fd = pipe_[1];
    options_.max_bytes = 64u << 10;
  }

  // All there is, until whoever writes has closed the pipe.
  std::string ReadAll() {
    std::string all;
    char piece[4096];
    for (ssize_t n; (n = read(pipe_[0], piece, sizeof(piece))) != 0;) {
      if (n > 0) all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }
  static std::vector<std::string> Lines(const std::string& text) {
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  void CloseWriter() {
    close(pipe_[1]);
    pipe_[1] = -1;
  }

  int pipe_[2];
  QueuedLogOptions options_;
};

TEST_F(QueuedLogTest, WritesEveryLineInOneForm) {
  QueuedLog log(options_);
  log.Write(LogLevel::kInfo, "10.0.0.2:41234: logged in");
  log.Write(LogLevel::kError, "name\nwarn  forged\x7f");
  ASSERT_TRUE(log.Flush(kPatience));
  CloseWriter();
  const std::vector<std::string> lines = Lines(ReadAll());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], ::testing::MatchesRegex(
                            "[0-9-]+T[0-9:.]+Z info  10.0.0.2:41234: logged "
                            "in"));
  EXPECT_THAT(lines[1], HasSubstr(" error name\\x0awarn  forged\\x7f"));
}

TEST(FormatLogLineTest, WhatCouldDeceiveIsEscaped) {
  std::string tags;  // Each is escaped by as many bytes as there can be.
  for (size_t i = 0; i < kMaxLogLine; ++i) tags += "\xf3\xa0\x80\x81";
  const std::string line =
      FormatLogLine(absl::UnixEpoch(), LogLevel::kInfo,
                    absl::StrCat("\xe2\x80\xae \xff ", tags));
  EXPECT_THAT(line, HasSubstr(" info  \\u202e \\xff \\U000e0001\\U"));
  EXPECT_THAT(line, ::testing::EndsWith("1 ... (cut)\n"));
  EXPECT_LE(line.size(), kMaxLogLine);
}

// Nothing reads: the writer is stuck from the first page on, and nobody else.
TEST_F(QueuedLogTest, NobodyWaitsForAReaderThatIsStuck) {
  QueuedLog log(options_);
  constexpr int kLines = 10000;  // More than pipe and queue hold.
  for (int i = 0; i < kLines; ++i) {
    log.Write(LogLevel::kInfo, absl::StrCat("line ", i));
  }
  EXPECT_GT(log.dropped(), 0u);
  EXPECT_FALSE(log.Flush(absl::Milliseconds(1)));

  // Once there is room, the lines that are missing are counted in their place.
  std::string text;
  std::thread reader([&] { text = ReadAll(); });
  EXPECT_TRUE(log.Flush(kPatience));
  log.Write(LogLevel::kInfo, "the last one");
  EXPECT_TRUE(log.Flush(kPatience));
  CloseWriter();
  reader.join();
  uint64_t told = 0;
  int seen = 0;
  for (const std::string& line : Lines(text)) {
    if (absl::StrContains(line, "lines of the log are missing")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      uint64_t count = 0;
      ASSERT_TRUE(absl::SimpleAtoi(words.at(3), &count)) << line;
      told += count;
    } else if (absl::StrContains(line, " line ")) {
      ++seen;
    }
  }
  EXPECT_EQ(told, log.dropped());
  EXPECT_EQ(seen + static_cast<int>(told), kLines);
  EXPECT_THAT(text, HasSubstr("the last one"));
}

// The thread that is stuck in its write is left behind.
TEST_F(QueuedLogTest, AStuckReaderDoesNotHoldTheEnd) {
  options_.fd = dup(pipe_[1]);  // The thread's, for as long as it needs it.
  {
    QueuedLog log(options_);
    for (int i = 0; i < 1000; ++i) {
      log.Write(LogLevel::kInfo, std::string(200, 'x'));
    }
    EXPECT_FALSE(log.Flush(absl::Milliseconds(1)));
  }
}

TEST_F(QueuedLogTest, ADescriptorThatDoesNotBlockGetsEverything) {
  ASSERT_EQ(fcntl(pipe_[1], F_SETFL, O_NONBLOCK), 0);
  QueuedLog log(options_);
  for (int i = 0; i < 200; ++i) {
    log.Write(LogLevel::kInfo, std::string(200, 'x'));
  }
  std::string text;
  std::thread reader([&] { text = ReadAll(); });
  EXPECT_TRUE(log.Flush(kPatience));
  CloseWriter();
  reader.join();
  EXPECT_THAT(Lines(text), SizeIs(200));
}

TEST_F(QueuedLogTest, LinesThatCannotBeWrittenAreCounted) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  options_.fd = full;
  QueuedLog log(options_);
  log.Write(LogLevel::kInfo, "one");
  EXPECT_TRUE(log.Flush(kPatience));
  EXPECT_EQ(log.dropped(), 1u);
  // What can be written from now on starts with how many are missing.
  ASSERT_EQ(dup2(pipe_[1], full), full);
  log.Write(LogLevel::kInfo, "two");
  ASSERT_TRUE(log.Flush(kPatience));
  close(full);
  CloseWriter();
  const std::string text = ReadAll();
  EXPECT_THAT(text, HasSubstr("1 lines of the log are missing"));
  EXPECT_THAT(text, HasSubstr("two"));
}

TEST_F(QueuedLogTest, ASinkFiltersAndOutlivesItsLog) {
  LogSink sink;
  {
    QueuedLog log(options_);
    sink = log.Sink(LogLevel::kWarning);
    sink(LogLevel::kInfo, "too much");
    sink(LogLevel::kWarning, "just so");
    ASSERT_TRUE(log.Flush(kPatience));
  }
  sink(LogLevel::kError, "too late");
  // The thread may take a moment to let go of what it shares with the sink.
  CloseWriter();
  const std::string text = ReadAll();
  EXPECT_THAT(text, HasSubstr("just so"));
  EXPECT_THAT(text, Not(HasSubstr("too much")));
}

TEST_F(QueuedLogTest, AChildOfForkLogsAndRepeatsNothing) {
  ASSERT_GT(fcntl(pipe_[0], F_SETPIPE_SZ, 65536), 4096);
  QueuedLog log(options_);
  log.Write(LogLevel::kInfo, "of the parent");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    log.Write(LogLevel::kInfo, "of the child");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(log.Flush(kPatience));
  CloseWriter();
  const std::string text = ReadAll();
  EXPECT_THAT(Lines(text), SizeIs(2)) << text;
  EXPECT_THAT(text, HasSubstr("of the child"));
}

TEST_F(QueuedLogTest, EventsComeWithTheirFieldsInTheFormThatIsWanted) {
  options_.format = [](absl::Time, const LogEvent& event) {
    return absl::StrCat(event.message, " at ", ValueOf(event, kLogAddress),
                        "\n");
  };
  QueuedLog log(options_);
  const std::vector<LogField> fields = {{kLogAddress, "10.0.0.2:1"}};
  LogTo(log.Sink(LogLevel::kInfo), {LogLevel::kInfo, "logged in", fields});
  LogTo(log.Sink(LogLevel::kInfo), {LogLevel::kDebug, "too much", fields});
  log.Write(LogLevel::kInfo, "nobody");
  ASSERT_TRUE(log.Flush(kPatience));
  CloseWriter();
  EXPECT_EQ(ReadAll(), "logged in at 10.0.0.2:1\nnobody at \n");
}

// The thread tells of it without anybody who logs.
TEST_F(QueuedLogTest, WhatRepeatsIsCounted) {
  options_.repeat_window = absl::Milliseconds(10);
  QueuedLog log(options_);
  const std::vector<LogField> fields = {{kLogAddress, "10.0.0.2:1"}};
  for (int i = 0; i < 1000; ++i) {
    log.Write({LogLevel::kInfo, "again", fields});
  }
  std::string text;
  char piece[4096];
  while (!absl::StrContains(text, "more in")) {
    const ssize_t n = read(pipe_[0], piece, sizeof(piece));
    ASSERT_GT(n, 0);
    text.append(piece, static_cast<size_t>(n));
  }
  // The thread is done with the pipe.
  EXPECT_TRUE(log.Flush(kPatience));
}

TEST_F(QueuedLogTest, WhatIsHeldBackIsToldBeforeTheEnd) {
  options_.repeat_window = absl::Hours(1);
  const std::vector<LogField> fields = {{kLogAddress, "10.0.0.2:1"}};
  {
    QueuedLog log(options_);
    for (int i = 0; i < 3; ++i) log.Write({LogLevel::kInfo, "one", fields});
    ASSERT_TRUE(log.Flush(kPatience));
    for (int i = 0; i < 5; ++i) log.Write({LogLevel::kInfo, "two", fields});
  }
  std::string text;
  char piece[4096];
  while (!absl::StrContains(text, "two (4 more in")) {
    const ssize_t n = read(pipe_[0], piece, sizeof(piece));
    ASSERT_GT(n, 0);
    text.append(piece, static_cast<size_t>(n));
  }
  EXPECT_THAT(text, HasSubstr("one (2 more in"));
  EXPECT_THAT(Lines(text), SizeIs(4)) << text;
}

void LogAndAbort() {
  QueuedLog log{QueuedLogOptions()};
  log.WriteOnFatalSignals();
  for (int i = 0; i < 3000; ++i) log.Write(LogLevel::kInfo, "one of many");
  log.Write(LogLevel::kInfo, "the last words");
  std::abort();
}

TEST(QueuedLogDeathTest, ACrashWritesWhatIsKnownAndIsStillACrash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LogAndAbort(), ::testing::KilledBySignal(SIGABRT),
              "the last words");
}

}  // namespace
}  // namespace skiff::transport
