#include "tools/skiffd/plan.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tools/skiffd/config_test_util.h"

namespace skiff::tools::skiffd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlanTest : public ConfigTest {
 protected:
  DaemonConfig Checked(const std::string& text) {
    EXPECT_THAT(Problems(text), IsEmpty()) << text;
    return config_;
  }

  // What the way from one text to the other is.
  Plan Between(const std::string& from, const std::string& to) {
    return To(Checked(from), to);
  }
  Plan To(const DaemonConfig& running, const std::string& text) {
    const DaemonConfig wanted = Checked(text);
    std::vector<std::string> problems;
    const ParsedConfig parsed = ParseConfigText(
        absl::StrReplaceAll(text, {{"DIR", directory_}}), "f", &problems);
    return PlanChanges(running, wanted, parsed);
  }

  std::vector<std::string> Changes(const Plan& plan) const {
    EXPECT_THAT(plan.refusals, IsEmpty());
    std::vector<std::string> texts;
    for (const Change& change : plan.changes) {
      texts.push_back(absl::StrCat(change.where, ": ", change.text));
    }
    return Tidy(texts);
  }
  std::vector<std::string> Refusals(const Plan& plan) const {
    return Tidy(plan.refusals);
  }

  void MakeSecret(const std::string& name, const std::string& secret) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << secret << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  }
};

std::string Target(const std::string& name, const std::string& rest) {
  return absl::StrCat("target { name: \"iqn.2026-11.com.example:", name, "\"\n",
                      rest, "\n}\n");
}

constexpr char kRam[] = "lun { ram { size: \"1MiB\" } }";

TEST_F(PlanTest, TheSameIsNoChange) {
  MakeFile("a", 4096);
  MakeSecret("s", "a secret of the client");
  const std::string text = absl::StrCat(
      "portal: \"tcp://127.0.0.1:0\" portal: \"tcp://127.0.0.1:0\"\n"
      "limits { queue_depth: 64 max_connections: 20 } "
      "reactors { count: 1 cpu: 0 spin: \"auto:200us\" }\n",
      Target("a", absl::StrCat(kRam,
                               " lun { file { path: \"DIR/a\" } } "
                               "account { name: \"c\" secret_file: "
                               "\"DIR/s\" }")));
  EXPECT_THAT(Changes(Between(text, text)), IsEmpty());
}

TEST_F(PlanTest, SettingsThatCannotChangeAreRefusedEachAtItsPlace) {
  const Plan plan = Between(
      absl::StrCat("limits { queue_depth: 64 }\n", Target("a", kRam)),
      absl::StrCat("limits {\n  queue_depth: 32\n  send_timeout: \"1s\" }\n"
                   "reactors { cpu: 0 }\nnegotiation { immediate_data: false }"
                   "\nstate_directory: \"/srv\"\n",
                   Target("a", kRam)));
  EXPECT_THAT(
      Refusals(plan),
      ::testing::UnorderedElementsAre(
          HasSubstr("f:2: limits.queue_depth cannot change while skiffd runs, "
                    "and is 64; restart skiffd for it, or put it back"),
          HasSubstr("f:3: limits.send_timeout cannot change while skiffd runs, "
                    "and is \"60s\""),
          HasSubstr("f:4: reactors.cpu is not what it was"),
          HasSubstr("f:5: negotiation.immediate_data cannot change while "
                    "skiffd runs, and is true"),
          HasSubstr("f:6: state_directory cannot change")));
}

TEST_F(PlanTest, TheSpinThatRunsIsToldAsItIsWritten) {
  for (const char* spin : {"auto", "auto:200us", "50us", "never", "always"}) {
    const auto with = [](const std::string& text) {
      return absl::StrCat("reactors { spin: \"", text, "\" }\n",
                          Target("a", kRam));
    };
    EXPECT_THAT(Refusals(Between(with(spin), with("1ms"))),
                ElementsAre(HasSubstr(absl::StrCat(
                    "f:1: reactors.spin cannot change while skiffd runs, and "
                    "is \"",
                    spin, "\";"))));
  }
}

