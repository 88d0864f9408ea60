#include "testing/transport_conformance/epoll_world.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "gtest/gtest.h"

namespace skiff::testing {
namespace {

// Conditions are often about completion queues that nobody armed, so waiting
// never lasts long; and it starts only when several turns found nothing to do.
constexpr absl::Duration kLongestWait = absl::Microseconds(500);
constexpr int kIdleTurnsBeforeWait = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<TransportWorld>> EpollWorld::Create(
    std::unique_ptr<transport::Backend> backend, absl::string_view address,
    const transport::EpollReactorOptions& options) {
  auto parsed = transport::Address::Parse(address);
  if (!parsed.ok()) return parsed.status();
  auto world = std::unique_ptr<EpollWorld>(
      new EpollWorld(std::move(backend), *std::move(parsed), options));
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
