#include "tools/common/module.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

TEST(ModuleTest, FindsAFunction) {
  const auto found = LoadModule("libm.so.6", "cos", "libc6");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(*found)(0.0), 1.0);
}

TEST(ModuleTest, SaysWhatIsMissingAndWhereItIs) {
  const auto no_file = LoadModule("libskiff_nothing.so", "f", "skiff-nothing");
  EXPECT_TRUE(absl::IsNotFound(no_file.status()));
  EXPECT_THAT(std::string(no_file.status().message()),
              HasSubstr("libskiff_nothing.so"));
  EXPECT_THAT(std::string(no_file.status().message()),
              HasSubstr("package skiff-nothing"));
  const auto no_function = LoadModule("libm.so.6", "no_such_function", "libc6");
  EXPECT_TRUE(absl::IsNotFound(no_function.status()));
  EXPECT_THAT(std::string(no_function.status().message()),
              HasSubstr("no_such_function"));
}

}  // namespace
}  // namespace skiff::tools
