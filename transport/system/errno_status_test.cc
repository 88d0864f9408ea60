#include "transport/system/errno_status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace skiff::transport {
namespace {

TEST(ErrnoStatusTest, KeepsTheErrno) {
  const absl::Status status =
      WithErrno(absl::UnavailableError("no"), EADDRINUSE);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(ErrnoOf(status), EADDRINUSE);
}

TEST(ErrnoStatusTest, KnowsOfNone) {
  EXPECT_EQ(ErrnoOf(absl::OkStatus()), 0);
  EXPECT_EQ(ErrnoOf(absl::UnavailableError("no")), 0);
  EXPECT_EQ(ErrnoOf(WithErrno(absl::OkStatus(), EIO)), 0);
  EXPECT_EQ(ErrnoOf(WithErrno(absl::UnavailableError("no"), 0)), 0);
}

}  // namespace
}  // namespace skiff::transport
