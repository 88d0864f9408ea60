#include "transport/reactor/processor_sharing.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>

namespace skiff::transport {
namespace {

// The threads of this process that run reactors.
class Threads {
 public:
  static Threads& Get() {
    static auto* const kThreads = new Threads;
    return *kThreads;
  }
  void Add(pid_t thread) {
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.push_back(thread);
  }
  void Remove(pid_t thread) {
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.erase(std::find(threads_.begin(), threads_.end(), thread));
  }
  std::vector<pid_t> all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return threads_;
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> threads_;
};

// As in linux/sched/types.h, which cannot be included together with sched.h.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

}  // namespace

bool ProcessorSharing::Crowded(const cpu_set_t& own,
                               const std::vector<cpu_set_t>& all) {
  int confined = 0;
  for (const cpu_set_t& other : all) {
    cpu_set_t both;
    CPU_AND(&both, &own, &other);
    if (CPU_EQUAL(&both, &other)) ++confined;
  }
  return confined > CPU_COUNT(&own);
}

void ProcessorSharing::Begin(absl::Time now) {
  thread_ = gettid();
  Threads::Get().Add(thread_);
  rested_ = slept_ = now;
  due_ = next_look_ = now + kFirstLook;
}

void ProcessorSharing::End() {
  if (thread_ == 0) return;
  if (slice_ != absl::ZeroDuration()) SetSlice(absl::ZeroDuration());
  Threads::Get().Remove(thread_);
  thread_ = 0;
  crowded_ = false;
  due_ = next_look_ = absl::InfiniteFuture();
}

bool ProcessorSharing::Attend(absl::Time now) {
  if (now >= next_look_) Look(now);
  if (!crowded_ || now - rested_ < kMostWork) {
    due_ = crowded_ ? std::min(next_look_, rested_ + kMostWork) : next_look_;
    return false;
  }
  if (now - slept_ >= kNeverIdle) SetSlice(kSliceNeverIdle);
  sched_yield();
  return true;
}

void ProcessorSharing::OnYielded(absl::Time now) {
  rested_ = now;
  if (crowded_) due_ = std::min(next_look_, rested_ + kMostWork);
}

void ProcessorSharing::OnSlept(absl::Time now) {
  slept_ = now;
  SetSlice(kSlice);
  OnYielded(now);
}

// A machine with more processors than a cpu_set_t can hold counts as one that
// has enough.
void ProcessorSharing::Look(absl::Time now) {
  next_look_ = now + kLookInterval;
  bool crowded = false;
  cpu_set_t own;
  const std::vector<pid_t> threads = Threads::Get().all();
  if (sched_getaffinity(0, sizeof(own), &own) == 0 &&
      threads.size() > static_cast<size_t>(CPU_COUNT(&own))) {
    std::vector<cpu_set_t> all;
    for (const pid_t thread : threads) {
      cpu_set_t other;
      // One that has just ended has none.
      if (sched_getaffinity(thread, sizeof(other), &other) == 0) {
        all.push_back(other);
      }
    }
    crowded = Crowded(own, all);
  }
  if (crowded == crowded_) return;
  crowded_ = crowded;
  SetSlice(crowded ? kSlice : absl::ZeroDuration());
}

// Only of the policies that have such, and where the kernel knows of them: an
// older one tells none. Nothing depends on its success.
void ProcessorSharing::SetSlice(absl::Duration slice) {
  if (slice == slice_) return;
  slice_ = slice;
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 ||
      (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) ||
      attributes.runtime == 0) {
    return;
  }
  attributes.runtime = absl::ToInt64Nanoseconds(slice);
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace skiff::transport
