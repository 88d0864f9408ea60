/// @file
/// Contexts: event loops, and all that is made of them.
#ifndef SKIFF_CONTEXT_HPP_
#define SKIFF_CONTEXT_HPP_

#include <skiff/common.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <skiff/status.hpp>
#include <utility>

namespace skiff {

/// Gets a line of the log: its skiff_log_level, and its text without a newline.
/// On any thread, also on several at once. Must not block or call the library.
using LogFunction = std::function<void(int level, const char* message)>;

/// The members of skiff_context_options; only `log` is a callable here, and
/// `log_user` means nothing. Strings and arrays stay the caller's, and are
/// copied by Context::Create().
struct ContextOptions : skiff_context_options {
  ContextOptions()
      : skiff_context_options(internal::Init<skiff_context_options>()) {}
  LogFunction log;  ///< Empty: silence.
};

/// Owns a context. Move-only. See skiff/common.h for the rules.
///
/// Everything that was made of a context has to go before it. Variables do, if
/// the context is declared first.
class Context {
 public:
  /// Makes one: with threads of its own if `options.threads` says so, else for
  /// the calling thread to drive. Errors: as of skiff_context_create().
  static Result<Context> Create(const ContextOptions& options = {}) {
    Context made;
    skiff_context_options plain = options;
    plain.struct_size = sizeof(plain);
    if (options.log) {
      made.log_ = std::make_unique<LogFunction>(options.log);
      plain.log_user = made.log_.get();
      plain.log = [](void* user, int level, const char* message) noexcept {
        (*static_cast<LogFunction*>(user))(level, message);
      };
    }
    const int result = skiff_context_create(&plain, &made.context_);
    if (result < 0) return Status::Last(result);
    return made;
  }

  Context(Context&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        log_(std::move(other.log_)) {}
  Context& operator=(Context&& other) noexcept {
    if (this != &other) {
      CloseOrKeep();
      context_ = std::exchange(other.context_, nullptr);
      log_ = std::move(other.log_);
    }
    return *this;
  }
  /// Blocks until the threads of the context are joined. Where it cannot end
  /// (see Close()), the log is told, and it stays, with what is open of it.
  ~Context() { CloseOrKeep(); }

  /// Ends it, as skiff_context_close() does; blocks. EBUSY: something of it is
  /// open. EDEADLK: in one of its callbacks. It then is as it was.
  Status Close() {
    const int result = skiff_context_close(context_);
    if (result < 0) return Status::Last(result);
    context_ = nullptr;
    log_.reset();
    return Status();
  }

  /// The same calls for those who drive it; see skiff/common.h for each.
  /// They return the number, or a negative errno, as those for C do: a loop has
  /// no use for more. skiff_last_error() has the message.
  int fd() const { return skiff_context_fd(context_); }
  int Deadline(int64_t* nanoseconds) const {
    return skiff_context_deadline(context_, nanoseconds);
  }
  int Timeout(int* milliseconds) const {
    return skiff_context_timeout(context_, milliseconds);
  }
  int Poll() { return skiff_context_poll(context_); }
  int Wait(int timeout_ms) { return skiff_context_wait(context_, timeout_ms); }

  /// From now on the calling thread drives it.
  Status Adopt() { return Status::Last(skiff_context_adopt(context_)); }

  /// Runs a callable without arguments on thread `thread`, in a later turn.
  template <typename Function>
  Status Post(Function&& function, uint32_t thread = 0) {
    using Held = std::decay_t<Function>;
    auto held = std::make_unique<Held>(std::forward<Function>(function));
    const int result = skiff_context_post(
        context_, thread,
        [](void* user) noexcept {
          std::unique_ptr<Held> self(static_cast<Held*>(user));
          std::move (*self)();
        },
        held.get());
    if (result < 0) return Status::Last(result);
    static_cast<void>(held.release());
    return Status();
  }

  /// Lets RDMA devices know memory of the caller's, as skiff_memory_register()
  /// does. It stays the caller's, until it was unregistered.
  Status RegisterMemory(void* data, size_t size) {
    return Status::Last(skiff_memory_register(context_, data, size));
  }
  /// Takes it back: blocks, or calls `done` with the Status.
  template <typename... Done>
  Status UnregisterMemory(void* data, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_memory_unregister(context_, data, run, user);
        },
        std::forward<Done>(done)...);
  }

  /// From this level on, one of skiff_log_level, the log gets lines.
  Status SetLogLevel(uint32_t level) {
    return Status::Last(skiff_context_set_log_level(context_, level));
  }
  /// Writes what connections carry to a new file: as
  /// skiff_context_start_trace(), with SKIFF_CONTEXT_TRACEABLE.
  Status StartTrace(const char* path) {
    return Status::Last(skiff_context_start_trace(context_, path));
  }
  /// Ends that, and closes the file.
  Status StopTrace() {
    return Status::Last(skiff_context_stop_trace(context_));
  }

  /// For calls of the interface for C. Stays the context's; NULL when closed.
  skiff_context* get() const { return context_; }

 private:
  Context() = default;
  void CloseOrKeep() noexcept {
    if (context_ == nullptr) return;
    if (skiff_context_close(context_) < 0 && log_ != nullptr) {
      // What stays may go on to log.
      LogFunction* log = log_.release();
      (*log)(SKIFF_LOG_ERROR, skiff_last_error());
    }
    context_ = nullptr;
  }

  skiff_context* context_ = nullptr;
  std::unique_ptr<LogFunction> log_;
};

/// Memory for I/O that RDMA devices know (skiff_buffer_alloc()). Move-only. No
/// I/O may use it when it is destroyed, and its context has to be there. Does
/// not block.
class Buffer {
 public:
  static Result<Buffer> Create(Context& context, size_t size) {
    Buffer made;
    const int result = skiff_buffer_alloc(context.get(), size, &made.data_);
    if (result < 0) return Status::Last(result);
    made.context_ = context.get();
    made.size_ = size;
    return made;
  }
  Buffer(Buffer&& other) noexcept
      : context_(other.context_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) skiff_buffer_free(context_, data_);
  }

  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  size_t size() const { return size_; }

 private:
  Buffer() = default;
  skiff_context* context_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace skiff

#endif  // SKIFF_CONTEXT_HPP_
