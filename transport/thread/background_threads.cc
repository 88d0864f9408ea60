#include "transport/thread/background_threads.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "transport/thread/signals_blocked.h"

namespace skiff::transport {
namespace {

struct Kept {
  std::thread thread;
  std::function<void()> stop;
  bool ended = false;  // Its body has returned.
};

// Never destroyed.
struct All {
  static All& Get() {
    static auto* const kAll = new All;
    return *kAll;
  }
  // Those that have ended, for Join().
  std::list<Kept> TakeEnded() {
    std::list<Kept> ended;
    for (auto it = threads.begin(); it != threads.end();) {
      const auto next = std::next(it);
      if (it->ended) ended.splice(ended.end(), threads, it);
      it = next;
    }
    return ended;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::list<Kept> threads;
};

// Without the mutex, which they still need to say that they have ended.
void Join(std::list<Kept> ended) {
  for (Kept& kept : ended) kept.thread.join();
}

void Run(std::function<void()> body, std::list<Kept>::iterator kept) {
  body();
  body = nullptr;  // What it holds, too.
  All& all = All::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  kept->ended = true;
  all.changed.notify_all();
}

}  // namespace

void StartBackgroundThread(std::function<void()> body,
                           std::function<void()> stop) {
  All& all = All::Get();
  std::list<Kept> fresh(1);
  fresh.front().stop = std::move(stop);
  std::list<Kept> ended;
  {
    const SignalsBlocked blocked;
    const std::lock_guard<std::mutex> lock(all.mutex);
    // It waits for the mutex before it says that it has ended.
    fresh.front().thread = std::thread(Run, std::move(body), fresh.begin());
    all.threads.splice(all.threads.end(), fresh);
    ended = all.TakeEnded();
  }
  Join(std::move(ended));
}

bool JoinBackgroundThreads(std::chrono::nanoseconds timeout) {
  All& all = All::Get();
  std::vector<std::function<void()>> stops;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const Kept& kept : all.threads) {
      if (kept.stop != nullptr) stops.push_back(kept.stop);
    }
  }
  // Their locks are held where threads are started.
  for (const auto& stop : stops) stop();
  std::list<Kept> ended;
  bool none_left = false;
  {
    std::unique_lock<std::mutex> lock(all.mutex);
    all.changed.wait_for(lock, timeout, [&all] {
      return std::all_of(all.threads.begin(), all.threads.end(),
                         [](const Kept& kept) { return kept.ended; });
    });
    ended = all.TakeEnded();
    none_left = all.threads.empty();
  }
  Join(std::move(ended));
  return none_left;
}

}  // namespace skiff::transport
