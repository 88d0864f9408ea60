#ifndef SKIFF_TRANSPORT_SYSTEM_ERRNO_STATUS_H_
#define SKIFF_TRANSPORT_SYSTEM_ERRNO_STATUS_H_

#include "absl/status/status.h"

namespace skiff::transport {

// Statuses that know the errno of the system call that failed. A code stands
// for several of them, and whoever speaks to programs in C needs the one.

// `status`, with it. Nothing is added to OK, or for 0.
absl::Status WithErrno(absl::Status status, int error_number);
// 0: it knows of none.
int ErrnoOf(const absl::Status& status);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SYSTEM_ERRNO_STATUS_H_
