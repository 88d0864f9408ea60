#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <skiff/absl.hpp>

namespace skiff {
namespace {

TEST(CppAbslTest, KeepsCodesMessagesAndValues) {
  EXPECT_TRUE(ToAbsl(Status()).ok());
  const absl::Status status = ToAbsl(Status(-ENOENT, "no such LUN"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no such LUN");

  absl::StatusOr<std::unique_ptr<int>> value =
      ToAbsl(Result<std::unique_ptr<int>>(std::make_unique<int>(7)));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, 7);
  EXPECT_EQ(ToAbsl(Result<int>(Status(-EBUSY, "in use"))).status().message(),
            "in use");
}

}  // namespace
}  // namespace skiff
