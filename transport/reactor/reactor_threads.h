#ifndef SKIFF_TRANSPORT_REACTOR_REACTOR_THREADS_H_
#define SKIFF_TRANSPORT_REACTOR_REACTOR_THREADS_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// How many threads, and where they run.
struct ReactorThreadsOptions {
  static constexpr int kMaxCount = 1024;

  int count = 1;  // Threads, each with a reactor of its own.
  EpollReactorOptions reactor;
  // The CPU of each thread, by index. Empty: the kernel places them.
  std::vector<int> cpus;
  // Threads are called "<name>-<index>", for top and gdb; the kernel keeps 15
  // characters.
  std::string name = "skiff";
};

// EpollReactors on threads of their own, for programs without an event loop.
// The threads block all signals, so that those go to the program's own threads.
//
// Threads: one owner, never one of the reactors' own threads.
class ReactorThreads {
 public:
  // All reactors turn when this returns. Errors name the thread, the CPU or the
  // limit at fault.
  static absl::StatusOr<std::unique_ptr<ReactorThreads>> Start(
      const ReactorThreadsOptions& options);

  ReactorThreads(const ReactorThreads&) = delete;
  ReactorThreads& operator=(const ReactorThreads&) = delete;
  // Stops. What lives on the reactors must be gone before.
  ~ReactorThreads();

  // Ends the threads after their current turns and joins them. The reactors
  // stay, and what lives on them may now be destroyed by the caller's thread.
  void Stop();

  // How many reactors there are.
  int size() const { return static_cast<int>(reactors_.size()); }
  // The reactor of that index, from 0 to size() - 1. Owned by this object.
  EpollReactor* reactor(int index) { return reactors_[index].get(); }
  // All of them, in order.
  std::vector<Reactor*> reactors() const;

  // Runs `fn` on that reactor's thread, and returns when it ran. After Stop():
  // on the calling thread.
  void RunOn(int index, absl::FunctionRef<void()> fn);

 private:
  ReactorThreads() = default;

  std::vector<std::unique_ptr<EpollReactor>> reactors_;
  std::vector<std::thread> threads_;  // Empty after Stop().
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_REACTOR_THREADS_H_
