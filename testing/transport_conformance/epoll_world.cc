#include "testing/transport_conformance/epoll_world.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/net/socket_address.h"

namespace skiff::testing {
namespace {

// Conditions are often about completion queues that nobody armed, so waiting
// never lasts long; and it starts only when several turns found nothing to do.
constexpr absl::Duration kLongestWait = absl::Microseconds(500);
constexpr int kIdleTurnsBeforeWait = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<TransportWorld>> EpollWorld::Create(
    std::unique_ptr<transport::Transport> transport, absl::string_view address,
    const transport::EpollReactorOptions& options, Silent silent) {
  auto parsed = transport::Address::Parse(address);
  if (!parsed.ok()) return parsed.status();
  auto world = std::unique_ptr<EpollWorld>(new EpollWorld(
      std::move(transport), *std::move(parsed), options, std::move(silent)));
  for (int i = 0; i < 2; ++i) {
    absl::Status status = world->Add();
    if (!status.ok()) return status;
  }
  return world;
}

absl::Status EpollWorld::Add() {
  auto reactor = transport::EpollReactor::Create(options_);
  if (!reactor.ok()) return reactor.status();
  reactors_.push_back(*std::move(reactor));
  return absl::OkStatus();
}

transport::Reactor* EpollWorld::AddReactor(Side /*side*/) {
  const absl::Status status = Add();
  if (!status.ok()) ADD_FAILURE() << status;
  return status.ok() ? reactors_.back().get() : nullptr;
}

bool EpollWorld::RunUntil(absl::FunctionRef<bool()> done,
                          absl::Duration limit) {
  const absl::Time end = transport::EpollReactor::MonotonicNow() + limit;
  int idle_turns = 0;
  while (!done()) {
    if (transport::EpollReactor::MonotonicNow() >= end) return done();
    int events = 0;
    for (const auto& reactor : reactors_) events += reactor->Poll();
    idle_turns = events > 0 ? 0 : idle_turns + 1;
    if (idle_turns >= kIdleTurnsBeforeWait) Wait();
  }
  return true;
}

// A TCP listener whose backlog is full: the kernel drops what comes.
absl::StatusOr<transport::Address> EpollWorld::SilentAddress() {
  if (find_silent_ != nullptr) return find_silent_(*this);
  auto where = transport::ParseLiteral(address_.host, 0);
  if (!where.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat(address_.host, " is no numeric address"));
  }
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  transport::ScopedFd listener(socket(where->family(), kType, 0));
  const bool here = bind(listener.get(), where->get(), where->length) == 0;
  if (!here && errno == EADDRNOTAVAIL) {
    return absl::UnimplementedError(
        absl::StrCat(address_.host, " is not of this machine"));
  }
  if (!here || listen(listener.get(), 0) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot listen on ", address_.host));
  }
  const auto bound = transport::LocalAddress(listener.get());
  silent_.push_back(std::move(listener));
  // One fits in, and what is under way on the loopback has arrived at once.
  for (int i = 0; i < 4; ++i) {
    transport::ScopedFd guest(socket(bound.family(), kType, 0));
    if (connect(guest.get(), bound.get(), bound.length) != 0 &&
        errno != EINPROGRESS) {
      return absl::ErrnoToStatus(errno, "cannot fill a backlog");
    }
    silent_.push_back(std::move(guest));
  }
  transport::Address silent = address_;
  silent.port = bound.port();
  return silent;
}

void EpollWorld::Wait() {
  std::vector<pollfd> fds;
  absl::Duration wait = kLongestWait;
  const absl::Time now = transport::EpollReactor::MonotonicNow();
  for (const auto& reactor : reactors_) {
    fds.push_back({reactor->fd(), POLLIN, 0});
    wait = std::min(wait, reactor->NextDeadline() - now);
  }
  if (wait <= absl::ZeroDuration()) return;
  const timespec timeout = absl::ToTimespec(wait);
  ppoll(fds.data(), fds.size(), &timeout, nullptr);
}

}  // namespace skiff::testing
