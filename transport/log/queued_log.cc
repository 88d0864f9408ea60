#include "transport/log/queued_log.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/log/repeated_events.h"
#include "transport/thread/background_threads.h"

namespace skiff::transport {
namespace {

// POSIX: a pipe that poll() calls writable takes so much without blocking.
constexpr size_t kSafeWrite = 4096;

bool IsWritable(int fd, int timeout_ms) {
  pollfd out = {fd, POLLOUT, 0};
  return poll(&out, 1, timeout_ms) == 1 && (out.revents & POLLOUT) != 0;
}

}  // namespace

absl::string_view LogPriority(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "<3>";
    case LogLevel::kWarning:
      return "<4>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kDebug:
      return "<7>";
  }
  return "";
}

// What the log and its thread share. The thread may outlive the log, where it
// is stuck in a write.
class QueuedLog::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(const QueuedLogOptions& options)
      : fd_(options.fd),
        priorities_(options.priorities),
        format_(options.format),
        deliver_(options.deliver),
        capacity_(
            std::max(options.max_bytes, QueuedLogOptions::kMinQueueBytes)),
        repeated_(options.repeat_window) {
    for (Batch& batch : batches_) {
      // Not initialized: untouched pages take no memory.
      batch.data.reset(new char[capacity_]);
    }
  }

  void Start();
  void Write(const LogEvent& event);
  bool Flush(absl::Duration timeout);
  void Stop();
  void Salvage();
  uint64_t dropped() const { return dropped_.load(); }

  // Around fork().
  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }
  void BecomeChild();

 private:
  // The atomics are for Salvage(), which takes no lock.
  struct Batch {
    std::unique_ptr<char[]> data;
    std::atomic<size_t> size{0};
    std::atomic<size_t> written{0};
  };

  using Clock = std::chrono::steady_clock;
  static absl::Time Now() {
    return absl::UnixEpoch() +
           absl::FromChrono(Clock::now().time_since_epoch());
  }

  void Run();
  void WaitForWork(std::unique_lock<std::mutex>* lock);
  bool HasWork() const {
    return stop_ || untold_ > 0 || batches_[filling_.load()].size.load() > 0;
  }
  size_t Written() const { return batches_[0].written + batches_[1].written; }
  uint64_t WriteBatch(Batch* batch);
  bool WriteSome(Batch* batch);
  ssize_t Put(const char* data, size_t size) const;
  void AppendNotice();
  void Append(const std::string& line);
  void AppendIfRoom(const LogEvent& event);
  void TellRepeated(bool all);
  std::string Format(const LogEvent& event) const;

  const int fd_;
  const bool priorities_;
  const std::function<std::string(absl::Time, const LogEvent&)> format_;
  bool (*const deliver_)(absl::string_view line);
  const size_t capacity_;
  std::mutex mutex_;
  RepeatedEvents repeated_;
  std::condition_variable work_;
  std::condition_variable idle_;
  Batch batches_[2];
  std::atomic<int> filling_{0};  // The other one is being written.
  bool writing_ = false;
  bool stop_ = false;
  bool child_ = false;
  uint64_t untold_ = 0;  // Dropped, and not said yet.
  uint64_t lost_ = 0;    // Not written: told after the next that is.
  std::atomic<uint64_t> dropped_{0};
};

namespace {

// The logs that fork() has to know of. Never destroyed.
template <typename T>
struct Registry {
  std::mutex mutex;
  std::vector<T*> logs;
  static Registry& Get() {
    static Registry* const kRegistry = new Registry;
    return *kRegistry;
  }
};

}  // namespace

void QueuedLog::State::Start() {
  StartBackgroundThread([self = shared_from_this()] { self->Run(); });
}

void QueuedLog::State::Append(const std::string& line) {
  Batch& batch = batches_[filling_.load()];
  const size_t size = batch.size.load(std::memory_order_relaxed);
  std::memcpy(batch.data.get() + size, line.data(), line.size());
  batch.size.store(size + line.size(), std::memory_order_release);
}

std::string QueuedLog::State::Format(const LogEvent& event) const {
  const absl::Time now = absl::Now();
  return absl::StrCat(priorities_ ? LogPriority(event.level) : "",
                      format_ != nullptr
                          ? format_(now, event)
                          : FormatLogLine(now, event.level, event.message));
}

