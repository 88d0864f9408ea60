// Where the secrets of accounts come from.

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config_test_util.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AccountTest : public ConfigTest {
 protected:
  AccountTest() {
    for (const std::string& name : {std::string("one"), std::string("two")}) {
      const std::string path = directory_ + "/" + name;
      std::ofstream(path) << "the secret of " << name << "\n";
      EXPECT_EQ(chmod(path.c_str(), 0400), 0);
    }
    setenv("CREDENTIALS_DIRECTORY", directory_.c_str(), 1);
  }
  void TearDown() override { unsetenv("CREDENTIALS_DIRECTORY"); }
  // Of a target with this in its account, on line 2.
  std::vector<std::string> In(const std::string& fields) {
    return Problems(
        "target { name: \"iqn.2026-11.com.example:a\" lun { ram { size: "
        "\"1MiB\" } }\n account { name: \"a\" " +
        fields + " } }\n");
  }
};

TEST_F(AccountTest, SecretsAreInFilesOrCredentials) {
  for (const char* secret :
       {"secret_file: \"DIR/one\"", "secret_credential: \"one\""}) {
    for (const char* own :
         {"own_secret_file: \"DIR/two\"", "own_secret_credential: \"two\""}) {
      ASSERT_THAT(In(std::string(secret) + " " + own), IsEmpty());
      const protocol::ChapAccount& chap = config_.targets[0].accounts[0].chap;
      EXPECT_EQ(chap.secret.bytes(), "the secret of one");
      EXPECT_EQ(chap.target->secret.bytes(), "the secret of two");
    }
  }
}

TEST_F(AccountTest, AreInOneOfBoth) {
  EXPECT_THAT(In(""), ElementsAre("f:2: an account needs its secret_file or "
                                  "secret_credential"));
  EXPECT_THAT(
      In("secret_file: \"DIR/one\" secret_credential: \"one\""),
      ElementsAre("f:2: secret_credential is set, and secret_file too; take "
                  "out one of them"));
  EXPECT_THAT(In("secret_file: \"DIR/one\" own_secret_credential: \"two\" "
                 "own_secret_file: \"DIR/two\""),
              ElementsAre("f:2: own_secret_credential is set, and "
                          "own_secret_file too; take out one of them"));
  EXPECT_THAT(In("secret_credential: \"one\" own_name: \"me\""),
              ElementsAre("f:2: own_name needs own_secret_file or "
                          "own_secret_credential"));
}

TEST_F(AccountTest, WhatIsWrongWithACredentialIsToldOfItsLine) {
  EXPECT_THAT(In("secret_credential: \"\""),
              ElementsAre(HasSubstr("f:2: '' is no name of a credential")));
  EXPECT_THAT(In("secret_credential: \"a/b\""),
              ElementsAre(HasSubstr("f:2: 'a/b' is no name of a credential")));
  EXPECT_THAT(In("secret_credential: \"none\""),
              ElementsAre("f:2: credential none: is not in DIR; add "
                          "LoadCredential=none:FILE to the unit, and restart "
                          "the service"));
  EXPECT_THAT(In("secret_credential: \"one\" own_secret_credential: \"one\""),
              ElementsAre(HasSubstr("f:2: ")));
  unsetenv("CREDENTIALS_DIRECTORY");
  EXPECT_THAT(
      In("secret_credential: \"one\""),
      ElementsAre(HasSubstr("f:2: credential one: CREDENTIALS_DIRECTORY is "
                            "not set")));
}

}  // namespace
}  // namespace skiff::tools::skiffd
