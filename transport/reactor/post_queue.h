#ifndef SKIFF_TRANSPORT_REACTOR_POST_QUEUE_H_
#define SKIFF_TRANSPORT_REACTOR_POST_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace skiff::transport {

// Functions on their way to a reactor's thread; for reactor implementations.
// Push() is thread-safe, the rest belongs to the reactor's thread.
//
// Wakeups are coalesced: only the first Push() after BeginSleep() asks for one.
// A new queue counts as asleep. Both sides write their own flag before they
// read the other's (sequentially consistent), so that either the sleeper sees
// the function or the pusher sees the sleeper.
class PostQueue {
 public:
  // Few functions need no memory: destructors push, too, which cannot fail.
  PostQueue() {
    queue_.reserve(kRoom);
    running_.reserve(kRoom);
  }
  // Returns true if the caller must wake the reactor's thread.
  bool Push(absl::AnyInvocable<void()> fn) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(fn));
      pending_.store(true);
    }
    return sleeping_.load() && sleeping_.exchange(false);
  }

  // Runs what is queued; what is pushed meanwhile waits for the next call.
  int RunAll() {
    if (!pending_.load(std::memory_order_acquire)) return 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      running_.swap(queue_);
      pending_.store(false);
    }
    const int count = static_cast<int>(running_.size());
    for (auto& fn : running_) {
      fn();
      fn = nullptr;  // What it captured goes before the next function runs.
    }
    running_.clear();
    return count;
  }

  // Destroys what is queued, unrun, and what that pushes in turn.
  void Discard() {
    std::vector<absl::AnyInvocable<void()>> doomed;
    do {
      doomed.clear();
      std::lock_guard<std::mutex> lock(mutex_);
      doomed.swap(queue_);
      pending_.store(false);
    } while (!doomed.empty());
  }

  // From now on Push() asks for a wakeup. Returns false, and Push() will not
  // ask, if something is queued already: do not sleep then.
  bool BeginSleep() {
    sleeping_.store(true);
    if (!pending_.load()) return true;
    // If exchange() returns false then a pusher has asked for a wakeup, which
    // does no harm.
    sleeping_.exchange(false);
    return false;
  }
  void EndSleep() { sleeping_.store(false, std::memory_order_relaxed); }

  bool pending() const { return pending_.load(); }

 private:
  static constexpr size_t kRoom = 64;

  std::mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> queue_;
  std::vector<absl::AnyInvocable<void()>> running_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> sleeping_{true};
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_POST_QUEUE_H_