void QueuedLog::State::Write(const LogEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (child_) {
    const std::string line = Format(event);
    if (!IsWritable(fd_, 0)) return;
    [[maybe_unused]] const ssize_t n = Put(line.data(), line.size());
    return;
  }
  if (stop_) return;
  const bool held = repeated_.Hold(
      event, Now(), [this](const LogEvent& other) { AppendIfRoom(other); });
  if (!held) AppendIfRoom(event);
  // Also to wait no longer than until what is held back is due.
  work_.notify_one();
}

void QueuedLog::State::AppendIfRoom(const LogEvent& event) {
  const std::string line = Format(event);
  const size_t used =
      batches_[filling_.load()].size.load(std::memory_order_relaxed);
  // Once lines are missing, later ones come after the one that says so.
  if (untold_ > 0 || line.size() > capacity_ - used) {
    ++untold_;
    ++dropped_;
    return;
  }
  Append(line);
}

// What there is no memory to tell is missing, as what there is no room for.
void QueuedLog::State::TellRepeated(bool all) {
  const auto append = [this](const LogEvent& event) { AppendIfRoom(event); };
  for (bool told = false; !told;) {
    try {
      if (all) {
        repeated_.TellAll(Now(), append);
      } else {
        repeated_.TellDue(Now(), append);
      }
      told = true;
    } catch (const std::bad_alloc&) {
      ++untold_;
      ++dropped_;
    }
  }
}

void QueuedLog::State::AppendNotice() {
  if (untold_ == 0) return;
  Append(Format(
      {LogLevel::kWarning,
       absl::StrCat(std::exchange(untold_, 0),
                    " lines of the log are missing before this one: they came "
                    "faster than they could be written"),
       {}}));
}

void QueuedLog::State::WaitForWork(std::unique_lock<std::mutex>* lock) {
  while (!HasWork()) {
    const absl::Time next = repeated_.next();
    if (next == absl::InfiniteFuture()) {
      work_.wait(*lock);
    } else {
      work_.wait_for(*lock, absl::ToChronoNanoseconds(next - Now()));
    }
    TellRepeated(/*all=*/false);
  }
}

void QueuedLog::State::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    WaitForWork(&lock);
    Batch& batch = batches_[filling_.load()];
    if (batch.size.load() == 0 && untold_ == 0) break;  // Stopped.
    filling_.store(1 - filling_.load());
    AppendNotice();  // After what is written now, before what comes.
    writing_ = true;
    lock.unlock();
    const uint64_t lost = WriteBatch(&batch);
    lock.lock();
    lost_ += lost;
    dropped_ += lost;
    // Told once something can be written again: a line about it would only be
    // the next to be lost.
    if (lost == 0 && batch.size.load() > 0) untold_ += std::exchange(lost_, 0);
    batch.size.store(0);
    batch.written.store(0);
    writing_ = false;
    idle_.notify_all();
  }
  idle_.notify_all();
}

// As write(2): some of whole lines, of which one is always taken as a whole by
// who delivers them.
ssize_t QueuedLog::State::Put(const char* data, size_t size) const {
  if (deliver_ == nullptr) return write(fd_, data, size);
  const absl::string_view line =
      absl::string_view(data, size)
          .substr(0, absl::string_view(data, size).find('\n'));
  if (deliver_(line)) return static_cast<ssize_t>(line.size()) + 1;
  errno = EIO;
  return -1;
}

// False when the descriptor takes nothing any more.
bool QueuedLog::State::WriteSome(Batch* batch) {
  const size_t from = batch->written.load();
  const ssize_t n = Put(batch->data.get() + from, batch->size.load() - from);
  if (n > 0) {
    batch->written.store(from + static_cast<size_t>(n));
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  // Somebody else made it non-blocking.
  if (n < 0 && errno == EAGAIN) return IsWritable(fd_, -1) || errno == EINTR;
  return false;
}

// Returns how many lines could not be written: a full disk, or a reader that is
// gone.
uint64_t QueuedLog::State::WriteBatch(Batch* batch) {
  while (batch->written.load() < batch->size.load()) {
    if (WriteSome(batch)) continue;
    const char* const data = batch->data.get();
    return static_cast<uint64_t>(std::count(data + batch->written.load(),
                                            data + batch->size.load(), '\n'));
  }
  return 0;
}

bool QueuedLog::State::Flush(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  TellRepeated(/*all=*/true);
  work_.notify_one();
  return idle_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] {
    return !writing_ && untold_ == 0 &&
           batches_[filling_.load()].size.load() == 0;
  });
}

