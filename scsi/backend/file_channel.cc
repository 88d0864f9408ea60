#include "scsi/backend/file_channel.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <climits>
#include <utility>

#include "scsi/backend/direct_io_alignment.h"
#include "scsi/iovec_cursor.h"
#include "transport/system/spare_memory.h"

namespace skiff::scsi {
namespace {

using Op = IoRequest::Op;

constexpr int kMaxRetries = 100;
constexpr size_t kZeroBytes = 64u << 10;
alignas(4096) constexpr uint8_t kZeroes[kZeroBytes] = {};

bool Writes(Op op) { return op != Op::kRead && op != Op::kFlush; }

IoStatus FailureOf(Op op) {
  return Writes(op) ? IoStatus::kWriteError : IoStatus::kReadError;
}

// How many bytes the caller's memory must hold.
uint64_t BufferLengthOf(const IoRequest& request) {
  switch (request.op) {
    case Op::kRead:
    case Op::kWrite:
      return request.length;
    case Op::kCompareAndWrite:
      return 2 * request.length;
    default:
      return 0;
  }
}

// fallocate's ways to say that the file system or the device cannot.
bool IsUnsupported(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == ENODEV;
}

IoStatus StatusOfErrno(int error, bool write) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return IoStatus::kNoSpace;
    case ENXIO:
    case ENODEV:
    case ENOMEDIUM:
    case ESHUTDOWN:
    case ESTALE:
      return IoStatus::kGone;
    case EOPNOTSUPP:
      return IoStatus::kNotSupported;
    default:
      return write ? IoStatus::kWriteError : IoStatus::kReadError;
  }
}

// A write with RWF_DSYNC fails for itself or for its fdatasync, and the latter
// with whatever the device said when earlier writes were written back: EIO,
// ENODATA, ETIMEDOUT, also ENOSPC of a thin device or a server. These are what
// writes themselves fail with from time to time, and are worth finding out.
bool IsDoubtful(int error) {
  return error == ENOSPC || error == EDQUOT || error == EINVAL ||
         error == EOPNOTSUPP;
}

// Lack of memory, and interruptions: what could not be written is still in the
// page cache, and is written later.
bool IsTemporary(int error) {
  return error == ENOMEM || error == EAGAIN || error == EINTR;
}

// Ends the request before it begins; for Submit() to return.
bool Refuse(IoRequest* request, IoStatus status, const char* reason) {
  request->status = status;
  request->reason = reason;
  return true;
}

// Completes only when the data are stable.
bool WantsStable(const IoRequest& request) {
  return request.op == Op::kFlush || (Writes(request.op) && request.fua);
}

constexpr char kTooShort[] =
    "the file ends before that, as it was made shorter while it was served";
constexpr char kBeyondEnd[] = "it is not within the medium";
constexpr char kBuffersTooShort[] = "the memory of the request is too short";
constexpr char kNoMemory[] = "there is no memory for a buffer of direct I/O";
constexpr char kReadOnly[] = "the medium is read-only";
constexpr char kFlushFailedBefore[] =
    "an earlier flush failed, and only that data were lost is known";

}  // namespace

FileChannel::FileChannel(std::shared_ptr<FileMedium> medium,
                         uint32_t max_requests, int fd)
    : medium_(std::move(medium)), operations_(max_requests), fd_(fd) {
  for (Operation& operation : operations_) {
    operation.next_free = free_;
    free_ = &operation;
  }
}

FileChannel::~FileChannel() {
  assert(in_flight_ == 0 && waiting_ == nullptr);
  engine_.reset();
  if (fd_ >= 0) close(fd_);
}

bool FileChannel::Submit(IoRequest* request) {
  request->backend_data = nullptr;
  if (FinishEarly(request)) return true;
  if (request->op == Op::kFlush && next_flush_ != nullptr) {
    JoinFlush(request);
    return false;
  }
  if (free_ == nullptr) {
    request->backend_next = nullptr;
    request->backend_data = waiting_end_;
    *waiting_end_ = request;
    waiting_end_ = &request->backend_next;
    return false;
  }
  Operation* operation = free_;
  if (!Provide(*request, operation)) {
    return Refuse(request, IoStatus::kNoMemory, kNoMemory);
  }
  free_ = operation->next_free;
  ++in_flight_;
  Begin(request, operation);
  return false;
}

