#include "transport/reactor/reactor_threads.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/thread/signals_blocked.h"

namespace skiff::transport {
namespace {

constexpr size_t kMaxThreadName = 15;

absl::Status CheckOptions(const ReactorThreadsOptions& options) {
  if (options.count < 1 || options.count > ReactorThreadsOptions::kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot run ", options.count, " reactors: the count is between 1 and ",
        ReactorThreadsOptions::kMaxCount));
  }
  if (!options.cpus.empty() &&
      options.cpus.size() != static_cast<size_t>(options.count)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.cpus.size(), " CPUs are given for ", options.count,
                     " reactors: give one for each, or none"));
  }
  for (const int cpu : options.cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CPU ", cpu, " is out of range: 0 to ", CPU_SETSIZE - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status Pin(std::thread& thread, int index, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error =
      pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot pin reactor ", index, " to CPU ", cpu,
                          ": is it online, and in this process's cpuset?"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReactorThreads>> ReactorThreads::Start(
    const ReactorThreadsOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  // Its destructor ends what was started if a later step fails.
  std::unique_ptr<ReactorThreads> self(new ReactorThreads);
  for (int i = 0; i < options.count; ++i) {
    absl::StatusOr<std::unique_ptr<EpollReactor>> reactor =
        EpollReactor::Create(options.reactor);
    if (!reactor.ok()) return reactor.status();
    self->reactors_.push_back(*std::move(reactor));
  }

  const SignalsBlocked blocked;
  for (int i = 0; i < options.count; ++i) {
    EpollReactor* reactor = self->reactor(i);
    try {
      self->threads_.emplace_back([reactor] { reactor->Run(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot start the thread of reactor ", i, ": ", error.what(),
          "; check ulimit -u and the cgroup's "
          "pids.max"));
    }
    std::thread& thread = self->threads_.back();
    pthread_setname_np(
        thread.native_handle(),
        absl::StrCat(options.name, "-", i).substr(0, kMaxThreadName).c_str());
    if (!options.cpus.empty()) {
      absl::Status status = Pin(thread, i, options.cpus[i]);
      if (!status.ok()) return status;
    }
  }
  return self;
}

ReactorThreads::~ReactorThreads() { Stop(); }

void ReactorThreads::Stop() {
  for (size_t i = 0; i < threads_.size(); ++i) reactors_[i]->Stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<Reactor*> ReactorThreads::reactors() const {
  std::vector<Reactor*> all;
  all.reserve(reactors_.size());
  for (const auto& reactor : reactors_) all.push_back(reactor.get());
  return all;
}

void ReactorThreads::RunOn(int index, absl::FunctionRef<void()> fn) {
  if (threads_.empty()) {
    fn();
    return;
  }
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  reactors_[index]->Post([&] {
    fn();
    // Notified under the lock: the waiter owns what it waits on.
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    condition.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait(lock, [&] { return done; });
}

}  // namespace skiff::transport
