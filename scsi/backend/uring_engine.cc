#include <fcntl.h>
#include <liburing.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/backend/file_engine.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kOpcodes[] = {IORING_OP_READV, IORING_OP_WRITEV,
                                IORING_OP_READ,  IORING_OP_WRITE,
                                IORING_OP_FSYNC, IORING_OP_FALLOCATE};
constexpr unsigned kReapBatch = 64;
// Bytes of writes to the page cache that the kernel has at once, while others
// use the reactor: a thread of the kernel's copies them, and may share the
// reactor's processor. What it is given it does without a pause. Not a setting:
// it stands for a time, some 50 us, which is what a connection's pass may take
// beside others. Less would cost a wake-up of that thread for each piece of
// work that is no longer than the wake-up; more would make the others wait.
constexpr uint64_t kWritesAtOnce = 256u << 10;
constexpr absl::Duration kSubmitRetryDelay = absl::Milliseconds(1);

// With the newer flags completions are processed when this thread asks for
// them, not by interrupting it. Started disabled: the thread that submits
// first, not the one that creates the ring, becomes the single issuer.
int InitRing(unsigned entries, io_uring* ring) {
  constexpr unsigned kFlags = IORING_SETUP_SINGLE_ISSUER |
                              IORING_SETUP_DEFER_TASKRUN |
                              IORING_SETUP_TASKRUN_FLAG;
  int result =
      io_uring_queue_init(entries, ring, kFlags | IORING_SETUP_R_DISABLED);
  if (result == -EINVAL) {  // Before Linux 6.1.
    result = io_uring_queue_init(entries, ring, IORING_SETUP_R_DISABLED);
  }
  return result;
}

// What io_uring_enable_rings() does, which some builds of liburing do not
// export.
int EnableRing(int ring_fd) {
  return static_cast<int>(syscall(__NR_io_uring_register, ring_fd,
                                  IORING_REGISTER_ENABLE_RINGS, nullptr, 0));
}

absl::Status RefusedError(int error) {
  const char* advice =
      "Look at the limits of the process (ulimit -a), or lower queue_depth.";
  if (error == EPERM || error == EACCES) {
    advice =
        "Set the sysctl kernel.io_uring_disabled to 0, or allow io_uring in "
        "the seccomp profile of the container.";
  } else if (error == ENOSYS || error == EINVAL) {
    advice = "The kernel is too old (Linux 5.10 is needed) or built without.";
  } else if (error == ENOMEM) {
    advice = "Raise the limit on locked memory (ulimit -l, RLIMIT_MEMLOCK).";
  }
  return absl::UnavailableError(absl::StrCat(
      "the kernel refuses io_uring: ", std::strerror(error), ". ", advice));
}