void QueuedLog::State::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TellRepeated(/*all=*/true);
  stop_ = true;
  work_.notify_one();
}

void QueuedLog::State::BecomeChild() {
  child_ = true;
  repeated_.Clear();
  for (Batch& batch : batches_) batch.size.store(0);
}

// In a signal handler: no lock, no allocation. The thread may be writing the
// same bytes, which are then there twice.
void QueuedLog::State::Salvage() {
  constexpr int kPatienceMs = 100;
  const int filling = filling_.load();
  size_t written = Written();
  for (const int index : {1 - filling, filling}) {
    Batch& batch = batches_[index];
    size_t at = batch.written.load();
    const size_t end = batch.size.load(std::memory_order_acquire);
    while (at < end) {
      if (!IsWritable(fd_, kPatienceMs)) {
        // Unless there was room, and the thread took it.
        if (Written() == std::exchange(written, Written())) return;
        continue;
      }
      const ssize_t n =
          Put(batch.data.get() + at, std::min(end - at, kSafeWrite));
      if (n <= 0 && errno != EINTR) return;
      if (n > 0) at += static_cast<size_t>(n);
    }
  }
}

namespace {

constexpr int kFatalSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
struct sigaction old_actions[std::size(kFatalSignals)];
std::atomic<void (*)()> salvage{nullptr};

void OnFatalSignal(int number, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  if (void (*const run)() = salvage.exchange(nullptr)) run();
  for (size_t i = 0; i < std::size(kFatalSignals); ++i) {
    if (kFatalSignals[i] == number) {
      sigaction(number, &old_actions[i], nullptr);
    }
  }
  errno = saved_errno;
  // What faulted does so again, and meets what was there before. What was sent
  // has to be sent again; it arrives when this returns.
  if (info->si_code <= 0) raise(number);
}

}  // namespace

QueuedLog::QueuedLog(const QueuedLogOptions& options)
    : state_(std::make_shared<State>(options)) {
  using Logs = Registry<State>;
  static const int kAtfork = pthread_atfork(
      [] {
        Logs::Get().mutex.lock();
        for (State* log : Logs::Get().logs) log->Lock();
      },
      [] {
        for (State* log : Logs::Get().logs) log->Unlock();
        Logs::Get().mutex.unlock();
      },
      [] {
        for (State* log : Logs::Get().logs) {
          log->BecomeChild();
          log->Unlock();
        }
        Logs::Get().mutex.unlock();
      });
  static_cast<void>(kAtfork);
  {
    const std::lock_guard<std::mutex> lock(Logs::Get().mutex);
    Logs::Get().logs.push_back(state_.get());
  }
  state_->Start();
}

QueuedLog::~QueuedLog() {
  salvage.store(nullptr);
  using Logs = Registry<State>;
  {
    const std::lock_guard<std::mutex> lock(Logs::Get().mutex);
    std::vector<State*>& logs = Logs::Get().logs;
    logs.erase(std::remove(logs.begin(), logs.end(), state_.get()), logs.end());
  }
  state_->Stop();
}

void QueuedLog::Write(const LogEvent& event) { state_->Write(event); }

bool QueuedLog::Flush(absl::Duration timeout) { return state_->Flush(timeout); }

uint64_t QueuedLog::dropped() const { return state_->dropped(); }

LogSink QueuedLog::Sink(LogLevel level) {
  return LogEventSink(
      [weak = std::weak_ptr<State>(state_), level](const LogEvent& event) {
        if (event.level > level) return;
        if (const std::shared_ptr<State> state = weak.lock())
          state->Write(event);
      });
}

void QueuedLog::WriteOnFatalSignals() {
  static std::atomic<State*> log{nullptr};
  log.store(state_.get());
  salvage.store([] { log.load()->Salvage(); });
  // Once, or what was there before would be this.
  static std::atomic<bool> installed{false};
  if (installed.exchange(true)) return;
  struct sigaction action = {};
  action.sa_sigaction = &OnFatalSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kFatalSignals); ++i) {
    sigaction(kFatalSignals[i], &action, &old_actions[i]);
  }
}

}  // namespace skiff::transport