TEST_F(PlanTest, ASettingThatIsTakenOutIsRefusedAtTheFile) {
  const Plan plan = Between(
      absl::StrCat("limits { max_connections: 64 }\n", Target("a", kRam)),
      Target("a", kRam));
  EXPECT_THAT(Refusals(plan),
              ::testing::Contains(
                  HasSubstr("f: limits.max_connections was set at start")));
}

TEST_F(PlanTest, LogLevelAndGraceChange) {
  EXPECT_THAT(
      Changes(Between(Target("a", kRam),
                      absl::StrCat("log_level: \"debug\"\nshutdown_grace: "
                                   "\"1s\"\nrestart_grace: \"7s\"\n",
                                   Target("a", kRam)))),
      ElementsAre("f:1: log_level is \"debug\"",
                  "f:2: shutdown_grace is \"1s\"",
                  "f:3: restart_grace is \"7s\""));
}

TEST_F(PlanTest, PortalsAreToldApartByAddressAndNumber) {
  EXPECT_THAT(
      Changes(Between(absl::StrCat("portal: \"tcp://127.0.0.1:0\"\n"
                                   "portal: \"tcp://127.0.0.1:0\"\n"
                                   "portal: \"tcp://127.0.0.1:3261\"\n",
                                   Target("a", kRam)),
                      absl::StrCat("portal: \"tcp://127.0.0.1:3262\"\n"
                                   "portal: \"tcp://127.0.0.1:0\"\n",
                                   Target("a", kRam)))),
      ElementsAre(
          "f: portal tcp://127.0.0.1:0 is closed",
          "f: portal tcp://127.0.0.1:3261 is closed",
          "tcp://127.0.0.1:3262: portal tcp://127.0.0.1:3262 is opened"));
}

TEST_F(PlanTest, WhatGoesGoesBeforeAccessAndWhatComesBehindIt) {
  MakeSecret("s", "a secret of the client");
  const Plan plan = Between(
      absl::StrCat(Target("a", absl::StrCat(kRam, kRam)), Target("b", kRam)),
      absl::StrCat(Target("a", absl::StrCat(kRam,
                                            "account { name: \"c\" "
                                            "secret_file: \"DIR/s\" }")),
                   Target("c", kRam)));
  EXPECT_THAT(
      Changes(plan),
      ElementsAre(
          "f: target iqn.2026-11.com.example:b is removed",
          "f: iqn.2026-11.com.example:a LUN 1 is removed: a RAM disk of 1 MiB",
          "f:1: the accounts of iqn.2026-11.com.example:a are others",
          "f:4: target iqn.2026-11.com.example:c is added",
          "f:5: iqn.2026-11.com.example:c LUN 0 is added: a RAM disk of "
          "1 MiB"));
  EXPECT_TRUE(plan.changes[0].disturbs());
  EXPECT_TRUE(plan.changes[1].disturbs());
  EXPECT_FALSE(plan.changes[2].disturbs());
}

TEST_F(PlanTest, ASecretThatChangedIsAChange) {
  const std::string text =
      Target("a", absl::StrCat(kRam,
                               "account { name: \"c\" secret_file: "
                               "\"DIR/s\" }"));
  MakeSecret("s", "a secret of the client");
  const DaemonConfig running = Checked(text);
  std::filesystem::remove(directory_ + "/s");
  MakeSecret("s", "another one of the client");
  EXPECT_THAT(
      Changes(To(running, text)),
      ElementsAre("f:1: the accounts of iqn.2026-11.com.example:a are others"));
}

TEST_F(PlanTest, AnAliasChanges) {
  EXPECT_THAT(
      Changes(Between(Target("a", kRam),
                      Target("a", absl::StrCat(kRam, "alias: \"x\"")))),
      ElementsAre("f:1: the alias of iqn.2026-11.com.example:a is \"x\""));
}