class UringEngine : public FileEngine,
                    private transport::FdHandler,
                    private transport::TurnHook {
 public:
  UringEngine(transport::Reactor* reactor, Sink* sink)
      : reactor_(reactor),
        sink_(sink),
        retry_timer_(reactor, [this] { SubmitQueued(); }) {}
  ~UringEngine() override {
    assert(in_flight_ == 0 && waiting_head_ == nullptr);
    if (watched_) reactor_->UnwatchFd(event_fd_);
    if (event_fd_ >= 0) close(event_fd_);
    if (!initialized_) return;
    io_uring_unregister_files(&ring_);  // The kernel exits rings at leisure.
    io_uring_queue_exit(&ring_);
  }

  absl::Status Init(int fd, uint32_t max_calls) {
    if (int result = InitRing(max_calls, &ring_); result < 0) {
      return RefusedError(-result);
    }
    initialized_ = true;
    const int flags = fcntl(fd, F_GETFL);
    cached_ = flags < 0 || (flags & O_DIRECT) == 0;
    // A registered file spares the reactors the reference count that they would
    // share.
    if (int result = io_uring_register_files(&ring_, &fd, 1); result < 0) {
      return RefusedError(-result);
    }
    return WatchCompletions();
  }

  // The ring's own descriptor does not become readable for completions that
  // wait for this thread to process them; an eventfd does. Edge-triggered, so
  // that nobody needs to read its counter back.
  absl::Status WatchCompletions() {
    event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd_ < 0) {
      return absl::ErrnoToStatus(errno,
                                 "cannot create an eventfd; raise the limit on "
                                 "open files (ulimit -n) if it was reached");
    }
    if (int result = io_uring_register_eventfd(&ring_, event_fd_); result < 0) {
      return RefusedError(-result);
    }
    if (auto status = reactor_->WatchFd(event_fd_, EPOLLIN | EPOLLET, this);
        !status.ok()) {
      return status;
    }
    watched_ = true;
    return absl::OkStatus();
  }

  void Start(FileCall* call) override {
    call->engine_result = 0;
    if (cached_ && call->kind == FileCall::Kind::kWrite) {
      // The rest of a write, too, waits for its turn.
      if (NoRoom()) return Wait(call);
      call->engine_result = static_cast<int64_t>(BytesOf(*call));
      writing_ += call->engine_result;
    }
    Submit(call);
  }

 private:
  // How much of a call the kernel gets at once: what is left is another one.
  uint64_t MostOf(const FileCall& call) const {
    return cached_ && !call.dsync && reactor_->turn_shares().contended()
               ? kWritesAtOnce
               : std::numeric_limits<uint64_t>::max();
  }
  uint64_t BytesOf(const FileCall& call) const {
    uint64_t bytes = 0;
    for (int i = 0; i < call.iov_count; ++i) bytes += call.iov[i].iov_len;
    return call.iov_count == 1 ? std::min(bytes, MostOf(call)) : bytes;
  }
  bool NoRoom() const {
    return writing_ >= static_cast<int64_t>(kWritesAtOnce) &&
           reactor_->turn_shares().contended();
  }
  void Wait(FileCall* call) {
    call->engine_next = nullptr;
    (waiting_head_ == nullptr ? waiting_head_ : waiting_tail_->engine_next) =
        call;
    waiting_tail_ = call;
  }
  void StartWaiting() {
    while (waiting_head_ != nullptr && !NoRoom()) {
      FileCall* const call = waiting_head_;
      waiting_head_ = call->engine_next;
      call->engine_result = static_cast<int64_t>(BytesOf(*call));
      writing_ += call->engine_result;
      Submit(call);
    }
  }

  void Submit(FileCall* call) {
    // Each call has one entry at most, so there is always a free one.
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    assert(sqe != nullptr);
    Prepare(*call, sqe);
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, call);
    ++in_flight_;
    reactor_->ScheduleTurnEnd(this);
  }

  void Prepare(const FileCall& call, io_uring_sqe* sqe) const;

  void OnFdReady(uint32_t /*events*/) override { Reap(); }

  // What the page cache serves completes while it is submitted: reaping at once
  // spares it a turn. Only once per turn, though: a caller that submits from
  // its completion must not keep the turn from ending.
  void OnTurnEnd() override {
    SubmitQueued();
    if (reaped_at_ == reactor_->Now()) return;
    reaped_at_ = reactor_->Now();
    Reap();
  }

  void SubmitQueued() {
    if (!enabled_) {
      [[maybe_unused]] const int result = EnableRing(ring_.ring_fd);
      assert(result == 0);
      enabled_ = true;
    }
    while (io_uring_sq_ready(&ring_) > 0) {
      const int result = io_uring_submit(&ring_);
      if (result > 0 || result == -EINTR) continue;
      assert(result != -EEXIST && "used by two threads");
      // The kernel is short of memory: entries stay queued.
      return retry_timer_.ScheduleAfter(kSubmitRetryDelay);
    }
  }

  // Bounded by the calls in flight when it starts.
  void Reap() {
    io_uring_cqe* batch[kReapBatch];
    struct Done {
      FileCall* call;
      int result;
    } done[kReapBatch];
    for (uint32_t budget = in_flight_; budget > 0;) {
      const unsigned count = io_uring_peek_batch_cqe(
          &ring_, batch, budget < kReapBatch ? budget : kReapBatch);
      if (count == 0) return;
      for (unsigned i = 0; i < count; ++i) {
        done[i] = {static_cast<FileCall*>(io_uring_cqe_get_data(batch[i])),
                   batch[i]->res};
      }
      io_uring_cq_advance(&ring_, count);
      in_flight_ -= count;
      budget -= count;
      for (unsigned i = 0; i < count; ++i) {
        writing_ -= done[i].call->engine_result;
        sink_->OnCallDone(done[i].call, done[i].result);
      }
      StartWaiting();
    }
  }

  transport::Reactor* reactor_;
  Sink* sink_;
  io_uring ring_ = {};
  bool initialized_ = false;
  int event_fd_ = -1;
  bool watched_ = false;
  bool enabled_ = false;
  uint32_t in_flight_ = 0;
  bool cached_ = true;   // By the page cache.
  int64_t writing_ = 0;  // Bytes of such writes in flight.
  FileCall* waiting_head_ = nullptr;
  FileCall* waiting_tail_ = nullptr;
  absl::Time reaped_at_ = absl::InfinitePast();
  transport::Timer retry_timer_;
};

// The file is number 0 of the registered ones.
void UringEngine::Prepare(const FileCall& call, io_uring_sqe* sqe) const {
  const int flags = call.dsync ? RWF_DSYNC : 0;
  const iovec* iov = call.iov;
  switch (call.kind) {
    case FileCall::Kind::kRead:
      if (call.iov_count == 1) {
        io_uring_prep_read(sqe, 0, iov->iov_base, iov->iov_len, call.offset);
      } else {
        io_uring_prep_readv(sqe, 0, iov, call.iov_count, call.offset);
      }
      break;
    case FileCall::Kind::kWrite:
      if (call.iov_count == 1) {
        io_uring_prep_write(sqe, 0, iov->iov_base,
                            std::min<uint64_t>(iov->iov_len, MostOf(call)),
                            call.offset);
      } else {
        io_uring_prep_writev(sqe, 0, iov, call.iov_count, call.offset);
      }
      sqe->rw_flags = flags;
      break;
    case FileCall::Kind::kSync:
      io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
      break;
    case FileCall::Kind::kAllocate:
      io_uring_prep_fallocate(sqe, 0, call.mode, call.offset, call.length);
      break;
  }
}

}  // namespace

absl::Status CheckIoUring() {
  // Each file asks, and a ring that is made for it takes longer than all else
  // that opens one. What works goes on to work; its opposite can change.
  static std::atomic<bool> works = false;
  if (works) return absl::OkStatus();
  io_uring ring;
  if (int result = InitRing(2, &ring); result < 0) {
    return RefusedError(-result);
  }
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  bool complete = probe != nullptr;
  for (uint8_t opcode : kOpcodes) {
    complete = complete && io_uring_opcode_supported(probe, opcode) != 0;
  }
  io_uring_free_probe(probe);
  io_uring_queue_exit(&ring);
  works = complete;
  return complete ? absl::OkStatus() : RefusedError(ENOSYS);
}

absl::StatusOr<std::unique_ptr<FileEngine>> MakeUringEngine(
    transport::Reactor* reactor, int fd, uint32_t max_calls,
    FileEngine::Sink* sink) {
  auto engine = std::make_unique<UringEngine>(reactor, sink);
  if (absl::Status status = engine->Init(fd, max_calls); !status.ok()) {
    return status;
  }
  return engine;
}

}  // namespace skiff::scsi