// At once, however many wait: whoever aborts many commands aborts each.
bool FileChannel::Cancel(IoRequest* request) {
  auto** const place =
      static_cast<IoRequest**>(std::exchange(request->backend_data, nullptr));
  if (place == nullptr) return false;
  IoRequest* const next = request->backend_next;
  *place = next;
  if (next != nullptr) {
    next->backend_data = place;
  } else {
    waiting_end_ = place;
  }
  return true;
}

bool FileChannel::IsWithin(const IoRequest& request) const {
  const uint64_t size = medium_->size_bytes();
  return request.offset <= size && request.length <= size - request.offset;
}

bool FileChannel::FinishEarly(IoRequest* request) {
  const BackendInfo& info = medium_->info();
  const bool writes = Writes(request->op);
  request->status = IoStatus::kOk;
  request->error_offset = request->offset;
  const IoStatus error = FailureOf(request->op);
  if (!IsWithin(*request)) return Refuse(request, error, kBeyondEnd);
  const uint64_t buffer = BufferLengthOf(*request);
  if (buffer > 0 && TotalLength(request->iov, request->iov_count) < buffer) {
    return Refuse(request, error, kBuffersTooShort);
  }
  if (writes && info.read_only) {
    return Refuse(request, IoStatus::kNotSupported, kReadOnly);
  }
  if (request->op == Op::kUnmap && !info.thin) {
    return Refuse(request, IoStatus::kNotSupported, nullptr);
  }
  if (WantsStable(*request) && medium_->data_lost()) {
    return Refuse(request, IoStatus::kWriteError, kFlushFailedBefore);
  }
  if (request->op == Op::kFlush) return info.read_only;
  return request->length == 0;
}

// The kernel checks the address and the length of every element. Blocks of ours
// are multiples of what it asks of lengths: the medium would not have opened
// else.
bool FileChannel::NeedsBounce(const IoRequest& request) const {
  if (!medium_->direct()) return false;
  if (request.op == Op::kCompareAndWrite) return true;
  const BackendInfo& info = medium_->info();
  return !FitsDirectIo(request.iov, request.iov_count, info.buffer_alignment,
                       info.block_size);
}

// What the operation needs for the request. False: there is no memory.
bool FileChannel::Provide(const IoRequest& request,
                          Operation* operation) const {
  if (operation->bounce != nullptr) return true;
  if (request.op != Op::kCompareAndWrite &&
      ((request.op != Op::kRead && request.op != Op::kWrite) ||
       !NeedsBounce(request))) {
    return true;
  }
  const transport::SpareMemory::NotForThis not_for_this;
  operation->bounce.reset(static_cast<uint8_t*>(
      ::operator new(kBounceBytes, kBounceAlignment, std::nothrow)));
  return operation->bounce != nullptr;
}

void FileChannel::Begin(IoRequest* request, Operation* operation) {
  operation->request = request;
  operation->retries = 0;
  operation->doubtful = 0;
  operation->bounced = false;
  operation->ticket = 0;
  operation->joined = nullptr;
  if (request->op == Op::kFlush) return BeginFlush(operation);
  if (WantsStable(*request)) EnterStable(operation);
  switch (request->op) {
    case Op::kRead:
    case Op::kWrite:
      operation->bounced = NeedsBounce(*request);
      return Enter(operation, Step::kTransfer);
    case Op::kFlush:
      break;  // Above.
    case Op::kUnmap:
      return Enter(operation, Step::kPunch);
    case Op::kWriteZeroes:
      if (request->may_unmap && medium_->info().thin) {
        return Enter(operation, Step::kPunch);
      }
      return Enter(operation, medium_->can_zero_range() ? Step::kZeroRange
                                                        : Step::kWriteBuffer);
    case Op::kCompareAndWrite:
      operation->bounced = NeedsBounce(*request);
      return Enter(operation, Step::kCompare);
  }
}