TEST_F(PlanTest, ARamDiskIsNotReplacedByAnEmptyOne) {
  EXPECT_THAT(Refusals(Between(Target("a", kRam),
                               Target("a", "lun { ram { size: \"2MiB\" } }"))),
              ElementsAre(AllOf(HasSubstr("f:2: the RAM disk of "),
                                HasSubstr("what is in it is lost"))));
}

TEST_F(PlanTest, WhatInitiatorsSeeOfALunChangesOverTheSameMedium) {
  const Plan plan =
      Between(Target("a", kRam),
              Target("a", "lun { ram { size: \"1MiB\" } serial: \"S\" }"));
  EXPECT_THAT(Changes(plan),
              ElementsAre("f:2: iqn.2026-11.com.example:a LUN 0 is replaced: "
                          "it looks different to initiators"));
  EXPECT_EQ(plan.changes[0].medium_of, LunKey("iqn.2026-11.com.example:a", 0));
  EXPECT_TRUE(plan.changes[0].disturbs());
}

TEST_F(PlanTest, AnotherFileReplacesTheLun) {
  MakeFile("a", 4096);
  MakeFile("b", 4096);
  const Plan plan = Between(Target("a", "lun { file { path: \"DIR/a\" } }"),
                            Target("a", "lun { file { path: \"DIR/b\" } }"));
  EXPECT_THAT(Changes(plan),
              ElementsAre("f:2: iqn.2026-11.com.example:a LUN 0 is replaced: "
                          "file DIR/b in place of file DIR/a"));
  EXPECT_EQ(plan.changes[0].medium_of, std::nullopt);
}

TEST_F(PlanTest, AFileThatMovesStaysOpen) {
  MakeFile("a", 4096);
  const Plan plan = Between(
      Target("a", absl::StrCat(kRam, "lun { file { path: \"DIR/a\" } }")),
      absl::StrCat(Target("a", kRam),
                   Target("b", "lun { file { path: \"DIR/a\" } }")));
  EXPECT_THAT(
      Changes(plan),
      ElementsAre(
          "f: iqn.2026-11.com.example:a LUN 1 is removed: file DIR/a",
          "f:4: target iqn.2026-11.com.example:b is added",
          "f:5: iqn.2026-11.com.example:b LUN 0 is added: file DIR/a, until "
          "now iqn.2026-11.com.example:a LUN 1"));
  EXPECT_EQ(plan.changes[2].medium_of, LunKey("iqn.2026-11.com.example:a", 1));
}

TEST_F(PlanTest, HowAFileIsOpenedStays) {
  MakeFile("a", 4096);
  const std::string alike = "lun { file { path: \"DIR/a\" } }";
  for (const char* other :
       {"lun { file { path: \"DIR/a\" direct: true } }",
        "lun { file { path: \"DIR/a\" queue_depth: 7 } }",
        "lun { file { path: \"DIR/a\" } block_size: 4096 }",
        "lun { file { path: \"DIR/a\" } read_only: true }",
        "lun { lun: 7 file { path: \"DIR/a\" } read_only: true }"}) {
    EXPECT_THAT(Refusals(Between(Target("a", alike), Target("a", other))),
                ElementsAre(HasSubstr("f:2: block_size, read_only, direct and "
                                      "queue_depth of DIR/a cannot change")))
        << other;
  }
}

TEST_F(PlanTest, AFileIsServedReadOnlyOnceMore) {
  MakeFile("a", 4096);
  const std::string lun = "lun { file { path: \"DIR/a\" } read_only: true }";
  const Plan plan =
      Between(Target("a", lun), Target("a", absl::StrCat(lun, "\n", lun)));
  EXPECT_THAT(Changes(plan),
              ElementsAre("f:3: iqn.2026-11.com.example:a LUN 1 is added: file "
                          "DIR/a"));
  EXPECT_EQ(plan.changes[0].medium_of, std::nullopt);
}

