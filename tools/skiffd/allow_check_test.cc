// Who may use a target, as configurations say it.

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config_test_util.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kPlain[] =
    "target { name: \"iqn.2026-11.com.example:a\" lun { ram { size: \"1MiB\" } "
    "} }\n";

class AllowTest : public ConfigTest {
 protected:
  AllowTest() {
    MakeSecret("one");
    MakeSecret("two");
  }
  void MakeSecret(const std::string& name) const {
    std::ofstream(absl::StrCat(directory_, "/", name))
        << "the secret of " << name;
    EXPECT_EQ(chmod(absl::StrCat(directory_, "/", name).c_str(), 0600), 0);
  }
  // Of a target with LUNs 0 and 7 and the accounts one and two; `rules` begin
  // at line 6.
  std::vector<std::string> In(const std::string& rules) {
    return Problems(absl::StrCat(
        "target { name: \"iqn.2026-11.com.example:a\"\n"
        " account { name: \"one\" secret_file: \"DIR/one\" }\n"
        " account { name: \"two\" secret_file: \"DIR/two\"\n"
        "  initiator_name: \"iqn.2026-11.com.example:two\" }\n"
        " lun { ram { size: \"1MiB\" } } lun { lun: 7 ram { size: \"1MiB\" } }"
        "\n",
        rules, "\n}\n"));
  }
  const std::vector<scsi::AccessRule>& rules() const {
    return config_.targets[0].rules;
  }
};

TEST_F(AllowTest, TakesWhatIsWritten) {
  ASSERT_THAT(In(" allow { initiator_name: \"iqn.2026-11.com.EXAMPLE:x\"\n"
                 "  account: \"one\" address: \"10.0.0.0/8\" address: \"::1\"\n"
                 "  map { lun: 7 as: 0 read_only: true } map { lun: 0 as: 1 } }"
                 "\n allow { account: \"two\" read_only: true }"),
              IsEmpty());
  ASSERT_EQ(rules().size(), 2u);
  const scsi::AccessRule& first = rules()[0];
  EXPECT_EQ(first.initiator, "iqn.2026-11.com.example:x");
  EXPECT_EQ(first.authenticated_as, "one");
  ASSERT_EQ(first.addresses.size(), 2u);
  EXPECT_EQ(first.addresses[0].ToString(), "10.0.0.0/8");
  ASSERT_TRUE(first.luns.has_value());
  ASSERT_EQ(first.luns->size(), 2u);
  EXPECT_EQ(first.luns->at(0).lun, 7u);
  EXPECT_EQ(first.luns->at(0).seen, 0u);
  EXPECT_TRUE(first.luns->at(0).read_only);
  EXPECT_FALSE(first.luns->at(1).read_only);
  EXPECT_FALSE(rules()[1].luns.has_value());
  EXPECT_TRUE(rules()[1].read_only);
  EXPECT_FALSE(config_.targets[0].anybody);
}

TEST_F(AllowTest, AMapKeepsTheNumberThatIsNotChanged) {
  ASSERT_THAT(In(" allow { map { lun: 7 } }"), IsEmpty());
  EXPECT_EQ(rules()[0].luns->at(0).seen, 7u);
}

TEST_F(AllowTest, WithoutRulesWhoeverLogsInUsesAll) {
  ASSERT_THAT(In(""), IsEmpty());
  ASSERT_EQ(rules().size(), 1u);
  EXPECT_TRUE(rules()[0].initiator.empty());
  EXPECT_FALSE(config_.targets[0].anybody);
  ASSERT_THAT(Problems(kPlain), IsEmpty());
  EXPECT_EQ(rules().size(), 1u);
  EXPECT_TRUE(config_.targets[0].anybody);
}

