#ifndef SKIFF_TRANSPORT_NET_BACKGROUND_CALL_H_
#define SKIFF_TRANSPORT_NET_BACKGROUND_CALL_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// The threads of one kind of background call: so many at once in the process.
// Thread-safe. Static, since the threads may outlive whoever started them.
class BackgroundThreads {
 public:
  // `noun` is what errors call the calls: "name lookups".
  constexpr BackgroundThreads(int limit, const char* noun)
      : limit_(limit), noun_(noun) {}
  BackgroundThreads(const BackgroundThreads&) = delete;
  BackgroundThreads& operator=(const BackgroundThreads&) = delete;

  // Runs `body`, which calls Release() once, on a new thread. An error if all
  // threads are in use, or the system has none.
  absl::Status Start(absl::AnyInvocable<void()> body);
  void Release() { running_.fetch_sub(1); }

 private:
  const int limit_;
  const char* const noun_;
  std::atomic<int> running_{0};
};

// A function that may block for long and cannot be interrupted (a lookup), run
// on a thread of its own on behalf of a reactor. The thread may outlive the
// call, and the reactor; it then throws its result away.
//
// Lives on the reactor's thread.
template <typename Result>
class BackgroundCall {
 public:
  using Function = absl::AnyInvocable<Result()>;
  using Callback = absl::AnyInvocable<void(Result)>;

  // `done` runs once on the reactor's thread, never from inside this call. A
  // thread is free again before `done` runs.
  static absl::StatusOr<std::unique_ptr<BackgroundCall>> Start(
      Reactor* reactor, BackgroundThreads* threads, Function function,
      Callback done) {
    std::unique_ptr<BackgroundCall> call(
        new BackgroundCall(reactor, std::move(done)));
    absl::Status status =
        threads->Start([state = call->state_, threads,
                        function = std::move(function)]() mutable {
          Result result = function();
          threads->Release();
          Deliver(state, std::move(result));
        });
    if (!status.ok()) return status;
    return call;
  }

  // The same for a result that needs no thread.
  static std::unique_ptr<BackgroundCall> Completed(Reactor* reactor,
                                                   Result result,
                                                   Callback done) {
    std::unique_ptr<BackgroundCall> call(
        new BackgroundCall(reactor, std::move(done)));
    Deliver(call->state_, std::move(result));
    return call;
  }

  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;
  // Cancels: `done` then never runs.
  ~BackgroundCall() {
    state_->done = nullptr;
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->reactor = nullptr;
  }

 private:
  struct State {
    // Null once cancelled: the reactor may be gone then. Guarded by `mutex`,
    // which the thread holds while it posts.
    std::mutex mutex;
    Reactor* reactor;
    Callback done;  // Touched on the reactor's thread only.
  };

  BackgroundCall(Reactor* reactor, Callback done)
      : state_(std::make_shared<State>()) {
    state_->reactor = reactor;
    state_->done = std::move(done);
  }

  static void Deliver(const std::shared_ptr<State>& state, Result result) {
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->reactor == nullptr) return;
    state->reactor->Post([state, result = std::move(result)]() mutable {
      if (state->done) std::exchange(state->done, nullptr)(std::move(result));
    });
  }

  const std::shared_ptr<State> state_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_BACKGROUND_CALL_H_
