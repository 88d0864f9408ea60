#include "tools/common/secret_file.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Write(const std::string& text, mode_t mode) {
  std::string path = ::testing::TempDir() + "/secret";
  remove(path.c_str());
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

std::string Problem(const std::string& path) {
  return std::string(ReadSecretFile(path).status().message());
}

TEST(SecretFileTest, IsAllOfTheFileButOneNewline) {
  for (const char* end : {"", "\n", "\r\n"}) {
    const auto secret =
        ReadSecretFile(Write(std::string("twelve bytes") + end, 0600));
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(secret->bytes(), "twelve bytes");
  }
  EXPECT_EQ(ReadSecretFile(Write("twelve bytes\n\n", 0400))->bytes(),
            "twelve bytes\n");
}

TEST(SecretFileTest, NobodyElseMayReadIt) {
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    EXPECT_THAT(Problem(Write("twelve bytes", mode)), HasSubstr("chmod 600"))
        << mode;
  }
}

TEST(SecretFileTest, SaysWhatIsWrongAndNotTheSecret) {
  const std::string short_one = Problem(Write("short one", 0600));
  EXPECT_THAT(short_one, HasSubstr("/secret: a secret for CHAP has 9 bytes"));
  EXPECT_THAT(short_one, Not(HasSubstr("short one")));
  EXPECT_THAT(Problem(Write(std::string(300, 'x'), 0600)),
              HasSubstr("12 to 255"));
  EXPECT_THAT(Problem(Write("", 0600)), HasSubstr("0 bytes"));
  EXPECT_THAT(Problem("/nowhere/secret"), HasSubstr("/nowhere/secret"));
  EXPECT_THAT(Problem(::testing::TempDir()), HasSubstr("is no file"));
}

TEST(SecretFileTest, DoesNotWaitForAWriter) {
  const std::string path = ::testing::TempDir() + "/fifo";
  remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Problem(path), HasSubstr("is no file"));
}

}  // namespace
}  // namespace skiff::tools