// One that comes while another is under way waits for its end: fdatasync may
// have looked already at what was written before it came.
void FileChannel::BeginFlush(Operation* operation) {
  if (flush_ == nullptr) return StartFlush(operation);
  assert(next_flush_ == nullptr);
  next_flush_ = operation;
}

void FileChannel::StartFlush(Operation* operation) {
  flush_ = operation;
  EnterStable(operation);
  Enter(operation, Step::kSync);
}

void FileChannel::JoinFlush(IoRequest* request) {
  request->backend_next = std::exchange(next_flush_->joined, request);
}

void FileChannel::Enter(Operation* operation, Step step) {
  operation->step = step;
  operation->done = 0;
  Continue(operation);
}

// Starts the next system call of the current step.
void FileChannel::Continue(Operation* operation) {
  const IoRequest& request = *operation->request;
  operation->offset = request.offset + operation->done;
  operation->dsync = request.fua && operation->doubtful == 0;
  switch (operation->step) {
    case Step::kTransfer:
      operation->kind = request.op == Op::kRead ? FileCall::Kind::kRead
                                                : FileCall::Kind::kWrite;
      PrepareTransfer(operation);
      break;
    case Step::kCompare:
      operation->kind = FileCall::Kind::kRead;
      PrepareBounced(operation, request.length - operation->done);
      break;
    case Step::kPunch:
    case Step::kZeroRange:
      operation->kind = FileCall::Kind::kAllocate;
      operation->mode = FALLOC_FL_KEEP_SIZE | (operation->step == Step::kPunch
                                                   ? FALLOC_FL_PUNCH_HOLE
                                                   : FALLOC_FL_ZERO_RANGE);
      operation->length = request.length;
      break;
    case Step::kWriteBuffer:
      operation->kind = FileCall::Kind::kWrite;
      PrepareZeroes(operation);
      break;
    case Step::kSync:
      operation->kind = FileCall::Kind::kSync;
      break;
  }
  engine_->Start(operation);
}

void FileChannel::PrepareTransfer(Operation* operation) {
  const IoRequest& request = *operation->request;
  const uint64_t left = request.length - operation->done;
  // The write data of a compare-and-write follow the compare data.
  const uint64_t skip =
      operation->done +
      (request.op == Op::kCompareAndWrite ? request.length : 0);
  if (operation->bounced) {
    PrepareBounced(operation, left);
    if (operation->kind == FileCall::Kind::kWrite) {
      IovecCursor cursor(request.iov, request.iov_count);
      cursor.Skip(skip);
      cursor.CopyTo(operation->bounce.get(), operation->iov->iov_len);
    }
    return;
  }
  if (skip == 0 && request.iov_count <= IOV_MAX &&
      TotalLength(request.iov, request.iov_count) == request.length) {
    operation->iov = request.iov;
    operation->iov_count = request.iov_count;
    return;
  }
  IovecCursor cursor(request.iov, request.iov_count);
  cursor.Skip(skip);
  uint64_t covered = 0;
  operation->iov = operation->iov_storage.data();
  operation->iov_count =
      cursor.Describe(left, operation->iov_storage.data(), kMaxIov, &covered);
}

void FileChannel::PrepareBounced(Operation* operation, uint64_t length) {
  operation->iov_storage[0] = {operation->bounce.get(),
                               std::min(length, kBounceBytes)};
  operation->iov = operation->iov_storage.data();
  operation->iov_count = 1;
}

void FileChannel::PrepareZeroes(Operation* operation) {
  uint64_t left = operation->request->length - operation->done;
  operation->iov = operation->iov_storage.data();
  operation->iov_count = 0;
  while (left > 0 && operation->iov_count < kMaxIov) {
    const uint64_t step = std::min<uint64_t>(left, kZeroBytes);
    // Only read from.
    operation->iov_storage[operation->iov_count++] = {
        const_cast<uint8_t*>(kZeroes), step};
    left -= step;
  }
}

