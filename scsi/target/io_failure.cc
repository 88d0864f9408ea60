#include "scsi/target/io_failure.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace skiff::scsi {
namespace {

using Op = IoRequest::Op;

const char* NameOf(Op op) {
  switch (op) {
    case Op::kRead:
      return "read";
    case Op::kWrite:
      return "write";
    case Op::kFlush:
      return "flush";
    case Op::kUnmap:
      return "unmap";
    case Op::kWriteZeroes:
      return "zeroing";
    case Op::kCompareAndWrite:
      return "compare and write";
  }
  return "operation";
}

const char* NameOf(IoStatus status) {
  switch (status) {
    case IoStatus::kReadError:
      return "it cannot be read";
    case IoStatus::kWriteError:
      return "it cannot be written";
    case IoStatus::kNoSpace:
      return "no space is left";
    case IoStatus::kNotSupported:
      return "the medium has no such operation";
    case IoStatus::kGone:
      return "the medium went away";
    case IoStatus::kNoMemory:
      return "there is no memory";
    case IoStatus::kOk:
    case IoStatus::kMiscompare:
    case IoStatus::kCancelled:
      break;
  }
  return "no reason is known";
}

std::string ReasonOf(const IoRequest& request) {
  if (request.reason != nullptr) return request.reason;
  if (request.system_error != 0) return std::strerror(request.system_error);
  return NameOf(request.status);
}

}  // namespace

bool IsFailure(const IoRequest& request) {
  if (request.status == IoStatus::kOk ||
      request.status == IoStatus::kMiscompare ||
      request.status == IoStatus::kCancelled) {
    return false;
  }
  return request.op != Op::kWriteZeroes ||
         request.status != IoStatus::kNotSupported;
}

std::string DescribeFailure(const IoRequest& request) {
  if (request.op == Op::kFlush) {
    return absl::StrCat("flush failed: ", ReasonOf(request),
                        request.reason != nullptr
                            ? ""
                            : "; data that were acknowledged may be lost");
  }
  return absl::StrCat(NameOf(request.op), " of ", request.length,
                      " bytes at byte ", request.offset,
                      " failed: ", ReasonOf(request));
}

IoFailures FailureCounters::Get() const {
  const auto of = [this](Op op) {
    return by_op_[static_cast<size_t>(op)].load(std::memory_order_relaxed);
  };
  IoFailures failures;
  failures.reads = of(Op::kRead);
  failures.writes = of(Op::kWrite);
  failures.flushes = of(Op::kFlush);
  failures.unmaps = of(Op::kUnmap);
  failures.write_zeroes = of(Op::kWriteZeroes);
  failures.compare_and_writes = of(Op::kCompareAndWrite);
  return failures;
}

}  // namespace skiff::scsi
