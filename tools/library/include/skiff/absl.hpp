/// @file
/// Abseil's types instead of skiff::Status, for programs that use Abseil. No
/// other header includes this one, and the library needs no Abseil of yours.
#ifndef SKIFF_ABSL_HPP_
#define SKIFF_ABSL_HPP_

#include <skiff/status.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skiff {

/// The code is Abseil's for the errno (absl::ErrnoToStatusCode()).
inline absl::Status ToAbsl(const Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(absl::ErrnoToStatusCode(status.error()),
                      status.message());
}

template <typename T>
absl::StatusOr<T> ToAbsl(Result<T> result) {
  if (!result.ok()) return ToAbsl(result.status());
  return std::move(result).value();
}

}  // namespace skiff

#endif  // SKIFF_ABSL_HPP_
