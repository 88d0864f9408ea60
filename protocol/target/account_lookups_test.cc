#include "protocol/target/account_lookups.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

TEST(AccountLookupsTest, OnesThatAreTooManyDoNotBegin) {
  AccountLookups lookups(2);
  const auto first = lookups.Begin();
  auto second = lookups.Begin();
  EXPECT_EQ(lookups.Begin(), nullptr);
  EXPECT_EQ(lookups.under_way(), 2u);
  first->End();
  const auto third = lookups.Begin();
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(lookups.Begin(), nullptr);
  // Nobody will answer it.
  second.reset();
  EXPECT_NE(lookups.Begin(), nullptr);
}

TEST(AccountLookupsTest, EachEndsOnce) {
  AccountLookups lookups(5);
  auto one = lookups.Begin();
  const auto other = lookups.Begin();
  one->End();
  one->End();
  one.reset();
  EXPECT_EQ(lookups.under_way(), 1u);
}

TEST(AccountLookupsTest, OneMayOutliveThem) {
  auto lookups = std::make_unique<AccountLookups>(1);
  const auto one = lookups->Begin();
  lookups.reset();
  one->End();
}

TEST(AccountLookupsTest, ThreadsBeginAndEndThem) {
  AccountLookups lookups(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&lookups] {
      for (int j = 0; j < 1000; ++j) lookups.Begin();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lookups.under_way(), 0u);
}

}  // namespace
}  // namespace skiff::protocol
