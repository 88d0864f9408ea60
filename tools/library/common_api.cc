// The functions of skiff/common.h.
#include <skiff/common.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "protocol/negotiation/url.h"
#include "tools/common/trace_file.h"
#include "tools/common/trace_switch.h"
#include "tools/common/transports.h"
#include "tools/common/version.h"
#include "tools/library/context.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/options.h"
#include "transport/log/log.h"

namespace skiff::library {
namespace {

// On CLOCK_MONOTONIC, in nanoseconds.
int64_t Nanoseconds(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return INT64_MAX;
  if (deadline == absl::InfinitePast()) return 0;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const absl::Duration left =
      deadline - transport::EpollReactor::MonotonicNow();
  return absl::ToInt64Nanoseconds(absl::DurationFromTimespec(now) + left);
}

int NullArgument(absl::string_view name) {
  return Fail(EINVAL, absl::StrCat(name, " is NULL"));
}

// 0, or a remembered error: not a context without threads, or not its thread,
// or in one of its callbacks.
int CheckDriver(const Context& context) {
  if (context.threaded()) {
    return Fail(EOPNOTSUPP,
                "the context has threads of its own, which drive it");
  }
  return context.CheckMayWait();
}

// 0, or a remembered error.
int GetTraceable(skiff_context* context, std::shared_ptr<Context>* out) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (pinned->trace() == nullptr) {
    return Fail(ENOTSUP,
                "the context was not made with SKIFF_CONTEXT_TRACEABLE");
  }
  *out = pinned.Share();
  return 0;
}

}  // namespace
}  // namespace skiff::library

using namespace skiff::library;  // NOLINT(google-build-using-namespace)

const char* skiff_version(void) { return skiff::tools::kVersion; }

int skiff_url_without_passwords(const char* url, char* text, size_t size) {
  if (url == nullptr || text == nullptr || size == 0) {
    return skiff::library::Fail(EINVAL, "url or text is NULL, or size is 0");
  }
  const std::string shown = skiff::protocol::WithoutPasswords(url);
  text[shown.copy(text, size - 1)] = '\0';
  return 0;
}

int skiff_has_transport(const char* name) {
  if (name == nullptr) return 0;
  skiff::transport::Registry registry;
  const auto ignore = [](skiff::transport::LogLevel, absl::string_view) {};
  if (!skiff::tools::AddTransportsAndAuto(&registry, ignore).ok()) return 0;
  return registry.Find(name).ok() ? 1 : 0;
}

const char* skiff_last_error(void) { return LastError(); }

void skiff_ignore(void* /*user*/, int /*result*/, const char* /*message*/) {}

int skiff_context_create(const skiff_context_options* options,
                         skiff_context** context) {
  if (context == nullptr) return NullArgument("context");
  *context = nullptr;
  skiff_context_options known;
  if (const int error = ReadOptions(options, "skiff_context_options", &known)) {
    return error;
  }
  if (const int error =
          CheckFlags(known.flags,
                     SKIFF_CONTEXT_SPIN | SKIFF_CONTEXT_ADAPTIVE_SPIN |
                         SKIFF_CONTEXT_TRACEABLE,
                     "skiff_context_options")) {
    return error;
  }
  auto created = Context::Create(known);
  if (!created.ok()) return Fail(created.status());
  void* const handle = Handles::Open(Kind::kContext, *std::move(created));
  if (handle == nullptr) {
    return Fail(EMFILE, "this process has too many handles of Skiff open");
  }
  *context = static_cast<skiff_context*>(handle);
  return 0;
}

int skiff_context_set_log_level(skiff_context* context, uint32_t level) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (level < SKIFF_LOG_ERROR || level > SKIFF_LOG_DEBUG) {
    return Fail(EINVAL, absl::StrCat("the level is ", level,
                                     ": it has to be one of skiff_log_level"));
  }
  pinned->SetLogLevel(static_cast<int>(level));
  return 0;
}

int skiff_context_start_trace(skiff_context* context, const char* path) {
  std::shared_ptr<Context> traced;
  if (const int error = GetTraceable(context, &traced)) return error;
  if (path == nullptr || *path == '\0') {
    return Fail(EINVAL, "the path of the trace is NULL or empty");
  }
  const absl::Status status =
      traced->trace()->Start(path, skiff::tools::TraceFile::Mode::kNew,
                             [log = traced->log()](absl::string_view why) {
                               log(skiff::transport::LogLevel::kWarning, why);
                             });
  if (absl::IsFailedPrecondition(status)) {
    return Fail(EBUSY, status.message());
  }
  return Fail(status);
}

