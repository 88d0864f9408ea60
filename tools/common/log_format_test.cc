#include "tools/common/log_format.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using transport::LogField;
using transport::LogLevel;

const absl::Time kNow =
    absl::FromUnixMicros(1795251635123456);  // 2026-11-21 09:00:35 UTC.

TEST(FormatJsonLineTest, IsOneObjectWithTheFieldsInOrder) {
  const std::vector<LogField> fields = {{transport::kLogAddress, "10.0.0.2:1"},
                                        {transport::kLogLun, "16383"},
                                        {transport::kLogReason, "why"}};
  EXPECT_EQ(
      FormatJsonLine(kNow, {LogLevel::kWarning, "closing: why", fields}),
      absl::StrCat(
          "{\"time\":\"",
          absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", kNow, absl::UTCTimeZone()),
          "\",\"level\":\"warning\",\"message\":\"closing: why\","
          "\"address\":\"10.0.0.2:1\",\"lun\":16383,"
          "\"reason\":\"why\"}\n"));
  EXPECT_THAT(FormatJsonLine(kNow, {LogLevel::kInfo, "x", {}}),
              HasSubstr(".123456Z\",\"level\":\"info\",\"message\":\"x\"}"));
}

TEST(FormatJsonLineTest, HasTheNameOfEachLevel) {
  EXPECT_THAT(FormatJsonLine(kNow, {LogLevel::kError, "x", {}}),
              HasSubstr("\"level\":\"error\""));
  EXPECT_THAT(FormatJsonLine(kNow, {LogLevel::kDebug, "x", {}}),
              HasSubstr("\"level\":\"debug\""));
}

TEST(FormatJsonLineTest, WhatPeersSendStaysInItsValue) {
  const std::string hostile = "a\"b\\c\nd\x01\x7f\",\"level\":\"error";
  const std::vector<LogField> fields = {{transport::kLogInitiator, hostile}};
  const std::string line =
      FormatJsonLine(kNow, {LogLevel::kInfo, hostile, fields});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["message"], hostile);
  EXPECT_EQ(json["initiator"], hostile);
  EXPECT_EQ(json["level"], "info");
}

TEST(FormatJsonLineTest, WhatIsNoUtf8IsReplaced) {
  for (const char* bad : {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80"}) {
    const std::string line = FormatJsonLine(
        kNow, {LogLevel::kInfo, absl::StrCat("a", bad, "b"), {}});
    const std::string message = nlohmann::json::parse(line)["message"];
    EXPECT_THAT(message, HasSubstr("\xef\xbf\xbd"));
    EXPECT_THAT(message, EndsWith("b"));
  }
  const std::string line =
      FormatJsonLine(kNow, {LogLevel::kInfo, "\xc3\xa9", {}});
  EXPECT_EQ(nlohmann::json::parse(line)["message"], "\xc3\xa9");
}

TEST(FormatJsonLineTest, WhatCouldDeceiveIsEscaped) {
  const std::string hostile = "a\xe2\x80\xae\x7f";
  const std::string line = FormatJsonLine(
      kNow, {LogLevel::kInfo, hostile, {{{transport::kLogTarget, hostile}}}});
  EXPECT_THAT(line, HasSubstr("\"message\":\"a\\u202e\\u007f\""));
  EXPECT_EQ(nlohmann::json::parse(line)["target"], hostile);
}

// Escapes make six bytes of one.
TEST(FormatJsonLineTest, LongLinesAreCutAndStillObjects) {
  const std::string controls(transport::kMaxLogLine, '\x01');
  const std::vector<LogField> fields = {{transport::kLogInitiator, controls},
                                        {transport::kLogReason, controls}};
  const std::string line =
      FormatJsonLine(kNow, {LogLevel::kInfo, controls, fields});
  EXPECT_LE(line.size(), transport::kMaxLogLine);
  const auto json = nlohmann::json::parse(line);
  for (const char* name : {"message", "initiator", "reason"}) {
    EXPECT_THAT(std::string(json[name]), EndsWith("\x01 ... (cut)")) << name;
  }
}

// A LUN that is no number is told as it is.
TEST(FormatJsonLineTest, ALunIsANumberIfItCanBe) {
  const std::vector<LogField> fields = {{transport::kLogLun, "0x1"}};
  EXPECT_THAT(FormatJsonLine(kNow, {LogLevel::kInfo, "x", fields}),
              HasSubstr("\"lun\":\"0x1\""));
}

}  // namespace
}  // namespace skiff::tools
