#include "tools/clients/libiscsi/loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace skiff::libiscsi {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

bool Add(int epoll_fd, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

std::unique_ptr<Loop> Loop::Create(skiff_log_fn log, void* log_user,
                                   std::string* error) {
  skiff_context_options options;
  SKIFF_INIT(options);
  options.log_level = SKIFF_LOG_DEBUG;
  options.log = log;
  options.log_user = log_user;
  std::unique_ptr<Loop> loop(new Loop);
  if (skiff_context_create(&options, &loop->skiff_) != 0) {
    *error = skiff_last_error();
    return nullptr;
  }
  loop->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  loop->timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (loop->epoll_fd_ < 0 || loop->timer_fd_ < 0 ||
      !Add(loop->epoll_fd_, loop->timer_fd_) ||
      !Add(loop->epoll_fd_, skiff_context_fd(loop->skiff_))) {
    *error = std::string("no descriptor to wait for: ") + strerror(errno);
    return nullptr;
  }
  return loop;
}

Loop::~Loop() {
  if (skiff_ != nullptr) skiff_context_close(skiff_);
  if (timer_fd_ >= 0) close(timer_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

int64_t Loop::Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void Loop::Adopt() {
  if (pthread_equal(owner_, pthread_self()) != 0) return;
  if (skiff_context_adopt(skiff_) == 0) owner_ = pthread_self();
}

bool Loop::forked() const { return skiff_context_fd(skiff_) == -ECHILD; }

template <typename Function>
int Loop::Turn(const Function& function) {
  BeginTurn();
  const bool outer = std::exchange(turning_, true);
  const int handled = function();
  turning_ = outer;
  return handled;
}

int Loop::Poll() {
  return Turn([this] { return skiff_context_poll(skiff_); });
}

int Loop::Wait(int timeout_ms) {
  return Turn([&] { return skiff_context_wait(skiff_, timeout_ms); });
}

void Loop::BeginTurn() {
  kicked_ = false;
  if (armed_ == kNever || armed_ > Now() || forked()) return;
  armed_ = kNever;
  uint64_t expirations = 0;
  if (read(timer_fd_, &expirations, sizeof(expirations)) > 0) return;
  // It did not expire yet: with nobody to read it, it must not.
  const itimerspec never = {};
  timerfd_settime(timer_fd_, 0, &never, nullptr);
}

bool Loop::due() const {
  int64_t deadline = kNever;
  skiff_context_deadline(skiff_, &deadline);
  return deadline == 0;
}

void Loop::Kick() {
  // Costs less than the timer: the next turn needs not read it.
  if (std::exchange(kicked_, true)) return;
  skiff_context_post(
      skiff_, 0, [](void*) {}, nullptr);
}

void Loop::Arm(int64_t deadline) {
  int64_t skiffs = kNever;
  skiff_context_deadline(skiff_, &skiffs);
  deadline = std::min(deadline, skiffs);
  // Deadlines move away all the time: one that comes early does no harm.
  if (deadline >= armed_ || forked()) return;
  armed_ = std::max<int64_t>(deadline, 1);
  itimerspec when = {};
  when.it_value.tv_sec = armed_ / kSecond;
  when.it_value.tv_nsec = armed_ % kSecond;
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace skiff::libiscsi
