#include "transport/system/background.h"

#include <pthread.h>

#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "transport/thread/background_threads.h"

namespace skiff::transport {

struct BackgroundThread::All {
  static All& Get() {
    static auto* const kAll = new All;
    return *kAll;
  }
  std::mutex mutex;
  std::map<std::string, BackgroundThread*, std::less<>> threads;
};

BackgroundThread* BackgroundThread::Get(absl::string_view name) {
  All& all = All::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.threads.find(name);
  if (found != all.threads.end()) return found->second;
  auto* thread = new BackgroundThread(name);
  all.threads.emplace(name, thread);
  return thread;
}

bool BackgroundThread::AnyPending() {
  All& all = All::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [name, thread] : all.threads) {
    if (thread->pending() > 0) return true;
  }
  return false;
}

void BackgroundThread::Run(absl::AnyInvocable<void()> function) {
  if (!Push(&function)) function();
}

bool BackgroundThread::TryRun(absl::AnyInvocable<void()> function) {
  return Push(&function);
}

bool BackgroundThread::Push(absl::AnyInvocable<void()>* function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!started_ && !Start()) return false;
  functions_.push_back(std::move(*function));
  changed_.notify_all();
  return true;
}

bool BackgroundThread::Start() {
  try {
    StartBackgroundThread([this] { Loop(); }, [this] { Stop(); });
  } catch (const std::system_error&) {
    return false;
  }
  stop_ = false;
  started_ = true;
  return true;
}

void BackgroundThread::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void BackgroundThread::Loop() {
  constexpr size_t kMaxShown = 15;
  pthread_setname_np(pthread_self(), name_.substr(0, kMaxShown).c_str());
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !functions_.empty(); });
    if (functions_.empty()) break;
    absl::AnyInvocable<void()> function = std::move(functions_.front());
    lock.unlock();
    function();
    // What it holds goes before it counts as done.
    function = nullptr;
    lock.lock();
    functions_.pop_front();
    ++done_;
    changed_.notify_all();
  }
  // The next function starts another one.
  started_ = false;
}

size_t BackgroundThread::pending() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return functions_.size();
}

void BackgroundThread::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Others may give more meanwhile.
  const uint64_t last = done_ + functions_.size();
  changed_.wait(lock, [&] { return done_ >= last; });
}

}  // namespace skiff::transport
