#include "tools/skiffd/settings.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/common/read_file.h"
#include "tools/skiffd/config.pb.h"

namespace skiff::tools::skiffd {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

std::string NameOf(const Setting& setting) {
  return *setting.section == '\0'
             ? setting.name
             : absl::StrCat(setting.section, ".", setting.name);
}

// Those of a message, and of the messages that are in it once.
void CollectFields(const Descriptor* message, const std::string& prefix,
                   std::vector<const FieldDescriptor*>* fields,
                   std::vector<std::string>* names) {
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      fields->push_back(field);
      names->push_back(prefix + field->name());
    } else if (!field->is_repeated()) {
      CollectFields(field->message_type(), absl::StrCat(field->name(), "."),
                    fields, names);
    }
  }
}

// Whether Setting::Read() can read it.
bool CanRead(const Setting& setting, const FieldDescriptor* field) {
  if (std::holds_alternative<Other>(setting.value)) return true;
  FieldDescriptor::CppType type = FieldDescriptor::CPPTYPE_STRING;
  if (std::holds_alternative<Number>(setting.value)) {
    type = FieldDescriptor::CPPTYPE_UINT32;
  } else if (std::holds_alternative<Flag>(setting.value)) {
    type = FieldDescriptor::CPPTYPE_BOOL;
  }
  return field->cpp_type() == type &&
         field->is_repeated() == std::holds_alternative<Digests>(setting.value);
}

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest()
      : server_(SettingsOf(&config_)),
        targets_(SettingsOf(&target_)),
        accounts_(SettingsOf(&account_)),
        rules_(SettingsOf(&rule_)),
        maps_(SettingsOf(&map_)),
        luns_(SettingsOf(&lun_)) {
    for (const auto& medium : {SettingsOf(&ram_), SettingsOf(&file_)}) {
      luns_.insert(luns_.end(), medium.begin(), medium.end());
    }
  }

  DaemonConfig config_;
  TargetConfig target_;
  AccountConfig account_;
  scsi::AccessRule rule_;
  scsi::AccessRule::Lun map_;
  LunConfig lun_;
  scsi::RamBackendOptions ram_;
  scsi::FileBackendOptions file_;
  std::vector<Setting> server_;
  std::vector<Setting> targets_;
  std::vector<Setting> accounts_;
  std::vector<Setting> rules_;
  std::vector<Setting> maps_;
  std::vector<Setting> luns_;
};

TEST_F(SettingsTest, AreTheFieldsOfTheConfiguration) {
  for (const auto& [message, settings] :
       {std::pair(Config::descriptor(), &server_),
        std::pair(Target::descriptor(), &targets_),
        std::pair(Account::descriptor(), &accounts_),
        std::pair(Allow::descriptor(), &rules_),
        std::pair(Map::descriptor(), &maps_),
        std::pair(Lun::descriptor(), &luns_)}) {
    std::vector<const FieldDescriptor*> fields;
    std::vector<std::string> names;
    CollectFields(message, "", &fields, &names);
    std::vector<std::string> told;
    for (const Setting& setting : *settings) {
      const std::string name = NameOf(setting);
      told.push_back(name);
      const auto at = std::find(names.begin(), names.end(), name);
      ASSERT_NE(at, names.end()) << name;
      EXPECT_TRUE(CanRead(setting, fields[at - names.begin()])) << name;
    }
    EXPECT_THAT(told, UnorderedElementsAreArray(names));
  }
}

// The tables of docs/skiffd.md have a line for each, and no others.
class DocumentTest : public SettingsTest {
 protected:
  DocumentTest() {
    const std::string document = ReadFile("docs/skiffd.md").value();
    const size_t begin = document.find("### Top level");
    reference_ =
        document.substr(begin, document.find("### Exit codes") - begin);
  }

  // What is below a heading.
  std::string Section(absl::string_view heading) const {
    const std::string line = absl::StrCat("### ", heading, "\n");
    const size_t begin = reference_.find(line);
    if (begin == std::string::npos) return "";
    return reference_.substr(
        begin, reference_.find("\n### ", begin + line.size()) - begin);
  }
  void ExpectTold(absl::string_view heading, absl::string_view name,
                  const Setting& setting) const {
    std::string line = absl::StrCat("\n| `", name, "` |");
    for (const std::string& cell : {setting.Default(), setting.Range()}) {
      absl::StrAppend(&line, cell.empty() ? "" : " ", cell, " |");
    }
    EXPECT_THAT(Section(heading), HasSubstr(line));
  }

  std::string reference_;
};

TEST_F(DocumentTest, TellsNamesDefaultsAndRanges) {
  for (const Setting& setting : server_) {
    ExpectTold(*setting.section == '\0' ? "Top level" : setting.section,
               setting.name, setting);
  }
  for (const Setting& setting : targets_) {
    ExpectTold("target and lun", absl::StrCat("target.", setting.name),
               setting);
  }
  for (const Setting& setting : accounts_) {
    ExpectTold("account", setting.name, setting);
  }
  for (const Setting& setting : rules_) {
    ExpectTold("allow", setting.name, setting);
  }
  for (const Setting& setting : maps_) {
    ExpectTold("allow", absl::StrCat("map { ", setting.name, " }"), setting);
  }
  for (const Setting& setting : luns_) {
    ExpectTold(
        "target and lun",
        *setting.section == '\0'
            ? absl::StrCat("lun.", setting.name)
            : absl::StrCat("lun.", setting.section, " { ", setting.name, " }"),
        setting);
  }
}

TEST_F(DocumentTest, TellsNoOthers) {
  // Those of messages: sections, targets, accounts of two kinds, rules and
  // maps.
  size_t lines = 6;
  for (const auto& settings :
       {server_, targets_, accounts_, rules_, maps_, luns_}) {
    lines += settings.size();
  }
  for (const absl::string_view line : absl::StrSplit(reference_, '\n')) {
    if (absl::StartsWith(line, "| `") &&
        std::count(line.begin(), line.end(), '|') == 5) {
      --lines;
    }
  }
  EXPECT_EQ(lines, 0u);
}

TEST(WithDefaultTest, TellsWhatAFlagCanBe) {
  EXPECT_EQ(WithDefault("Commands", "limits", "queue_depth"),
            "Commands (1 to 8192, default 128)");
  EXPECT_EQ(WithDefault("Polls", "reactors", "spin"), "Polls (default auto)");
}

}  // namespace
}  // namespace skiff::tools::skiffd
