#include "scsi/target/access_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scsi/target/testing.h"

namespace skiff::scsi {
namespace {

using Rules = std::vector<AccessRule>;

constexpr char kName[] = "iqn.2026-01.example:i";

NexusIdentity Who(const std::string& initiator = kName,
                  const std::string& as = "",
                  const std::string& address = "10.0.0.1") {
  NexusIdentity nexus = testing::IdentityOf(initiator + ",i,0x1");
  nexus.authenticated_as = as;
  nexus.address = address;
  return nexus;
}

AccessRule From(absl::string_view range) {
  AccessRule rule;
  rule.addresses.push_back(*AddressRange::Parse(range));
  return rule;
}

TEST(AccessListTest, WithoutRulesNobodyComesIn) {
  AccessList list(Rules{});
  EXPECT_EQ(list.Admit(Who()),
            absl::PermissionDeniedError(
                "no access rule lets in iqn.2026-01.example:i from 10.0.0.1"));
  EXPECT_FALSE(list.IsThere(Who()));
  EXPECT_EQ(list.Map(Who()), LunMap(std::vector<LunMapping>()));
  EXPECT_FALSE(list.Grant(Who(), 0).Has(AccessClass::kIdentify));
  EXPECT_EQ(list.Decide(Who(), 0, AccessClass::kIdentify),
            AccessVerdict::kDenied);
}

TEST(AccessListTest, ARuleWithoutConditionsLetsEverybodyDoEverything) {
  AccessList list(Rules{{}});
  EXPECT_TRUE(list.Admit(Who()).ok());
  EXPECT_TRUE(list.IsThere(Who()));
  EXPECT_EQ(list.Map(Who()), std::nullopt);
  EXPECT_TRUE(list.Grant(Who(), 7).Has(AccessClass::kControl));
  EXPECT_EQ(list.Decide(Who(), 7, AccessClass::kWrite),
            AccessVerdict::kAllowed);
}

TEST(AccessListTest, AllConditionsHaveToHold) {
  AccessRule rule = From("10.0.0.0/8");
  rule.initiator = kName;
  rule.authenticated_as = "alice";
  rule.addresses.push_back(*AddressRange::Parse("::1"));
  AccessList list(Rules{rule});
  EXPECT_TRUE(list.Admit(Who(kName, "alice")).ok());
  EXPECT_TRUE(list.Admit(Who(kName, "alice", "::1")).ok());
  EXPECT_FALSE(list.Admit(Who("iqn.2026-01.example:j", "alice")).ok());
  EXPECT_FALSE(list.Admit(Who(kName, "bob")).ok());
  EXPECT_FALSE(list.Admit(Who(kName, "")).ok());
  EXPECT_FALSE(list.Admit(Who(kName, "alice", "11.0.0.1")).ok());
  EXPECT_FALSE(list.Admit(Who(kName, "alice", "")).ok());
}

TEST(AccessListTest, BeforeAuthenticationARuleMayFitYet) {
  AccessRule rule;
  rule.initiator = kName;
  rule.authenticated_as = "alice";
  AccessList list(Rules{rule});
  EXPECT_TRUE(list.IsThere(Who(kName)));
  EXPECT_TRUE(list.IsThere(Who(kName, "alice")));
  EXPECT_FALSE(list.IsThere(Who(kName, "bob")));
  EXPECT_FALSE(list.IsThere(Who("iqn.2026-01.example:j")));
}

TEST(AccessListTest, TheFirstRuleThatFitsCounts) {
  AccessRule first;
  first.initiator = kName;
  first.luns.emplace();
  first.luns->push_back({.lun = 5, .seen = 0, .read_only = true});
  first.luns->push_back({.lun = 6, .seen = 1});
  AccessList list(Rules{first, {}});
  EXPECT_EQ(list.Map(Who()), LunMap({{{5, 0}, {6, 1}}}));
  EXPECT_EQ(list.Map(Who("iqn.2026-01.example:j")), std::nullopt);
  EXPECT_FALSE(list.Grant(Who(), 5).Has(AccessClass::kWrite));
  EXPECT_TRUE(list.Grant(Who(), 5).Has(AccessClass::kRead));
  EXPECT_TRUE(list.Grant(Who(), 6).Has(AccessClass::kWrite));
  EXPECT_FALSE(list.Grant(Who(), 0).Has(AccessClass::kIdentify));
}

TEST(AccessListTest, WhoMayOnlyReadChangesNothing) {
  AccessRule rule;
  rule.read_only = true;
  AccessList list(Rules{rule});
  EXPECT_EQ(list.Decide(Who(), 0, AccessClass::kIdentify),
            AccessVerdict::kAllowed);
  EXPECT_EQ(list.Decide(Who(), 0, AccessClass::kRead), AccessVerdict::kAllowed);
  EXPECT_EQ(list.Decide(Who(), 0, AccessClass::kWrite),
            AccessVerdict::kReadOnly);
  EXPECT_EQ(list.Decide(Who(), 0, AccessClass::kControl),
            AccessVerdict::kDenied);
}

TEST(AccessListTest, RulesCanBeReplaced) {
  AccessList list(Rules{});
  list.Replace({From("10.0.0.0/8")});
  EXPECT_TRUE(list.Admit(Who()).ok());
  list.Replace({From("11.0.0.0/8")});
  EXPECT_FALSE(list.Admit(Who()).ok());
}

TEST(AccessListTest, WhileItIsClosedItIsThereAndLetsNobodyIn) {
  AccessList list({AccessRule{}});
  list.SetClosed(true);
  EXPECT_TRUE(list.IsThere(Who()));
  EXPECT_EQ(list.Admit(Who()).code(), absl::StatusCode::kUnavailable);
  list.SetClosed(false);
  EXPECT_TRUE(list.Admit(Who()).ok());
}

TEST(AccessRuleTest, CoversWhatItFitsAnyway) {
  AccessRule named;
  named.initiator = kName;
  AccessRule account;
  account.authenticated_as = "alice";
  const AccessRule wide = From("10.0.0.0/8");
  const AccessRule narrow = From("10.1.0.0/16");
  EXPECT_TRUE(AccessRule().Covers(named));
  EXPECT_TRUE(AccessRule().Covers(wide));
  EXPECT_TRUE(named.Covers(named));
  EXPECT_TRUE(wide.Covers(narrow));
  EXPECT_FALSE(named.Covers({}));
  EXPECT_FALSE(named.Covers(account));
  EXPECT_FALSE(account.Covers(named));
  EXPECT_FALSE(wide.Covers({}));
  EXPECT_FALSE(narrow.Covers(wide));
}

}  // namespace
}  // namespace skiff::scsi
