// Rules of who may come in, by the interfaces for C and C++.

#include <cerrno>
#include <cstdint>
#include <memory>
#include <skiff/target.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/library/target_test_util.h"

namespace skiff::library {
namespace {

using ::testing::HasSubstr;

constexpr char kName[] = "iqn.2026-11.org.example:ruled";
constexpr uint64_t kSizes[] = {1 << 20, 2 << 20};

// A target with two disks of different sizes, under rules, behind a server.
class AccessRulesTest : public ::testing::Test {
 public:
  ~AccessRulesTest() override {
    if (target_ == nullptr) return;
    Outcome removed;
    EXPECT_EQ(skiff_server_remove_target(server_.server, target_, 0,
                                         &Outcome::Done, &removed),
              0)
        << skiff_last_error();
    EXPECT_TRUE(server_.Await(removed));
    EXPECT_EQ(skiff_target_close(target_), 0) << skiff_last_error();
    for (TestStore& store : stores_) {
      EXPECT_TRUE(server_.Await(
          [&] { return skiff_backend_close(store.backend) == 0; }));
    }
  }

 protected:
  void Serve(const std::vector<const skiff_access_rule*>& rules) {
    ASSERT_EQ(skiff_target_create_with_rules(
                  server_.context, kName, rules.data(), rules.size(), &target_),
              0)
        << skiff_last_error();
    for (uint64_t lun = 0; lun < 2; ++lun) {
      stores_[lun].Create(server_.context);
      ASSERT_EQ(
          skiff_target_add_lun(target_, lun, stores_[lun].backend, nullptr), 0)
          << skiff_last_error();
    }
    ASSERT_EQ(skiff_server_add_target(server_.server, target_, nullptr), 0)
        << skiff_last_error();
  }

  std::unique_ptr<TestDisk> As(const std::string& who, uint64_t lun = 0) {
    return std::make_unique<TestDisk>(
        server_.portal, kName, lun, [this] { server_.Turn(); },
        "iqn.2026-11.org.example:" + who);
  }

