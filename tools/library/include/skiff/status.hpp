/// @file
/// How calls of the C++ interface end: skiff::Status, skiff::Result.
///
/// The C++ interface is these headers over the one for C, nothing else: it is
/// compiled into the program, in C++17 or later, and what the library exports
/// stays C. The rules of skiff/common.h hold: threads, callbacks, fork(). What
/// they say of `done` NULL holds for a call without a callable.
///
/// Callables are moved into the one allocation that a call with a callable
/// makes, run once, and are destroyed there. They may be move-only. They must
/// not throw: an exception that leaves one ends the program.
#ifndef SKIFF_STATUS_HPP_
#define SKIFF_STATUS_HPP_

#include <skiff/common.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace skiff {

/// Success, or an errno with a message. Any number of threads may read one.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() = default;
  /// `result` as functions of the interface for C return it: an error if it is
  /// negative, else success.
  Status(int result, std::string message)
      : error_(result < 0 ? -result : 0),
        message_(result < 0 ? std::move(message) : std::string()) {}
  /// What a call on this thread returned just now.
  static Status Last(int result) {
    return result < 0 ? Status(result, skiff_last_error()) : Status();
  }

  bool ok() const { return error_ == 0; }
  /// A positive errno, or 0.
  int error() const { return error_; }
  /// What was wrong, in words. "" for success.
  const std::string& message() const { return message_; }
  std::error_code code() const {
    return std::error_code(error_, std::generic_category());
  }

 private:
  int error_ = 0;
  std::string message_;
};

namespace internal {

/// What a value that is not there ends in.
[[noreturn]] inline void NoValue(const Status& status) {
#ifdef __cpp_exceptions
  throw std::system_error(status.code(), status.message());
#else
  static_cast<void>(status);
  std::abort();
#endif
}

}  // namespace internal

/// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T&& value)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>, std::move(value)) {}
  /// `status` is an error; success without a value is turned into one.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<0>,
               status.ok() ? Status(-EINVAL, "no value was given")
                           : std::move(status)) {}

  bool ok() const { return state_.index() == 1; }
  Status status() const { return ok() ? Status() : *std::get_if<0>(&state_); }
  /// The value. Where there is none, it throws a std::system_error that says
  /// why; compiled without exceptions, it aborts.
  T& value() & {
    Check();
    return *std::get_if<1>(&state_);
  }
  const T& value() const& {
    Check();
    return *std::get_if<1>(&state_);
  }
  T&& value() && {
    Check();
    return std::move(*std::get_if<1>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void Check() const {
    if (!ok()) internal::NoValue(*std::get_if<0>(&state_));
  }

  std::variant<Status, T> state_;
};

namespace internal {

/// A struct of the interface for C with its size, else zeroes.
template <typename T>
T Init() {
  T value;
  skiff_init(&value, sizeof(value));
  return value;
}

/// Waits: `call` is given no callback.
template <typename Call>
Status Start(Call&& call) {
  return Status::Last(call(nullptr, nullptr));
}

/// Starts: `done` is called with the Status once it is over. Not if the call
/// itself failed.
template <typename Call, typename Done>
Status Start(Call&& call, Done&& done) {
  using Held = std::decay_t<Done>;
  static_assert(std::is_invocable_v<Held, Status>,
                "what is called at the end takes a skiff::Status");
  auto held = std::make_unique<Held>(std::forward<Done>(done));
  skiff_done_fn run = [](void* user, int result, const char* message) noexcept {
    std::unique_ptr<Held> self(static_cast<Held*>(user));
    std::move (*self)(Status(result, message));
  };
  const int result = call(run, held.get());
  if (result < 0) return Status::Last(result);
  // It is the callback's by now, and perhaps gone.
  static_cast<void>(held.release());
  return Status();
}

/// What is told one by one, until `done` is called with all of it.
template <typename T, typename Done>
struct Gathering {
  static_assert(std::is_invocable_v<Done, Result<std::vector<T>>>,
                "what is called at the end takes a skiff::Result");
  /// A skiff_done_fn, with one of these that it deletes.
  static void Finish(void* user, int result, const char* message) noexcept {
    std::unique_ptr<Gathering> self(static_cast<Gathering*>(user));
    if (result < 0) {
      std::move(self->done)(Result<std::vector<T>>(Status(result, message)));
    } else {
      std::move(self->done)(Result<std::vector<T>>(std::move(self->all)));
    }
  }
  /// Starts: `call` is given one. Not `done`, if the call itself failed.
  template <typename Call>
  static Status Start(Call&& call, Done done) {
    std::unique_ptr<Gathering> held(new Gathering{{}, std::move(done)});
    const int result = call(held.get());
    if (result < 0) return Status::Last(result);
    // It is the callback's by now, and perhaps gone.
    static_cast<void>(held.release());
    return Status();
  }

  std::vector<T> all;
  Done done;
};

}  // namespace internal
}  // namespace skiff

#endif  // SKIFF_STATUS_HPP_
