#include "tools/common/secret_file.h"

#include <stdlib.h>
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

// With the directory that systemd would have made.
class SecretCredentialTest : public ::testing::Test {
 protected:
  SecretCredentialTest() {
    setenv("CREDENTIALS_DIRECTORY", ::testing::TempDir().c_str(), 1);
  }
  void TearDown() override { unsetenv("CREDENTIALS_DIRECTORY"); }
  static std::string ProblemOf(const std::string& name) {
    return std::string(ReadSecretCredential(name).status().message());
  }
};

TEST_F(SecretCredentialTest, IsAFileOfThatName) {
  // 0440: root's, and the service's user may read it by an access control list.
  for (const mode_t mode : {0400, 0440, 0600}) {
    Write("twelve bytes", mode);
    const auto secret = ReadSecretCredential("secret");
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(secret->bytes(), "twelve bytes");
  }
}

TEST_F(SecretCredentialTest, NobodyElseMayHaveIt) {
  for (const mode_t mode : {0404, 0444, 0460, 0602}) {
    Write("twelve bytes", mode);
    EXPECT_THAT(ProblemOf("secret"), HasSubstr("chmod 600")) << mode;
  }
  Write("short one", 0400);
  EXPECT_THAT(ProblemOf("secret"), HasSubstr("9 bytes"));
}

TEST_F(SecretCredentialTest, SaysWhatToDo) {
  for (const char* name : {"", ".", "..", "a/b", "/etc/secret", "../secret"}) {
    EXPECT_THAT(ProblemOf(name), HasSubstr("is no name of a credential"))
        << name;
  }
  EXPECT_THAT(ProblemOf("none"),
              HasSubstr("add LoadCredential=none:FILE to the unit"));
  unsetenv("CREDENTIALS_DIRECTORY");
  EXPECT_THAT(ProblemOf("secret"),
              HasSubstr("CREDENTIALS_DIRECTORY is not set"));
}

}  // namespace
}  // namespace skiff::tools
