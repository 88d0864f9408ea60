#include "transport/system/errno_status.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace skiff::transport {
namespace {

constexpr absl::string_view kPayload = "skiff/errno";

}  // namespace

absl::Status WithErrno(absl::Status status, int error_number) {
  if (error_number != 0) {
    status.SetPayload(kPayload, absl::Cord(absl::StrCat(error_number)));
  }
  return status;
}

int ErrnoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int error_number = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &error_number)) {
    return 0;
  }
  return error_number;
}

}  // namespace skiff::transport
