#include "tools/library/context.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scsi/initiator/run_until.h"
#include "tools/common/transports.h"
#include "tools/library/error.h"
#include "tools/library/options.h"
#include "tools/library/own_transport.h"
#include "transport/thread/background_threads.h"

namespace skiff::library {
namespace {

// Which reactor the calling thread runs, where it is a context's own.
struct Here {
  const Context* context = nullptr;
  uint32_t index = 0;
};
thread_local Here here;

// Longer than anybody waits, and no overflow of a clock.
constexpr absl::Duration kForEver = absl::Hours(24 * 365);

// Contexts that are not closed yet.
std::atomic<int> open_contexts = 0;

constexpr absl::string_view kKindNames[] = {"",        "context", "disk",
                                            "backend", "target",  "server"};

absl::Status CheckContextOptions(const skiff_context_options& options) {
  if ((options.alloc == nullptr) != (options.free == nullptr)) {
    return absl::InvalidArgumentError(
        "alloc and free of skiff_context_options belong together: set both, or "
        "none");
  }
  constexpr uint32_t kSpins = SKIFF_CONTEXT_SPIN | SKIFF_CONTEXT_ADAPTIVE_SPIN;
  if ((options.flags & kSpins) == kSpins) {
    return absl::InvalidArgumentError(
        "SKIFF_CONTEXT_SPIN and SKIFF_CONTEXT_ADAPTIVE_SPIN exclude each "
        "other: one never sleeps");
  }
  if (options.log_level > SKIFF_LOG_DEBUG) {
    return absl::InvalidArgumentError(
        absl::StrCat("log_level is ", options.log_level,
                     ": it has to be one of skiff_log_level"));
  }
  if (options.cpu_count != 0 && options.cpu_count != options.threads) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu_count is ", options.cpu_count, " with ",
                     options.threads, " threads: give one for each, or none"));
  }
  if (options.cpu_count != 0 && options.cpus == nullptr) {
    return absl::InvalidArgumentError("cpus is NULL, but cpu_count is not 0");
  }
  constexpr uint32_t kMax = transport::ReactorThreadsOptions::kMaxCount;
  if (options.threads > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.threads, " threads are too many: at most ", kMax));
  }
  constexpr size_t kMaxTransports = 64;
  if (options.transport_count > kMaxTransports) {
    return absl::InvalidArgumentError(
        absl::StrCat("transport_count is ", options.transport_count,
                     ": at most ", kMaxTransports));
  }
  if (options.transport_count != 0 && options.transports == nullptr) {
    return absl::InvalidArgumentError(
        "transports is NULL, but transport_count is not 0");
  }
  return absl::OkStatus();
}

absl::Status AddOwn(const skiff_own_transport& own,
                    transport::Registry* registry) {
  if (own.make == nullptr || own.interface == nullptr) {
    return absl::InvalidArgumentError(
        "a skiff_own_transport has no make, or no interface: let "
        "OwnTransport() of tools/library/own_transport.h fill it in");
  }
  if (absl::string_view(own.interface) != kTransportInterface) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a transport was compiled with ", own.interface,
        ", and this library with ", kTransportInterface,
        ": compile the transport with the headers of this library"));
  }
  std::unique_ptr<transport::Transport> made(
      static_cast<transport::Transport*>(own.make(own.user)));
  if (made == nullptr) {
    return absl::InvalidArgumentError(
        "make of a skiff_own_transport returned NULL");
  }
  return registry->Add(std::move(made));
}

// Until the reactor has something to do, or that time. A turn would look in
// vain before.
void SleepUntil(const transport::EpollReactor& reactor, absl::Time until) {
  const absl::Duration left = until - transport::EpollReactor::MonotonicNow();
  if (left <= absl::ZeroDuration()) return;
  pollfd readable = {reactor.fd(), POLLIN, 0};
  poll(&readable, 1,
       static_cast<int>(absl::ToInt64Milliseconds(
           absl::Ceil(std::min(left, absl::Hours(1)), absl::Milliseconds(1)))));
}

}  // namespace

