#include "transport/reactor/processor_sharing.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>

#include "absl/container/inlined_vector.h"

namespace skiff::transport {
namespace {

// The threads of this process that run reactors.
class Threads {
 public:
  // More cost an allocation.
  using List = absl::InlinedVector<pid_t, 64>;
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
  // As they are now. Reactors that were started together look together: none
  // waits while another asks the kernel about each of them.
  List Copy() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return threads_;
  }

 private:
  std::mutex mutex_;
  List threads_;
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

void ProcessorSharing::Crowd::Add(const cpu_set_t& thread) {
  cpu_set_t both;
  CPU_AND(&both, &own_, &thread);
  if (CPU_EQUAL(&both, &thread)) ++confined_;
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
  cpu_set_t own;
  bool crowded = false;
  const Threads::List threads = Threads::Get().Copy();
  // Fewer cannot be too many, wherever they may run.
  if (sched_getaffinity(0, sizeof(own), &own) == 0 &&
      threads.size() > static_cast<size_t>(CPU_COUNT(&own))) {
    Crowd crowd(own);
    for (const pid_t thread : threads) {
      cpu_set_t other;
      // One that has ended since has none.
      if (sched_getaffinity(thread, sizeof(other), &other) == 0) {
        crowd.Add(other);
      }
    }
    crowded = crowd.too_many();
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
