#ifndef SKIFF_TOOLS_COMMON_COMPLETION_H_
#define SKIFF_TOOLS_COMMON_COMPLETION_H_

#include <condition_variable>
#include <mutex>

namespace skiff::tools {

// One thread waits for what another says once. May be destroyed as soon as
// Wait() returned.
class Completion {
 public:
  void Signal() {
    // Notified under the lock, which the waiter needs to go on.
    const std::lock_guard<std::mutex> lock(mutex_);
    signalled_ = true;
    condition_.notify_one();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return signalled_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool signalled_ = false;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_COMPLETION_H_