class Context::Driving {
 public:
  explicit Driving(Context* context) : context_(context) {
    context_->driving_ = true;
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;
  ~Driving() { context_->driving_ = false; }

 private:
  Context* const context_;
};

Context::Context(const skiff_context_options& options)
    : join_timeout_(
          TimeOf(options.join_timeout_ms, absl::Seconds(30), kForEver)),
      log_(LogHook::Create(options)),
      trace_((options.flags & SKIFF_CONTEXT_TRACEABLE) != 0
                 ? std::make_unique<tools::TraceSwitch>()
                 : nullptr),
      memories_(options),
      owner_(pthread_self()) {
  ++open_contexts;
}

Context::~Context() { Close(); }

absl::StatusOr<std::shared_ptr<Context>> Context::Create(
    const skiff_context_options& options) {
  absl::Status status = CheckContextOptions(options);
  if (!status.ok()) return status;
  std::shared_ptr<Context> self(new Context(options));
  status = self->Start(options);
  if (!status.ok()) return status;
  return self;
}

absl::Status Context::Start(const skiff_context_options& options) {
  absl::Status status = tools::AddTransports(&registry_);
  for (size_t i = 0; status.ok() && i < options.transport_count; ++i) {
    status = AddOwn(options.transports[i], &registry_);
  }
  if (status.ok()) status = tools::AddAuto(&registry_, log());
  if (!status.ok()) return status;
  transport::EpollReactorOptions reactor;
  if ((options.flags & SKIFF_CONTEXT_SPIN) != 0) {
    reactor.spin = absl::InfiniteDuration();
  }
  reactor.adaptive_spin = (options.flags & SKIFF_CONTEXT_ADAPTIVE_SPIN) != 0;
  if (options.threads == 0) {
    auto driven = transport::EpollReactor::Create(reactor);
    if (!driven.ok()) return driven.status();
    driven_ = *std::move(driven);
    reactors_.push_back(driven_.get());
  } else {
    transport::ReactorThreadsOptions threads;
    threads.count = static_cast<int>(options.threads);
    threads.reactor = reactor;
    threads.name = StringOf(options.thread_name, threads.name);
    threads.cpus.assign(options.cpus, options.cpus + options.cpu_count);
    auto started = transport::ReactorThreads::Start(threads);
    if (!started.ok()) return started.status();
    threads_ = *std::move(started);
    for (uint32_t i = 0; i < options.threads; ++i) {
      reactors_.push_back(threads_->reactor(static_cast<int>(i)));
      reactors_[i]->Post([this, i] { here = {this, i}; });
    }
  }
  memories_.Attach(reactors());
  return absl::OkStatus();
}

bool Context::OnReactor(uint32_t index) const {
  if (threaded()) return here.context == this && here.index == index;
  return pthread_equal(owner_.load(std::memory_order_relaxed),
                       pthread_self()) != 0;
}

bool Context::InCallback() const {
  return threaded() ? here.context == this : OnReactor(0) && driving_;
}

int Context::CheckOwner() const {
  if (threaded() || OnReactor(0)) return 0;
  return Fail(EPERM,
              "the context belongs to another thread: call there, or call "
              "skiff_context_adopt() when that thread is done with it");
}

int Context::CheckMayWait() const {
  if (const int error = CheckOwner()) return error;
  if (!InCallback()) return 0;
  return Fail(EDEADLK,
              "a callback may not wait for its own context: pass a callback "
              "to go on in");
}

void Context::Run(uint32_t index, absl::AnyInvocable<void()> fn) {
  if (OnReactor(index)) {
    fn();
  } else {
    Post(index, std::move(fn));
  }
}

void Context::RunAndWait(uint32_t index, absl::FunctionRef<void()> fn) {
  if (OnReactor(index)) {
    fn();
  } else {
    threads_->RunOn(static_cast<int>(index), fn);
  }
}

int Context::Poll() {
  const Driving driving(this);
  return driven_->Poll();
}

int Context::Wait(absl::Duration timeout) {
  const Driving driving(this);
  const absl::Time until = transport::EpollReactor::MonotonicNow() + timeout;
  int handled = 0;
  absl::Time now;
  // The reactor sleeps in fd(), so a turn that finds nothing ends the wait of
  // one.
  do {
    SleepUntil(*driven_, std::min(until, driven_->NextDeadline()));
    handled = driven_->Poll();
    now = transport::EpollReactor::MonotonicNow();
  } while (handled == 0 && now < until);
  return handled;
}

void Context::DriveUntil(absl::FunctionRef<bool()> finished) {
  const Driving driving(this);
  scsi::RunUntil(driven_.get(), finished);
}

Context::Use::Use(std::shared_ptr<Context> context, Kind kind)
    : context_(std::move(context)), kind_(kind) {
  context_->uses_[static_cast<size_t>(kind_)].fetch_add(1);
}

int Context::CheckUnused() const {
  std::vector<std::string> open;
  for (size_t kind = 0; kind < std::size(kKindNames); ++kind) {
    const int count = uses_[kind].load();
    if (count == 0) continue;
    open.push_back(
        absl::StrCat(count, " ", kKindNames[kind], count == 1 ? "" : "s"));
  }
  if (const size_t buffers = memories_.buffers(); buffers != 0) {
    open.push_back(
        absl::StrCat(buffers, buffers == 1 ? " buffer" : " buffers"));
  }
  if (open.empty()) return 0;
  return Fail(EBUSY,
              absl::StrCat("the context still has ", absl::StrJoin(open, ", "),
                           ": close what uses it before"));
}

bool Context::Close() {
  if (std::exchange(closed_, true)) return true;
  if (threads_ != nullptr) threads_->Stop();
  reactors_.clear();
  threads_.reset();
  driven_.reset();
  if (--open_contexts > 0) return true;
  // The library may be unloaded next.
  return transport::JoinBackgroundThreads(
      absl::ToChronoNanoseconds(join_timeout_));
}

Ending::Ending(Context* context, skiff_done_fn done, void* user)
    : context_(context), waits_(done == nullptr), done_{done, user} {
  if (!waits_) return;
  error_ = context->CheckMayWait();
  done_ = {OnDone, this};
}

void Ending::Done::operator()(const absl::Status& status) const {
  const std::string message(status.message());
  function(user, ErrorOf(status), message.c_str());
}

void Ending::OnDone(void* user, int result, const char* message) {
  auto* const self = static_cast<Ending*>(user);
  self->result_ = result;
  self->message_ = message;
  self->ended_ = true;
  if (self->context_->threaded()) self->completion_.Signal();
}

int Ending::Finish() {
  if (!waits_) return 0;
  if (context_->threaded()) {
    completion_.Wait();
  } else {
    context_->DriveUntil([this] { return ended_; });
  }
  return result_ == 0 ? 0 : Fail(-result_, message_);
}

}  // namespace skiff::library