TEST_F(AllowTest, TellsWhatIsWrongAndWhere) {
  const struct {
    std::string rules;
    std::string problem;
  } cases[] = {
      {" allow { address: \"10.0.0.0/8\"\n  address: \"pigeon\" }",
       "f:7: 'pigeon' is no IP address and no range of them; write one such as "
       "10.0.0.1, 10.0.0.0/8 or fd00::/16"},
      {" allow { address: \"10.0.0.0/8\" address: \"10.1.2.3\" }",
       "f:6: address 10.1.2.3 is in one before it; take one of them out"},
      {" allow { account: \"three\" }",
       "f:6: target iqn.2026-11.com.example:a has no account three; correct "
       "the name, or add account { name: \"three\" ... } to the target"},
      {" allow { account: \"two\"\n"
       "  initiator_name: \"iqn.2026-11.com.example:x\" }",
       "f:6: nobody can fit this: account two at f:3 is for "
       "iqn.2026-11.com.example:two alone"},
      {" allow { map { as: 1 } }", "f:6: map needs the LUN of the target: lun"},
      {" allow {\n  map { lun: 5 } }",
       "f:7: target iqn.2026-11.com.example:a has no LUN 5"},
      {" allow { map { lun: 16384 } }",
       "f:6: lun is 16384; it can be 0 to 16383"},
      {" allow { map { lun: 7 } map { lun: 7 as: 8 } }",
       "f:6: LUN 7 is mapped twice; an initiator sees each LUN once"},
      {" allow { map { lun: 0 as: 7 }\n  map { lun: 7 } }",
       "f:7: LUN 0 is seen as 7 already; give each another number by as"},
      {" allow { account: \"one\" }\n"
       " allow { account: \"one\" address: \"10.0.0.1\" }",
       "f:7: this can never count: whoever fits it fits the one at f:6, which "
       "comes first; put it before"},
      {" access: OPEN",
       "f:6: access: OPEN says that everybody may use the target, which has "
       "accounts or allow rules; take one out"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(In(c.rules), ElementsAre(c.problem)) << c.rules;
  }
}

TEST_F(AllowTest, ARuleThatNeverCountsNamesTheFirstThatCoversIt) {
  const std::string never =
      "f:9: this can never count: whoever fits it fits the one at ";
  const struct {
    std::string rules;
    std::string first;  // Empty: it may count.
  } cases[] = {
      {" allow { address: \"10.0.0.0/8\" }\n allow { address: \"10.1.0.0/16\""
       " }\n allow { initiator_name: \"iqn.2026-11.com.example:x\" }\n"
       " allow { initiator_name: \"iqn.2026-11.com.example:x\"\n"
       "  account: \"one\" address: \"10.1.2.3\" }",
       "f:6"},
      {" allow { address: \"10.0.0.0/8\" address: \"fd00::/16\" }\n"
       " allow { address: \"::/1\" }\n allow { account: \"one\" }\n"
       " allow { address: \"10.0.0.1\" address: \"fd00:1::/32\" }",
       "f:6"},
      {" allow { address: \"10.0.0.0/8\" }\n"
       " allow { address: \"fd00::/16\" }\n allow { account: \"one\" }\n"
       " allow { address: \"10.0.0.1\" address: \"fd00:1::/32\" }",
       ""},
      {" allow { address: \"0.0.0.0/0\" }\n"
       " allow { address: \"10.0.0.0/32\" }\n allow { account: \"one\" }\n"
       " allow { address: \"::/0\" }",
       ""},
      {" allow { address: \"0.0.0.0/0\" }\n allow { account: \"one\" }\n"
       " allow { initiator_name: \"iqn.2026-11.com.example:x\" }\n"
       " allow { address: \"::ffff:10.0.0.1\" }",
       "f:6"},
  };
  for (const auto& c : cases) {
    const std::vector<std::string> problems = In(c.rules);
    std::vector<std::string> last;
    std::copy_if(problems.begin(), problems.end(), std::back_inserter(last),
                 [](const std::string& one) { return one[2] == '9'; });
    if (c.first.empty()) {
      EXPECT_THAT(last, IsEmpty()) << c.rules;
    } else {
      EXPECT_THAT(last, ElementsAre(never + c.first +
                                    ", which comes first; put it before"))
          << c.rules;
    }
  }
}

// The time limit of the test is what looking at all pairs would miss.
TEST_F(AllowTest, AsManyRulesAsATargetCanHave) {
  const auto rule = [](int i) {
    switch (i % 4) {
      case 0:
        return absl::StrCat("initiator_name: \"iqn.2026-11.com.example:", i,
                            "\"");
      case 1:
        return absl::StrCat("address: \"10.", i >> 16, ".", (i >> 8) & 255, ".",
                            i & 255, "\"");
      case 2:
        return absl::StrCat(
            "account: \"one\" address: \"fd00::1\" address: "
            "\"fd00:",
            absl::Hex(i), "::/32\"");
      default:
        return absl::StrCat("initiator_name: \"iqn.2026-11.com.example:", i,
                            "\" account: \"one\"");
    }
  };
  std::string all;
  for (int i = 0; i < 65536; ++i) {
    absl::StrAppend(&all, "allow { ", rule(i), " map { lun: 7 } }\n");
  }
  EXPECT_THAT(In(all), IsEmpty());
  EXPECT_EQ(rules().size(), 65536u);
  EXPECT_THAT(In(all + "allow { }"),
              ElementsAre("f:65542: a target can have 65536 allow rules, and "
                          "iqn.2026-11.com.example:a has 65537; join rules: "
                          "one can have several addresses"));
}

TEST_F(AllowTest, AsManyAddressesAsARuleCanHave) {
  std::string all = "allow {";
  for (int i = 0; i < 1024; ++i) {
    absl::StrAppend(&all, " address: \"10.0.", i / 256, ".", i % 256, "\"\n");
  }
  EXPECT_THAT(In(all + "}"), IsEmpty());
  EXPECT_THAT(
      In(all + " address: \"fd00::1\" }"),
      ElementsAre("f:1030: a rule can have 1024 addresses, and this one has "
                  "1025; write ranges of them, or more rules"));
}

// --- Portals that others can reach.

std::string Exposed(const std::string& portal) {
  return absl::StrCat(
      "f:1: everybody who reaches ", portal,
      " could read and write the disks of iqn.2026-11.com.example:a; say who "
      "may use it by account or allow, or that it is meant: access: OPEN "
      "(quick form: --open)");
}

TEST_F(AllowTest, OutsideTheLoopbackInterfaceSomebodyHasToBeNamed) {
  for (const char* const portal :
       {"tcp://0.0.0.0:3260", "tcp://[::]:3260", "tcp://10.0.0.1:3260",
        "tcp://[fd00::1]:3260", "tcp://example.com:3260"}) {
    EXPECT_THAT(Problems(absl::StrCat(kPlain, "portal: \"", portal, "\"\n")),
                ElementsAre(Exposed(portal)));
  }
  for (const char* const portal :
       {"tcp://127.0.0.2:3260", "tcp://[::1]:3260", "tcp://localhost:3260"}) {
    EXPECT_THAT(Problems(absl::StrCat(kPlain, "portal: \"", portal, "\"\n")),
                IsEmpty());
  }
}

TEST_F(AllowTest, ARuleAnAccountOrAWordIsEnough) {
  const std::string portal = "portal: \"tcp://[::]:3260\"\n";
  for (const char* const words :
       {"access: OPEN", "allow { address: \"10.0.0.0/8\" }",
        "account { name: \"one\" secret_file: \"DIR/one\" }"}) {
    EXPECT_THAT(Problems(absl::StrCat(
                    portal, "target { name: \"iqn.2026-11.com.example:a\" ",
                    words, " lun { ram { size: \"1MiB\" } } }\n")),
                IsEmpty());
  }
}

TEST_F(AllowTest, TheQuickFormHasAFlag) {
  const QuickFlag listen = {QuickFlag::Kind::kListen, "tcp://[::]:3260"};
  const QuickFlag target = {QuickFlag::Kind::kTarget,
                            "iqn.2026-11.com.example:a"};
  const QuickFlag lun = {QuickFlag::Kind::kLun, "ram:1MiB"};
  EXPECT_THAT(QuickProblems({listen, target, lun}), ::testing::SizeIs(1));
  EXPECT_THAT(
      QuickProblems({listen, target, lun, {QuickFlag::Kind::kOpen, ""}}),
      IsEmpty());
}

}  // namespace
}  // namespace skiff::tools::skiffd