void FileChannel::OnCallDone(FileCall* call, int64_t result) {
  auto* operation = static_cast<Operation*>(call);
  if (result < 0) {
    const int error = static_cast<int>(-result);
    if (!Retry(operation, error)) Fail(operation, error);
    return;
  }
  switch (operation->step) {
    case Step::kTransfer:
    case Step::kCompare:
    case Step::kWriteBuffer:
      return OnTransferred(operation, static_cast<uint64_t>(result));
    case Step::kPunch:
    case Step::kZeroRange:
      return OnAllocated(operation);
    case Step::kSync:
      return Finish(operation, IoStatus::kOk, 0);
  }
}

void FileChannel::OnAllocated(Operation* operation) {
  const IoRequest& request = *operation->request;
  if (request.op == Op::kWriteZeroes && request.fua) {
    return Enter(operation, Step::kSync);
  }
  Finish(operation, IoStatus::kOk, 0);
}

void FileChannel::OnTransferred(Operation* operation, uint64_t bytes) {
  const IoRequest& request = *operation->request;
  // O_DIRECT cannot continue in the middle of a block.
  if (medium_->direct()) bytes -= bytes % medium_->info().block_size;
  if (bytes == 0) {
    operation->request->reason = kTooShort;
    return Fail(operation, EIO);
  }
  if (operation->doubtful != 0) return FailDoubtful(operation);
  operation->retries = 0;
  const bool from_bounce = operation->kind == FileCall::Kind::kRead &&
                           operation->step == Step::kTransfer &&
                           operation->bounced;
  if (from_bounce || operation->step == Step::kCompare) {
    IovecCursor cursor(request.iov, request.iov_count);
    cursor.Skip(operation->done);
    if (from_bounce) {
      cursor.CopyFrom(operation->bounce.get(), bytes);
    } else {
      const uint64_t equal = cursor.Match(operation->bounce.get(), bytes);
      if (equal < bytes) {
        return Finish(operation, IoStatus::kMiscompare,
                      request.offset + operation->done + equal);
      }
    }
  }
  operation->done += bytes;
  if (operation->done < request.length) {
    if (IsWithin(request)) return Continue(operation);
    // The medium was made smaller meanwhile.
    operation->request->reason = kBeyondEnd;
    return Finish(operation, FailureOf(request.op),
                  request.offset + operation->done);
  }
  if (operation->step == Step::kCompare) {
    return Enter(operation, Step::kTransfer);
  }
  Finish(operation, IoStatus::kOk, 0);
}

// Tries again, or in another way. Returns false when the request failed.
bool FileChannel::Retry(Operation* operation, int error) {
  if ((error == EINTR || error == EAGAIN) &&
      operation->retries++ < kMaxRetries) {
    Continue(operation);
    return true;
  }
  if (operation->kind == FileCall::Kind::kWrite && operation->dsync &&
      IsDoubtful(error)) {
    // Without RWF_DSYNC only the write itself can fail.
    operation->doubtful = error;
    Continue(operation);
    return true;
  }
  if (operation->request->op != Op::kWriteZeroes || !IsUnsupported(error)) {
    return false;
  }
  if (operation->step == Step::kZeroRange) medium_->ForgetZeroRange();
  if (operation->step == Step::kPunch && medium_->can_zero_range()) {
    Enter(operation, Step::kZeroRange);
    return true;
  }
  if (operation->step == Step::kPunch || operation->step == Step::kZeroRange) {
    Enter(operation, Step::kWriteBuffer);
    return true;
  }
  return false;
}

// The write itself works, so that it was the fdatasync that failed.
void FileChannel::FailDoubtful(Operation* operation) {
  medium_->NoteDataLost(operation->doubtful);
  Fail(operation, operation->doubtful);
}

void FileChannel::Fail(Operation* operation, int error) {
  const IoRequest& request = *operation->request;
  const bool reading = operation->kind == FileCall::Kind::kRead;
  IoStatus status = StatusOfErrno(error, !reading);
  uint64_t at = request.offset + operation->done;
  if (operation->step == Step::kSync) {
    at = request.offset;
    medium_->NoteDataLost(error);
  } else if (operation->kind == FileCall::Kind::kWrite && request.fua) {
    // A write that is tried again without RWF_DSYNC leaves open what the first
    // error was about, unless it is the same.
    const bool harmless = operation->doubtful == 0
                              ? IsTemporary(error)
                              : error == operation->doubtful;
    if (!harmless) medium_->NoteDataLost(error);
  }
  if (operation->step == Step::kPunch && IsUnsupported(error)) {
    status = IoStatus::kNotSupported;
  }
  operation->request->system_error = error;
  Finish(operation, status, at);
}

