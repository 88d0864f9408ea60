#include "tools/common/stderr_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/common/journal_stream.h"
#include "tools/common/log_format.h"
#include "transport/log/log_event.h"

namespace skiff::tools {
namespace {

using ::testing::MatchesRegex;

// Standard error is a pipe until the test ends.
class StderrLogTest : public ::testing::Test {
 protected:
  StderrLogTest() : old_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    EXPECT_EQ(dup2(pipe_[1], STDERR_FILENO), STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
  }
  void TearDown() override {
    Restore();
    close(pipe_[0]);
    close(pipe_[1]);
    unsetenv("JOURNAL_STREAM");
  }

  // As systemd does it for a service.
  static void SetStream(int inodes_beyond) {
    struct stat file = {};
    ASSERT_EQ(fstat(STDERR_FILENO, &file), 0);
    setenv("JOURNAL_STREAM",
           absl::StrCat(file.st_dev, ":", file.st_ino + inodes_beyond).c_str(),
           1);
  }

  // Logs by the queue, and without it.
  std::string Logged() {
    {
      StderrLog log{StderrLog::Options()};
      log.Write(protocol::LogLevel::kError, "one");
      log.Write(protocol::LogLevel::kWarning, "two");
      log.Write(protocol::LogLevel::kInfo, "three");
      log.Write(protocol::LogLevel::kDebug, "four\n<0>forged");
    }
    LogToStderr(protocol::LogLevel::kError, "five");
    return Written();
  }
  std::string LoggedAsJson() {
    StderrLog::Options options;
    options.format = LogFormat::kJson;
    {
      StderrLog log(options);
      const std::vector<transport::LogField> fields = {
          {transport::kLogAddress, "10.0.0.2:1"}};
      transport::LogTo(log.Sink(),
                       {protocol::LogLevel::kWarning, "one", fields});
      log.Sink()(protocol::LogLevel::kDebug, "too much");
      log.Sink()(protocol::LogLevel::kInfo, "two");
    }
    return Written();
  }

 private:
  std::string Written() {
    Restore();
    char text[4096];
    const ssize_t size = read(pipe_[0], text, sizeof(text));
    return size < 0 ? "nothing" : std::string(text, size);
  }
  void Restore() {
    if (old_ < 0) return;
    EXPECT_EQ(dup2(old_, STDERR_FILENO), STDERR_FILENO);
    close(old_);
    old_ = -1;
  }

  int old_;
  int pipe_[2];
};

constexpr char kPlain[] =
    "2[^ ]*Z error one\n2[^ ]*Z warn  two\n2[^ ]*Z info  three\n"
    "2[^ ]*Z debug four\\\\x0a<0>forged\n2[^ ]*Z error five\n";

TEST_F(StderrLogTest, LinesHaveNoPriorityWithoutAJournal) {
  EXPECT_FALSE(IsJournalStream(STDERR_FILENO));
  EXPECT_THAT(Logged(), MatchesRegex(kPlain));
}

TEST_F(StderrLogTest, LinesHaveNoPriorityWhereTheJournalIsAnotherFile) {
  SetStream(1);
  EXPECT_FALSE(IsJournalStream(STDERR_FILENO));
  EXPECT_THAT(Logged(), MatchesRegex(kPlain));
}

TEST_F(StderrLogTest, TheJournalGetsThePriorityOfEachLine) {
  SetStream(0);
  EXPECT_TRUE(IsJournalStream(STDERR_FILENO));
  EXPECT_THAT(Logged(),
              MatchesRegex("<3>2[^ ]*Z error one\n<4>2[^ ]*Z warn  two\n"
                           "<6>2[^ ]*Z info  three\n"
                           "<7>2[^ ]*Z debug four\\\\x0a<0>forged\n"
                           "<3>2[^ ]*Z error five\n"));
}

TEST_F(StderrLogTest, JsonHasTheFieldsOfEvents) {
  EXPECT_THAT(LoggedAsJson(),
              MatchesRegex("\\{\"time\":\"2[^ ]*Z\",\"level\":\"warning\","
                           "\"message\":\"one\",\"address\":\"10.0.0.2:1\"\\}\n"
                           "\\{\"time\":\"2[^ ]*Z\",\"level\":\"info\","
                           "\"message\":\"two\"\\}\n"));
}

TEST_F(StderrLogTest, TheJournalAlsoGetsThePriorityOfJson) {
  SetStream(0);
  EXPECT_THAT(LoggedAsJson(), MatchesRegex("<4>\\{.*\\}\n<6>\\{.*\\}\n"));
}

TEST_F(StderrLogTest, AVariableThatIsNoPairIsNoJournal) {
  for (const char* value : {"", ":", "8", "8:", "a:b"}) {
    setenv("JOURNAL_STREAM", value, 1);
    EXPECT_FALSE(IsJournalStream(STDERR_FILENO)) << value;
  }
  SetStream(0);
  EXPECT_FALSE(IsJournalStream(-1));
}

}  // namespace
}  // namespace skiff::tools
