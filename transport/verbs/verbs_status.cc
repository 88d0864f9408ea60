#include "transport/verbs/verbs_status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/system/errno_status.h"

namespace skiff::transport {

CompletionStatus ToCompletionStatus(ibv_wc_status status, OperationKind kind) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kOk;
    case IBV_WC_WR_FLUSH_ERR:
      return CompletionStatus::kFlushed;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      // Of a RECEIVE: the message was longer. The second is what Soft-RoCE says
      // then.
      return kind == OperationKind::kReceive ? CompletionStatus::kTooLong
                                             : CompletionStatus::kLocalError;
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_MW_BIND_ERR:
      return CompletionStatus::kLocalError;
    case IBV_WC_REM_ACCESS_ERR:
      return CompletionStatus::kRemoteAccess;
    case IBV_WC_REM_INV_REQ_ERR:
      // A message too long for the RECEIVE that it met, or a one-sided
      // operation that the responder does not serve (InfiniBand specification,
      // table 58).
      return kind == OperationKind::kSend || kind == OperationKind::kReceive
                 ? CompletionStatus::kTooLong
                 : CompletionStatus::kRemoteAccess;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return CompletionStatus::kRemoteNotReady;
    default:
      return CompletionStatus::kTransportError;
  }
}

DamageScope ToDamageScope(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return DamageScope::kNone;
    case IBV_WC_FATAL_ERR:
      return DamageScope::kDevice;
    default:
      // A reliable connection does not outlive a failed operation.
      return DamageScope::kConnection;
  }
}

absl::string_view OperationName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kSend:
      return "SEND";
    case OperationKind::kReceive:
      return "RECEIVE";
    case OperationKind::kRead:
      return "RDMA READ";
    case OperationKind::kWrite:
      return "RDMA WRITE";
    case OperationKind::kBind:
      return "window bind";
    case OperationKind::kInvalidate:
      return "local invalidate";
  }
  return "operation";
}

absl::Status OperationError(ibv_wc_status status, OperationKind kind,
                            uint32_t vendor_error) {
  if (status == IBV_WC_WR_FLUSH_ERR) {
    return absl::UnavailableError(
        "the device ended the connection and flushed its queues");
  }
  const std::string message = absl::StrCat(
      "a ", OperationName(kind), " failed: ", ibv_wc_status_str(status),
      " (completion status ", static_cast<int>(status), ", vendor code ",
      vendor_error, ")");
  switch (ToCompletionStatus(status, kind)) {
    case CompletionStatus::kRemoteAccess:
      return absl::PermissionDeniedError(message);
    case CompletionStatus::kRemoteNotReady:
      return absl::ResourceExhaustedError(
          absl::StrCat(message, "; the peer posts too few receives"));
    case CompletionStatus::kTooLong:
      return absl::OutOfRangeError(absl::StrCat(
          message, "; the message is longer than the receive that it met"));
    case CompletionStatus::kTransportError:
      return absl::UnavailableError(
          status == IBV_WC_RETRY_EXC_ERR
              ? absl::StrCat(message, "; the peer does not answer any more")
              : message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status CallError(absl::string_view what, int error_number) {
  const char* hint = "";
  switch (error_number) {
    case ENOMEM:
      hint =
          " - raise the limit on locked memory (ulimit -l) if it was reached, "
          "or use fewer or smaller queues";
      break;
    case EMFILE:
    case ENFILE:
      hint = " - raise the limit on open files (ulimit -n)";
      break;
    case ENODEV:
    case ENXIO:
      hint = " - is there an RDMA device for this address (rdma link)?";
      break;
    case EACCES:
    case EPERM:
      hint = " - may this user open /dev/infiniband/*?";
      break;
    case EADDRINUSE:
      hint = " - is another target running on this port?";
      break;
    case EADDRNOTAVAIL:
      hint = " - no RDMA device of this machine has this address (rdma link)";
      break;
    case ENETUNREACH:
    case EHOSTUNREACH:
      hint = " - is the interface up, and does a route lead there?";
      break;
    case EIO:
      hint = " - was the device removed?";
      break;
    default:
      break;
  }
  return WithErrno(
      absl::Status(absl::ErrnoToStatusCode(error_number),
                   absl::StrCat(what, ": ", std::strerror(error_number), hint)),
      error_number);
}

std::string LockedMemoryLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return absl::StrCat(limit.rlim_cur / 1024, " KiB");
}

absl::Status RegisterError(absl::string_view device, size_t size,
                           int error_number) {
  const std::string what =
      absl::StrCat("cannot register ", size, " bytes with ", device, ": ",
                   std::strerror(error_number));
  if (error_number == ENOMEM) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, "; the limit on locked memory is ", LockedMemoryLimit(),
        ": raise it with ulimit -l or LimitMEMLOCK="));
  }
  if (error_number == EFAULT) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; not all of this memory is mapped and writable"));
  }
  return absl::Status(absl::ErrnoToStatusCode(error_number), what);
}

}  // namespace skiff::transport
