#ifndef SKIFF_TRANSPORT_SYSTEM_BACKGROUND_H_
#define SKIFF_TRANSPORT_SYSTEM_BACKGROUND_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

namespace skiff::transport {

// A thread for system calls that can take long, above all those that destroy a
// device's objects, so that no reactor waits for them. Runs what it is given
// one after another, in order. Thread-safe.
//
// The thread starts with the first function and stays, until
// JoinBackgroundThreads() or the end of the process. What is still to be done
// at that end is the kernel's. Where there
// can be no thread, functions run in the caller's. A child of fork() must not
// use those of its parent.
class BackgroundThread {
 public:
  // The one of this name, made if need be and never destroyed. At most 15
  // characters are shown.
  static BackgroundThread* Get(absl::string_view name);
  // Whether any of them has functions that are not done yet.
  static bool AnyPending();

  void Run(absl::AnyInvocable<void()> function);
  // For what takes so long that no caller may wait for it: where there can be
  // no thread, false, and the function is not run.
  bool TryRun(absl::AnyInvocable<void()> function);
  // Functions that are not done yet.
  size_t pending() const;
  // Waits for those that were given before.
  void Wait();

 private:
  struct All;

  explicit BackgroundThread(absl::string_view name) : name_(name) {}
  bool Start();
  // Takes the function over if there is a thread, or can be one.
  bool Push(absl::AnyInvocable<void()>* function);
  void Loop();
  void Stop();

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  bool stop_ = false;  // Once there is nothing to do.
  // In order; the first is running.
  std::deque<absl::AnyInvocable<void()>> functions_;
  uint64_t done_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SYSTEM_BACKGROUND_H_