void FileChannel::Finish(Operation* operation, IoStatus status,
                         uint64_t error_offset) {
  operation->request->status = status;
  operation->request->error_offset = error_offset;
  if (operation->ticket == 0) return Complete(operation);
  LeaveStable(operation);
  operation->waits_for = last_ticket_;
  operation->next_held = std::exchange(held_, nullptr);
  Operation* ended = nullptr;
  for (Operation* op = operation; op != nullptr;) {
    Operation* const next = op->next_held;
    const bool settled = op->request->status != IoStatus::kOk ||
                         medium_->data_lost() || stable_head_ == nullptr ||
                         stable_head_->ticket > op->waits_for;
    Operation*& list = settled ? ended : held_;
    op->next_held = list;
    list = op;
    op = next;
  }
  if (operation == flush_) {
    flush_ = nullptr;
    if (next_flush_ != nullptr) StartFlush(std::exchange(next_flush_, nullptr));
  }
  // The last one may be what the channel's owner waits for.
  while (ended != nullptr) {
    Operation* const next = ended->next_held;
    Complete(ended);
    ended = next;
  }
}

void FileChannel::EnterStable(Operation* operation) {
  operation->ticket = ++last_ticket_;
  operation->stable_prev = stable_tail_;
  operation->stable_next = nullptr;
  (stable_tail_ != nullptr ? stable_tail_->stable_next : stable_head_) =
      operation;
  stable_tail_ = operation;
}

void FileChannel::LeaveStable(Operation* operation) {
  Operation* const prev = operation->stable_prev;
  Operation* const next = operation->stable_next;
  (prev != nullptr ? prev->stable_next : stable_head_) = next;
  (next != nullptr ? next->stable_prev : stable_tail_) = prev;
}

void FileChannel::Complete(Operation* operation) {
  IoRequest* request = operation->request;
  // Another channel's call may have been told of what was lost.
  if (operation->ticket != 0 && request->status == IoStatus::kOk &&
      medium_->data_lost()) {
    request->status = IoStatus::kWriteError;
    request->error_offset = request->offset;
    request->reason = kFlushFailedBefore;
  }
  IoRequest* const joined = operation->joined;
  request->backend_next = nullptr;
  StartWaiting(operation, request);
  CompleteJoined(joined, *request);
  // The last one may be what the channel's owner waits for.
  while (request != nullptr) {
    IoRequest* const next = request->backend_next;
    request->done(request);
    request = next;
  }
}

// The operation's next request. Those that there is no memory for, or no place
// in the medium, are appended to `ended`.
void FileChannel::StartWaiting(Operation* operation, IoRequest* ended) {
  while (IoRequest* const next = NextWaiting()) {
    if (!IsWithin(*next)) {
      Refuse(next, FailureOf(next->op), kBeyondEnd);
    } else if (Provide(*next, operation)) {
      return Begin(next, operation);
    } else {
      Refuse(next, IoStatus::kNoMemory, kNoMemory);
    }
    next->backend_next = nullptr;
    ended->backend_next = next;
    ended = next;
  }
  operation->next_free = free_;
  free_ = operation;
  --in_flight_;
}

IoRequest* FileChannel::NextWaiting() {
  for (;;) {
    IoRequest* const next = waiting_;
    if (next == nullptr) return nullptr;
    Cancel(next);
    if (next->op != Op::kFlush || next_flush_ == nullptr) return next;
    JoinFlush(next);
  }
}

void FileChannel::CompleteJoined(IoRequest* joined, const IoRequest& how) {
  while (joined != nullptr) {
    IoRequest* const request = std::exchange(joined, joined->backend_next);
    request->status = how.status;
    request->error_offset = request->offset;
    request->system_error = how.system_error;
    request->reason = how.reason;
    request->done(request);
  }
}

}  // namespace skiff::scsi