  TestServer server_{0};
  TestStore stores_[2] = {{TestStore::Mode::kInside, kSizes[0]},
                          {TestStore::Mode::kInside, kSizes[1]}};
  skiff_target* target_ = nullptr;
};

skiff_access_lun Lun(uint64_t lun, uint64_t seen_as, uint32_t read_only = 0,
                     uint32_t reserved = 0) {
  return {lun, seen_as, read_only, reserved};
}

skiff_access_rule RuleFor(const char* initiator) {
  skiff_access_rule rule;
  SKIFF_INIT(rule);
  rule.initiator = initiator;
  return rule;
}

TEST_F(AccessRulesTest, TheFirstThatFitsCounts) {
  skiff_access_rule reader = RuleFor("iqn.2026-11.org.example:reader");
  reader.read_only = 1;
  const skiff_access_lun second = Lun(1, 0);
  skiff_access_rule other = RuleFor("iqn.2026-11.org.example:other");
  const char* const near[] = {"10.0.0.1", "127.0.0.0/8"};
  other.addresses = near;
  other.address_count = 2;
  other.luns = &second;
  other.lun_count = 1;
  skiff_access_rule never = RuleFor("iqn.2026-11.org.example:other");
  skiff_access_rule away = RuleFor("iqn.2026-11.org.example:away");
  const char* const far[] = {"10.0.0.0/8"};
  away.addresses = far;
  away.address_count = 1;
  ASSERT_NO_FATAL_FAILURE(Serve({&reader, &other, &never, &away}));

  const auto reads = As("reader");
  ASSERT_TRUE(reads->Open().ok());
  EXPECT_EQ(reads->info().size_bytes, kSizes[0]);
  EXPECT_EQ(reads->Write(0, std::string(512, 'x')).code(),
            absl::StatusCode::kPermissionDenied);
  const auto second_only = As("other");
  ASSERT_TRUE(second_only->Open().ok());
  EXPECT_EQ(second_only->info().size_bytes, kSizes[1]);
  EXPECT_FALSE(As("other", 1)->Open().ok());
  EXPECT_FALSE(As("away")->Open().ok());
  EXPECT_FALSE(As("stranger")->Open().ok());
}

TEST_F(AccessRulesTest, AreReplacedWhileInitiatorsAreThere) {
  const skiff_access_rule all = RuleFor(nullptr);
  ASSERT_NO_FATAL_FAILURE(Serve({&all}));
  const auto stays = As("stays");
  const auto goes = As("goes");
  ASSERT_TRUE(stays->Open().ok());
  ASSERT_TRUE(goes->Open().ok());

  const skiff_access_rule one = RuleFor("iqn.2026-11.org.example:stays");
  const skiff_access_rule* const rules[] = {&one};
  ASSERT_EQ(skiff_target_set_rules(target_, rules, 1), 0) << skiff_last_error();
  EXPECT_TRUE(goes->RunUntil([&] { return !goes->connected(); }));
  EXPECT_TRUE(stays->Write(0, std::string(512, 'x')).ok());
  EXPECT_FALSE(As("goes")->Open().ok());

  ASSERT_EQ(skiff_target_set_rules(target_, nullptr, 0), 0)
      << skiff_last_error();
  EXPECT_TRUE(stays->RunUntil([&] { return !stays->connected(); }));
}

TEST_F(AccessRulesTest, MistakesChangeNothing) {
  const skiff_access_rule all = RuleFor(nullptr);
  ASSERT_NO_FATAL_FAILURE(Serve({&all}));
  const auto refused = [this](const skiff_access_rule* rule) {
    const skiff_access_rule* const rules[] = {rule};
    EXPECT_EQ(skiff_target_set_rules(target_, rules, 1), -EINVAL);
    return std::string(skiff_last_error());
  };
  EXPECT_THAT(refused(nullptr), HasSubstr("rule 0: it is NULL"));
  skiff_access_rule bad = RuleFor("no name");
  EXPECT_THAT(refused(&bad), HasSubstr("rule 0: "));
  bad = RuleFor(nullptr);
  bad.authenticated_as = "";
  EXPECT_THAT(refused(&bad), HasSubstr("authenticated_as is empty"));
  bad = RuleFor(nullptr);
  bad.address_count = 1;
  EXPECT_THAT(refused(&bad), HasSubstr("addresses is NULL"));
  const char* const words[] = {"nowhere"};
  bad.addresses = words;
  EXPECT_THAT(refused(&bad), HasSubstr("nowhere"));
  const char* const nothing[] = {nullptr};
  bad.addresses = nothing;
  EXPECT_THAT(refused(&bad), HasSubstr("address 0 is NULL"));
  bad = RuleFor(nullptr);
  bad.lun_count = 2;
  EXPECT_THAT(refused(&bad), HasSubstr("luns is NULL"));
  skiff_access_lun luns[] = {Lun(1, 2), Lun(1, 0)};
  bad.luns = luns;
  EXPECT_THAT(refused(&bad), HasSubstr("LUN 1 is mapped twice"));
  luns[1] = Lun(3, 2);
  EXPECT_THAT(refused(&bad), HasSubstr("two LUNs are seen as 2"));
  luns[1] = Lun(16384, 0);
  EXPECT_THAT(refused(&bad), HasSubstr("LUN 16384 is beyond 16383"));
  luns[1] = Lun(3, 3, 0, 1);
  EXPECT_THAT(refused(&bad), HasSubstr("reserved"));
  bad = RuleFor(nullptr);
  bad.struct_size = 0;
  EXPECT_THAT(refused(&bad), HasSubstr("SKIFF_INIT"));
  EXPECT_EQ(skiff_target_set_rules(target_, nullptr, 1), -EINVAL);
  EXPECT_TRUE(As("anybody")->Open().ok());

  EXPECT_EQ(skiff_target_set_rules(server_.target, nullptr, 0), -ENOTSUP);
  EXPECT_THAT(skiff_last_error(),
              HasSubstr("skiff_target_create_with_rules()"));
}

// Callbacks that answer otherwise than before.
TEST_F(AccessRulesTest, CallbacksAreAskedAgain) {
  struct Program {
    bool open = true;
    std::string address;
    std::string name = "unset";
  } program;
  skiff_access_ops access;
  SKIFF_INIT(access);
  access.user = &program;
  access.admit = [](void* user, const skiff_initiator_id* who) {
    auto* const self = static_cast<Program*>(user);
    self->address = who->address;
    self->name = who->authenticated_as;
    return self->open ? 0 : -EACCES;
  };
  ASSERT_EQ(skiff_target_create(server_.context, kName, &access, &target_), 0);
  for (uint64_t lun = 0; lun < 2; ++lun) {
    stores_[lun].Create(server_.context);
    ASSERT_EQ(skiff_target_add_lun(target_, lun, stores_[lun].backend, nullptr),
              0);
  }
  ASSERT_EQ(skiff_server_add_target(server_.server, target_, nullptr), 0);
  const auto disk = As("anybody");
  ASSERT_TRUE(disk->Open().ok());
  EXPECT_EQ(program.address, "127.0.0.1");
  EXPECT_EQ(program.name, "");
  program.open = false;
  ASSERT_EQ(skiff_target_review_access(target_), 0) << skiff_last_error();
  EXPECT_TRUE(disk->RunUntil([&] { return !disk->connected(); }));
}

TEST_F(AccessRulesTest, OfCppAreTheSame) {
  AccessRule reader;
  reader.initiator = "iqn.2026-11.org.example:reader";
  reader.addresses = {"127.0.0.1", "::1"};
  reader.luns = std::vector<skiff_access_lun>{Lun(7, 0, 1)};
  AccessRule blind;
  blind.initiator = "iqn.2026-11.org.example:blind";
  blind.luns.emplace();
  Result<Context> context = Context::Create();
  ASSERT_TRUE(context.ok()) << context.status().message();
  Result<Target> target = Target::Create(*context, kName, {reader, blind});
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_TRUE(target->SetRules({}).ok());
  reader.addresses = {"127.0.0.1/33"};
  const Status refused = target->SetRules({blind, reader});
  EXPECT_EQ(refused.code(), std::errc::invalid_argument);
  EXPECT_THAT(refused.message(), HasSubstr("rule 1: "));
  EXPECT_TRUE(target->ReviewAccess().ok());
}

}  // namespace
}  // namespace skiff::library
