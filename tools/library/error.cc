#include "tools/library/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "scsi/initiator/scsi_error.h"

namespace skiff::library {
namespace {

// Longer messages are cut.
constexpr size_t kMaxMessage = 1024;

// Needs no destructor, so that it does not keep the library loaded.
thread_local char last_error[kMaxMessage];

int ErrorOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return -EINVAL;
    case absl::StatusCode::kOutOfRange:
      return -ERANGE;
    case absl::StatusCode::kUnimplemented:
      return -EOPNOTSUPP;
    case absl::StatusCode::kNotFound:
      return -ENOENT;
    case absl::StatusCode::kAlreadyExists:
      return -EEXIST;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return -EACCES;
    case absl::StatusCode::kResourceExhausted:
      return -ENOMEM;
    case absl::StatusCode::kUnavailable:
      return -ENOTCONN;
    case absl::StatusCode::kDeadlineExceeded:
      return -ETIMEDOUT;
    case absl::StatusCode::kCancelled:
      return -ECANCELED;
    case absl::StatusCode::kFailedPrecondition:
      return -EBUSY;
    case absl::StatusCode::kInternal:
      return -EPROTO;
    default:
      return -EIO;
  }
}

// What the device answered has errnos of its own.
std::optional<int> ErrorOf(absl::StatusCode code,
                           const scsi::ScsiError& error) {
  if (error.outcome != scsi::Command::Outcome::kCompleted) return std::nullopt;
  switch (code) {
    case absl::StatusCode::kUnavailable:  // Busy, or not ready.
      return -EAGAIN;
    case absl::StatusCode::kPermissionDenied:  // DATA PROTECT.
      return -EROFS;
    case absl::StatusCode::kResourceExhausted:
      return -ENOSPC;
    case absl::StatusCode::kFailedPrecondition:  // RESERVATION CONFLICT.
      return -EBADE;
    case absl::StatusCode::kAborted:  // MISCOMPARE.
      return -EILSEQ;
    default:
      return std::nullopt;
  }
}

}  // namespace

int Fail(int error, absl::string_view message) {
  const size_t length = std::min(message.size(), kMaxMessage - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return -error;
}

int Fail(const absl::Status& status) {
  return status.ok() ? 0 : Fail(-ErrorOf(status), status.message());
}

const char* LastError() { return last_error; }

int ErrorOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (const auto error = scsi::GetScsiError(status)) {
    if (const auto known = ErrorOf(status.code(), *error)) return *known;
  }
  return ErrorOf(status.code());
}

int IoErrorOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied:  // The disk is write-protected.
      return -EROFS;
    case absl::StatusCode::kFailedPrecondition:
      // The disk is not open, or somebody else has a reservation.
      return scsi::GetScsiError(status).has_value() ? ErrorOf(status)
                                                    : -ENOTCONN;
    default:
      return ErrorOf(status);
  }
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace skiff::library