TEST_F(PlanTest, RulesAreAccess) {
  const std::string one = "allow { address: \"10.0.0.1\" } ";
  const std::string other = "allow { address: \"10.0.0.2\" } ";
  EXPECT_THAT(
      Changes(Between(Target("a", one + kRam), Target("a", one + kRam))),
      IsEmpty());
  EXPECT_THAT(
      Changes(Between(Target("a", one + kRam), Target("a", other + kRam))),
      ElementsAre("f:1: the access rules of iqn.2026-11.com.example:a are "
                  "others"));
}

TEST_F(PlanTest, MetricsComeAndGo) {
  const std::string target = Target("a", kRam);
  const std::string served = "metrics { listen: \"127.0.0.1:0\" }\n" + target;
  EXPECT_THAT(Changes(Between(target, served)),
              ElementsAre("f:1: metrics are served at 127.0.0.1:0"));
  EXPECT_THAT(Changes(Between(served, target)),
              ElementsAre(HasSubstr("metrics are not served")));
  EXPECT_THAT(Changes(Between(served, served)), IsEmpty());
}

TEST_F(PlanTest, AFileGrowsAndShrinks) {
  MakeFile("a", 4096);
  const std::string text = Target("a", "lun { file { path: \"DIR/a\" } }");
  const DaemonConfig running = Checked(text);
  std::filesystem::resize_file(directory_ + "/a", 8192);
  const Plan grown = To(running, text);
  EXPECT_THAT(Changes(grown),
              ElementsAre("f:2: iqn.2026-11.com.example:a LUN 0 grows from "
                          "4 KiB to 8 KiB: file DIR/a"));
  EXPECT_EQ(grown.changes[0].bytes, 8192u);
  EXPECT_FALSE(grown.changes[0].disturbs());
  // In words of the configuration, too.
  EXPECT_THAT(Changes(To(running, Target("a",
                                         "lun { file { path: \"DIR/a\" size: "
                                         "\"8KiB\" } }"))),
              ElementsAre(HasSubstr("LUN 0 grows from 4 KiB to 8 KiB")));

  std::filesystem::resize_file(directory_ + "/a", 2048);
  const Plan shrunk = To(running, text);
  EXPECT_THAT(Changes(shrunk),
              ElementsAre("f:2: iqn.2026-11.com.example:a LUN 0 shrinks from "
                          "4 KiB to 2 KiB: file DIR/a"));
  EXPECT_TRUE(shrunk.changes[0].disturbs());
}

TEST_F(PlanTest, AFileGrowsOnItsWayToAnotherLun) {
  MakeFile("a", 4096);
  const std::string file = "lun { file { path: \"DIR/a\" } }";
  const DaemonConfig running = Checked(Target("a", file + kRam));
  std::filesystem::resize_file(directory_ + "/a", 8192);
  EXPECT_THAT(
      Changes(To(running, Target("a", std::string("lun { lun: 1 ") +
                                          std::string(kRam).substr(6)) +
                              Target("b", file))),
      ElementsAre(HasSubstr("a LUN 0 grows from 4 KiB to 8 KiB"),
                  HasSubstr("a LUN 0 is removed"), HasSubstr("target"),
                  HasSubstr("b LUN 0 is added: file DIR/a, until now")));
}

TEST_F(PlanTest, AnotherFileAtThePathIsNotTakenForTheServedOne) {
  MakeFile("a", 4096);
  const std::string text = Target("a", "lun { file { path: \"DIR/a\" } }");
  const DaemonConfig running = Checked(text);
  MakeFile("b", 4096);
  std::filesystem::rename(directory_ + "/b", directory_ + "/a");
  EXPECT_THAT(Refusals(To(running, text)),
              ElementsAre(HasSubstr("f:2: DIR/a is another file than the one "
                                    "that is served")));
}

}  // namespace
}  // namespace skiff::tools::skiffd
