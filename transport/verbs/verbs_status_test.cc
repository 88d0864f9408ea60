#include "transport/verbs/verbs_status.h"

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

TEST(VerbsStatusTest, EveryWorkCompletionStatusHasAMeaning) {
  EXPECT_EQ(ToCompletionStatus(IBV_WC_SUCCESS, OperationKind::kSend),
            CompletionStatus::kOk);
  for (int i = IBV_WC_LOC_LEN_ERR; i <= IBV_WC_TM_RNDV_INCOMPLETE; ++i) {
    const auto status = static_cast<ibv_wc_status>(i);
    for (OperationKind kind : {OperationKind::kSend, OperationKind::kReceive,
                               OperationKind::kRead, OperationKind::kBind}) {
      EXPECT_NE(ToCompletionStatus(status, kind), CompletionStatus::kOk) << i;
    }
    EXPECT_NE(ToDamageScope(status), DamageScope::kNone) << i;
    const absl::Status error =
        OperationError(status, OperationKind::kRead, 0x81);
    EXPECT_FALSE(error.ok()) << i;
  }
}

struct StatusCase {
  ibv_wc_status status;
  OperationKind kind;
  CompletionStatus expected;
};

TEST(VerbsStatusTest, TheSameCodeCanMeanDifferentThings) {
  using S = CompletionStatus;
  using K = OperationKind;
  const StatusCase cases[] = {
      {IBV_WC_WR_FLUSH_ERR, K::kSend, S::kFlushed},
      {IBV_WC_LOC_LEN_ERR, K::kReceive, S::kTooLong},
      {IBV_WC_LOC_LEN_ERR, K::kSend, S::kLocalError},
      {IBV_WC_LOC_QP_OP_ERR, K::kReceive, S::kTooLong},
      {IBV_WC_LOC_PROT_ERR, K::kReceive, S::kLocalError},
      {IBV_WC_REM_INV_REQ_ERR, K::kSend, S::kTooLong},
      {IBV_WC_REM_INV_REQ_ERR, K::kRead, S::kRemoteAccess},
      {IBV_WC_REM_ACCESS_ERR, K::kWrite, S::kRemoteAccess},
      {IBV_WC_RNR_RETRY_EXC_ERR, K::kSend, S::kRemoteNotReady},
      {IBV_WC_RETRY_EXC_ERR, K::kSend, S::kTransportError},
      {IBV_WC_MW_BIND_ERR, K::kBind, S::kLocalError},
      {IBV_WC_FATAL_ERR, K::kSend, S::kTransportError},
  };
  for (const StatusCase& c : cases) {
    EXPECT_EQ(ToCompletionStatus(c.status, c.kind), c.expected)
        << ibv_wc_status_str(c.status) << " of a " << OperationName(c.kind);
  }
  EXPECT_EQ(ToDamageScope(IBV_WC_FATAL_ERR), DamageScope::kDevice);
  EXPECT_EQ(ToDamageScope(IBV_WC_WR_FLUSH_ERR), DamageScope::kConnection);
}

TEST(VerbsStatusTest, OperationErrorsNameTheOperationAndTheCodes) {
  const absl::Status error =
      OperationError(IBV_WC_REM_ACCESS_ERR, OperationKind::kWrite, 0x88);
  EXPECT_EQ(error.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(absl::StrContains(error.message(), "RDMA WRITE")) << error;
  EXPECT_TRUE(absl::StrContains(error.message(), "status 10")) << error;
  EXPECT_TRUE(absl::StrContains(error.message(), "vendor code 136")) << error;
}

TEST(VerbsStatusTest, RegistrationErrorsNameDeviceSizeAndLimit) {
  const absl::Status locked = RegisterError("rxe0", 4096, ENOMEM);
  EXPECT_EQ(locked.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part :
       {"rxe0", "4096 bytes", "locked memory", "ulimit -l"}) {
    EXPECT_TRUE(absl::StrContains(locked.message(), part)) << locked;
  }
  EXPECT_TRUE(absl::StrContains(locked.message(), LockedMemoryLimit()));
  EXPECT_EQ(RegisterError("rxe0", 1, EFAULT).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterError("rxe0", 1, EPERM).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(VerbsStatusTest, CallErrorsSayWhatToDo) {
  const absl::Status status = CallError("cannot open rxe0", EACCES);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(absl::StartsWith(status.message(), "cannot open rxe0: "));
  EXPECT_TRUE(absl::StrContains(status.message(), "/dev/infiniband"));
  EXPECT_TRUE(absl::StrContains(CallError("x", EMFILE).message(), "ulimit -n"));
}

}  // namespace
}  // namespace skiff::transport
