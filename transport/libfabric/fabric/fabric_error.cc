#include "transport/libfabric/fabric/fabric_error.h"

#include <rdma/fi_errno.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/system/errno_status.h"

namespace skiff::transport {
namespace {

// enum ibv_wc_status, ibv_poll_cq(3): what the verbs provider puts into
// prov_errno. The values are ABI; verbs' headers stay out of this folder.
enum VerbsStatus : int {
  kLocalLength = 1,
  kLocalQp = 2,
  kLocalProtection = 4,
  kFlush = 5,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
};

CompletionStatus MapVerbs(OperationKind kind, int status) {
  switch (status) {
    case kFlush:
      return CompletionStatus::kFlushed;
    case kLocalLength:
    case kLocalQp:
      // Soft-RoCE says IBV_WC_LOC_QP_OP_ERR of a RECEIVE that was too small.
      return kind == OperationKind::kReceive ? CompletionStatus::kTooLong
                                             : CompletionStatus::kLocalError;
    case kLocalProtection:
    case kLocalAccess:
      return CompletionStatus::kLocalError;
    case kRemoteInvalidRequest:
      // The responder's RECEIVE was too small, or a READ or WRITE was not to
      // its liking.
      return kind == OperationKind::kSend || kind == OperationKind::kReceive
                 ? CompletionStatus::kTooLong
                 : CompletionStatus::kRemoteAccess;
    case kRemoteAccessError:
      return CompletionStatus::kRemoteAccess;
    case kRnrRetryExceeded:
      return CompletionStatus::kRemoteNotReady;
    default:
      return CompletionStatus::kTransportError;
  }
}

struct Meaning {
  absl::StatusCode code;
  const char* hint;
};

Meaning MeaningOf(int error) {
  switch (error) {
    case FI_ECONNREFUSED:
      return {absl::StatusCode::kUnavailable,
              " - nobody listens there with this provider, or the peer "
              "rejected the connection"};
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_ENETUNREACH:
      return {absl::StatusCode::kUnavailable,
              " - is the address right, is the host up, is there a route?"};
    case FI_EAGAIN:
      return {absl::StatusCode::kResourceExhausted,
              " - the device has no more of them"};
    case FI_ENOMEM:
    case FI_EMFILE:
      return {absl::StatusCode::kResourceExhausted,
              " - raise the limits on locked memory (ulimit -l) and open files "
              "(ulimit -n), or use fewer connections"};
    case FI_EADDRINUSE:
      return {absl::StatusCode::kAlreadyExists,
              " - is another target running on this port?"};
    case FI_EADDRNOTAVAIL:
      return {absl::StatusCode::kNotFound,
              " - no interface of this machine has this address"};
    case FI_ENODATA:
      return {
          absl::StatusCode::kNotFound,
          " - no provider fits; `fi_info -t FI_EP_MSG` lists what there is"};
    case FI_EINVAL:
      return {absl::StatusCode::kInvalidArgument, ""};
    case FI_ENODEV:
      return {absl::StatusCode::kUnavailable, " - the device is gone"};
    case FI_ECANCELED:
      return {absl::StatusCode::kCancelled, ""};
    case FI_ENOSYS:
      return {absl::StatusCode::kUnimplemented, ""};
    default:
      return {absl::StatusCode::kUnavailable, ""};
  }
}

}  // namespace

absl::Status FabricStatus(int64_t code, absl::string_view what) {
  const int error = static_cast<int>(std::abs(code));
  const Meaning meaning = MeaningOf(error);
  absl::Status status(
      meaning.code, absl::StrCat(what, ": ", fi_strerror(error), " (fi_errno ",
                                 error, ")", meaning.hint));
  // Below are the system's own numbers, above those of libfabric.
  return WithErrno(std::move(status), error < FI_ERRNO_OFFSET ? error : 0);
}

CompletionStatus MapOperationError(absl::string_view provider,
                                   OperationKind kind, int error,
                                   int provider_error) {
  if (error == FI_ECANCELED) return CompletionStatus::kFlushed;
  if (absl::StartsWith(provider, "verbs") && error == FI_EIO) {
    return MapVerbs(kind, provider_error);
  }
  const bool one_sided =
      kind == OperationKind::kRead || kind == OperationKind::kWrite;
  switch (error) {
    case FI_ETRUNC:
    case FI_EMSGSIZE:
    case FI_ETOOSMALL:
      return CompletionStatus::kTooLong;
    case FI_EACCES:
    case FI_EPERM:
    case FI_ENOKEY:
    case FI_EKEYREJECTED:
    case FI_EINVAL:
      return one_sided ? CompletionStatus::kRemoteAccess
                       : CompletionStatus::kLocalError;
    case FI_ENORX:
      return CompletionStatus::kRemoteNotReady;
    case FI_EFAULT:
      return CompletionStatus::kLocalError;
    default:
      return CompletionStatus::kTransportError;
  }
}

}  // namespace skiff::transport
