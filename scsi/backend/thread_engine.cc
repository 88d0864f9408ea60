#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "scsi/backend/file_engine.h"

namespace skiff::scsi {
namespace {

int64_t MakeCall(int fd, const FileCall& call) {
  int64_t result = 0;
  const auto offset = static_cast<off_t>(call.offset);
  switch (call.kind) {
    case FileCall::Kind::kRead:
      result = preadv(fd, call.iov, call.iov_count, offset);
      break;
    case FileCall::Kind::kWrite:
      result = pwritev2(fd, call.iov, call.iov_count, offset,
                        call.dsync ? RWF_DSYNC : 0);
      break;
    case FileCall::Kind::kSync:
      result = fdatasync(fd);
      break;
    case FileCall::Kind::kAllocate:
      result =
          fallocate(fd, call.mode, offset, static_cast<off_t>(call.length));
      break;
  }
  return result < 0 ? -errno : result;
}

// A queue of calls, in order.
class CallList {
 public:
  void Push(FileCall* call) {
    call->engine_next = nullptr;
    (tail_ != nullptr ? tail_->engine_next : head_) = call;
    tail_ = call;
  }
  FileCall* Pop() {
    FileCall* call = head_;
    if (call == nullptr) return nullptr;
    head_ = call->engine_next;
    if (head_ == nullptr) tail_ = nullptr;
    return call;
  }
  bool empty() const { return head_ == nullptr; }

 private:
  FileCall* head_ = nullptr;
  FileCall* tail_ = nullptr;
};

class ThreadEngine : public FileEngine, private transport::FdHandler {
 public:
  ThreadEngine(transport::Reactor* reactor, int fd, Sink* sink)
      : reactor_(reactor), fd_(fd), sink_(sink) {}
  ~ThreadEngine() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        assert(to_do_.empty() && done_.empty());
        stop_ = true;
      }
      work_.notify_one();
      thread_.join();
    }
    if (watched_) reactor_->UnwatchFd(event_fd_);
    if (event_fd_ >= 0) close(event_fd_);
  }

  absl::Status Init() {
    event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd_ < 0) {
      return absl::ErrnoToStatus(errno, "cannot create an eventfd");
    }
    if (auto status = reactor_->WatchFd(event_fd_, EPOLLIN, this);
        !status.ok()) {
      return status;
    }
    watched_ = true;
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void Start(FileCall* call) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      to_do_.Push(call);
    }
    work_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !to_do_.empty(); });
      if (stop_) return;
      FileCall* call = to_do_.Pop();
      lock.unlock();
      call->engine_result = MakeCall(fd_, *call);
      lock.lock();
      const bool wake = done_.empty();
      done_.Push(call);
      if (wake) {
        const uint64_t one = 1;
        // Cannot fail: the counter is far from its limit.
        [[maybe_unused]] ssize_t n = write(event_fd_, &one, sizeof(one));
        assert(n == sizeof(one));
      }
    }
  }

  void OnFdReady(uint32_t /*events*/) override {
    CallList done;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      uint64_t count = 0;
      [[maybe_unused]] ssize_t n = read(event_fd_, &count, sizeof(count));
      std::swap(done, done_);
    }
    while (FileCall* call = done.Pop()) {
      sink_->OnCallDone(call, call->engine_result);
    }
  }

  transport::Reactor* reactor_;
  const int fd_;
  Sink* sink_;
  int event_fd_ = -1;
  bool watched_ = false;

  std::mutex mutex_;
  std::condition_variable work_;
  CallList to_do_;     // Under mutex_.
  CallList done_;      // Under mutex_.
  bool stop_ = false;  // Under mutex_.
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileEngine>> MakeThreadEngine(
    transport::Reactor* reactor, int fd, FileEngine::Sink* sink) {
  auto engine = std::make_unique<ThreadEngine>(reactor, fd, sink);
  if (absl::Status status = engine->Init(); !status.ok()) return status;
  return engine;
}

}  // namespace skiff::scsi