int skiff_context_stop_trace(skiff_context* context) {
  std::shared_ptr<Context> traced;
  if (const int error = GetTraceable(context, &traced)) return error;
  const absl::Status status = traced->trace()->Stop().status();
  if (absl::IsFailedPrecondition(status)) {
    return Fail(ENOENT, status.message());
  }
  if (absl::IsDataLoss(status)) return Fail(EIO, status.message());
  return Fail(status);
}

int skiff_context_close(skiff_context* context) {
  std::shared_ptr<Context> closing;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    if (const int error = pinned->CheckMayWait()) return error;
    if (const int error = pinned->CheckUnused()) return error;
    if (!Handles::Close(context)) {
      return Fail(EBADF, "the skiff_context is being closed by another thread");
    }
    closing = pinned.Share();
  }
  if (closing->Close()) return 0;
  return Fail(ETIMEDOUT,
              "the context is closed, but a thread in the background is still "
              "at work, as on a name lookup: do not unload the library yet");
}

int skiff_context_fd(skiff_context* context) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (pinned->threaded()) {
    return Fail(EOPNOTSUPP,
                "the context has threads of its own, and nothing to wait for");
  }
  return pinned->reactor(0)->fd();
}

int skiff_context_deadline(skiff_context* context, int64_t* deadline) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (deadline == nullptr) return NullArgument("deadline");
  if (const int error = CheckDriver(*pinned)) return error;
  *deadline = Nanoseconds(pinned->reactor(0)->NextDeadline());
  return 0;
}

int skiff_context_timeout(skiff_context* context, int* timeout_ms) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (timeout_ms == nullptr) return NullArgument("timeout_ms");
  if (const int error = CheckDriver(*pinned)) return error;
  const absl::Time deadline = pinned->reactor(0)->NextDeadline();
  *timeout_ms = -1;
  if (deadline == absl::InfiniteFuture()) return 0;
  const absl::Duration left =
      std::clamp(deadline - skiff::transport::EpollReactor::MonotonicNow(),
                 absl::ZeroDuration(), absl::Hours(1));
  *timeout_ms = static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  return 0;
}

int skiff_context_poll(skiff_context* context) {
  std::shared_ptr<Context> polled;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    if (const int error = CheckDriver(*pinned)) return error;
    polled = pinned.Share();
  }
  return polled->Poll();
}

int skiff_context_wait(skiff_context* context, int timeout_ms) {
  std::shared_ptr<Context> polled;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    if (const int error = CheckDriver(*pinned)) return error;
    polled = pinned.Share();
  }
  return polled->Wait(timeout_ms < 0 ? absl::InfiniteDuration()
                                     : absl::Milliseconds(timeout_ms));
}

int skiff_context_adopt(skiff_context* context) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (pinned->threaded()) {
    return Fail(EOPNOTSUPP,
                "the context has threads of its own, which drive it");
  }
  pinned->Adopt();
  return 0;
}

int skiff_context_post(skiff_context* context, uint32_t thread,
                       void (*function)(void* user), void* user) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (function == nullptr) return NullArgument("function");
  if (thread >= pinned->reactor_count()) {
    return Fail(ERANGE,
                absl::StrCat("there is no thread ", thread,
                             ": the context has ", pinned->reactor_count()));
  }
  pinned->Post(thread, [function, user] { function(user); });
  return 0;
}

int skiff_buffer_alloc(skiff_context* context, size_t size, void** buffer) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  if (buffer == nullptr) return NullArgument("buffer");
  *buffer = nullptr;
  return pinned->memories().Allocate(size, buffer);
}

int skiff_buffer_free(skiff_context* context, void* buffer) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  return pinned->memories().Free(buffer);
}

int skiff_memory_register(skiff_context* context, void* data, size_t size) {
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  return pinned->memories().Register(data, size);
}

int skiff_memory_unregister(skiff_context* context, void* data,
                            skiff_done_fn done, void* user) {
  std::shared_ptr<Context> shared;
  {
    const Pinned<Context> pinned(context);
    if (pinned.error() != 0) return pinned.error();
    shared = pinned.Share();
  }
  Ending ending(shared.get(), done, user);
  if (ending.error() != 0) return ending.error();
  const int error = shared->memories().Unregister(
      data, [done = ending.done()] { done(0, ""); });
  return error != 0 ? error : ending.Finish();
}
