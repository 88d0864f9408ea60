#ifndef SKIFF_TRANSPORT_REACTOR_PROCESSOR_SHARING_H_
#define SKIFF_TRANSPORT_REACTOR_PROCESSOR_SHARING_H_

#include <sched.h>
#include <sys/types.h>

#include <algorithm>

#include "absl/time/time.h"

namespace skiff::transport {

// The thread that runs a reactor beside those that run the others of this
// process, where they have fewer processors than there are of them: crowded.
//
// A reactor that always has work would keep its processor for the kernel's time
// slice, and up to its next tick: 4 ms, while another, which has little to do,
// waits at each of its wake-ups. So it yields after each turn that ends
// kMostWork or later after it began. Turns are made that short
// (TurnShares::set_crowded).
//
// A yield alone is enough where kernels are older. Since Linux 6.12 a thread
// can also say how long its slices should be, and one whose slices are shorter
// comes at once when it is woken. No fixed length would do, as any reactor can
// be the one that always has work: so it asks for longer ones while it has.
// Beside a thread that never sleeps, one that works for 25 us and sleeps for 10
// us was woken after 15 us nine times out of ten, and after 35 us at most 99
// times out of 100; with yields alone after 55 us, and without both after 4 ms.
//
// Where there are no more reactors than processors, this is one comparison in a
// turn, and a system call in a second. Where there are more of them, it is one
// for each.
//
// All is called by that thread.
class ProcessorSharing {
 public:
  // Several times what it takes to yield, with which it is lost; several of
  // these in a row should still be shorter than what a network takes.
  static constexpr absl::Duration kMostWork = absl::Microseconds(64);
  // How often it looks whether there are fewer processors than reactors: they
  // come and go, and whoever runs the process moves it to others.
  static constexpr absl::Duration kLookInterval = absl::Seconds(1);
  // The first time. Others are being started.
  static constexpr absl::Duration kFirstLook = absl::Milliseconds(100);
  // Without sleep for so long, it is one that always has work.
  static constexpr absl::Duration kNeverIdle = absl::Milliseconds(1);
  // The kernel's least, and what is longer than that.
  static constexpr absl::Duration kSlice = absl::Microseconds(100);
  static constexpr absl::Duration kSliceNeverIdle = absl::Microseconds(200);
  // One that waited for less for events did not sleep.
  static constexpr absl::Duration kSleep = absl::Microseconds(5);

  ProcessorSharing() = default;
  ProcessorSharing(const ProcessorSharing&) = delete;
  ProcessorSharing& operator=(const ProcessorSharing&) = delete;
  ~ProcessorSharing() { End(); }

  // The calling thread runs the reactor from now on, until End(). Others have
  // no processor to share.
  void Begin(absl::Time now);
  void End();

  bool crowded() const { return crowded_; }

  // For the beginning of each turn: whether Attend() has something to do.
  bool due(absl::Time now) const { return now >= due_; }
  // Looks how many there are, and yields the processor. True if it did: it is
  // later now than `now`, and OnYielded() is to be told.
  bool Attend(absl::Time now);
  // The processor was given to whoever wants it, and the thread has it back.
  void OnYielded(absl::Time now);
  // It has waited for events until `now`.
  void OnWaited(absl::Time since, absl::Time now) {
    if (crowded_ && now - since > kSleep) OnSlept(now);
  }

  // Whether a thread that may run on `own` has to share processors: of all
  // threads, itself included, more may run nowhere else than there are.
  class Crowd {
   public:
    explicit Crowd(const cpu_set_t& own) : own_(own) {}
    void Add(const cpu_set_t& thread);
    bool too_many() const { return confined_ > CPU_COUNT(&own_); }

   private:
    const cpu_set_t own_;
    int confined_ = 0;
  };

 private:
  void Look(absl::Time now);
  void OnSlept(absl::Time now);
  void SetSlice(absl::Duration slice);

  pid_t thread_ = 0;  // None runs the reactor: 0.
  bool crowded_ = false;
  absl::Time due_ = absl::InfiniteFuture();
  absl::Time next_look_ = absl::InfiniteFuture();
  absl::Time rested_ = absl::InfinitePast();  // Slept, or yielded.
  absl::Time slept_ = absl::InfinitePast();
  absl::Duration slice_;  // Zero: the kernel's own.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_PROCESSOR_SHARING_H_
