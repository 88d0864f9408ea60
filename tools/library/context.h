#ifndef SKIFF_TOOLS_LIBRARY_CONTEXT_H_
#define SKIFF_TOOLS_LIBRARY_CONTEXT_H_

#include <pthread.h>
#include <skiff/common.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/common/completion.h"
#include "tools/common/trace_switch.h"
#include "tools/library/handle.h"
#include "tools/library/log_hook.h"
#include "tools/library/memory.h"
#include "transport/log/log.h"
#include "transport/memory/fork_detector.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"
#include "transport/trace/pcapng.h"

namespace skiff::library {

// Event loops, transports, and what all that is made with them shares. Its
// reactors are numbered from 0: one for each thread, or the only one of a
// context that its user drives.
//
// Thread-safe but for Close(), and what is said to be of one thread.
class Context : public Object, public std::enable_shared_from_this<Context> {
 public:
  static constexpr Kind kKind = Kind::kContext;

  static absl::StatusOr<std::shared_ptr<Context>> Create(
      const skiff_context_options& options);
  ~Context() override;

  const transport::ForkDetector& fork_detector() const override {
    return fork_detector_;
  }

  // --- Reactors.

  bool threaded() const { return threads_ != nullptr; }
  uint32_t reactor_count() const {
    return static_cast<uint32_t>(reactors_.size());
  }
  transport::EpollReactor* reactor(uint32_t index) const {
    return reactors_[index];
  }
  std::vector<transport::Reactor*> reactors() const {
    return {reactors_.begin(), reactors_.end()};
  }
  // The next one in turn, for what may live on any.
  uint32_t ChooseReactor() { return next_reactor_++ % reactor_count(); }

  // Whether the calling thread is the one on which reactor `index` runs.
  bool OnReactor(uint32_t index) const;
  // Whether the calling thread is in a callback of this context.
  bool InCallback() const;
  // 0, or a remembered error: the context has no threads, and belongs to
  // another one.
  int CheckOwner() const;
  // 0, or a remembered error: the calling thread cannot wait for this context.
  int CheckMayWait() const;

  // Runs `fn` on that reactor: now if that is here, else in a later turn.
  void Run(uint32_t index, absl::AnyInvocable<void()> fn);
  // In a later turn in any case.
  void Post(uint32_t index, absl::AnyInvocable<void()> fn) {
    reactors_[index]->Post(std::move(fn));
  }
  // Returns when `fn` ran. CheckMayWait() allows it, or reactor `index` is
  // here.
  void RunAndWait(uint32_t index, absl::FunctionRef<void()> fn);

  // --- For the owner of a context without threads, not in its callbacks.

  // One turn.
  int Poll();
  // Turns until something was done, or `timeout` passed.
  int Wait(absl::Duration timeout);
  // Turns until `finished` is true.
  void DriveUntil(absl::FunctionRef<bool()> finished);
  // The calling thread becomes its owner.
  void Adopt() { owner_.store(pthread_self()); }

  // --- What is shared.

  // Filled, and never changed.
  const transport::Registry* registry() const { return &registry_; }
  // Where lines for people go; may be called on any thread.
  transport::LogSink log() const { return log_->Sink(); }
  void Log(transport::LogLevel level, absl::string_view message) const {
    log_->Write(level, message);
  }
  void SetLogLevel(int level) const { log_->SetLevel(level); }
  Memories& memories() { return memories_; }
  // Null: connections can't be traced.
  tools::TraceSwitch* trace() const { return trace_.get(); }
  // Where connections write what they carry. Refers to this.
  transport::CaptureSink capture() const {
    return trace_ == nullptr ? nullptr : trace_->Sink();
  }

  // --- The end.

  // Something that keeps the context from being closed. Has to go before the
  // `done` runs that tells of its end.
  class Use {
   public:
    Use(std::shared_ptr<Context> context, Kind kind);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { context_->uses_[static_cast<size_t>(kind_)].fetch_sub(1); }
    const std::shared_ptr<Context>& context() const { return context_; }

   private:
    const std::shared_ptr<Context> context_;
    const Kind kind_;
  };
  // 0, or a remembered error that says what is open.
  int CheckUnused() const;
  // Joins its threads; for the last context, also those that nobody owns.
  // Nothing of it may be in use. False: some of these have not ended in time.
  bool Close();

 private:
  // In the middle of turns of a context without threads.
  class Driving;

  explicit Context(const skiff_context_options& options);
  absl::Status Start(const skiff_context_options& options);

  const transport::ForkDetector fork_detector_;
  const absl::Duration join_timeout_;
  const std::shared_ptr<LogHook> log_;
  const std::unique_ptr<tools::TraceSwitch> trace_;
  transport::Registry registry_;
  Memories memories_;
  std::array<std::atomic<int>, 6> uses_ = {};  // By kind.
  std::atomic<uint32_t> next_reactor_ = 0;
  // One of both.
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<transport::EpollReactor> driven_;
  std::vector<transport::EpollReactor*> reactors_;
  std::atomic<pthread_t> owner_;  // Of `driven_`.
  bool driving_ = false;          // The owner's.
  bool closed_ = false;
};

// What a function does that starts something and takes `done`: where that is
// null, it waits.
class Ending {
 public:
  Ending(Context* context, skiff_done_fn done, void* user);
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() = default;

  // 0, or a remembered error: it would have to wait, and cannot.
  int error() const { return error_; }
  // To be called once, on a thread of the context, if Finish() is.
  struct Done {
    skiff_done_fn function = nullptr;
    void* user = nullptr;

    void operator()(int result, const char* message) const {
      function(user, result, message);
    }
    void operator()(const absl::Status& status) const;
  };
  Done done() const { return done_; }
  // After it was started: what the function is to return.
  int Finish();

 private:
  static void OnDone(void* user, int result, const char* message);

  Context* const context_;
  const bool waits_;
  int error_ = 0;
  Done done_;
  // Of who waits.
  tools::Completion completion_;
  bool ended_ = false;  // Of a context without threads.
  int result_ = 0;
  std::string message_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_CONTEXT_H_
