#include "transport/soft_iwarp/first_message_watch.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/log/log.h"

namespace skiff::transport {
namespace {

void SayOnce(const absl::Status& why) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  LogToProcess(
      LogLevel::kWarning,
      absl::StrCat("cannot see whether Soft-iWARP lets first messages lie: ",
                   why.message(), "; connects to this process may hang"));
}

}  // namespace

FirstMessageWatch::FirstMessageWatch(Reactor* reactor, const Settings& settings,
                                     Connection connection)
    : settings_(settings),
      connection_(std::move(connection)),
      wait_(settings.after),
      timer_(reactor, [this] { OnTimer(); }) {}

void FirstMessageWatch::StartConnected() { Wait(); }

void FirstMessageWatch::StartAccepted(const SocketAddress& local,
                                      const SocketAddress& peer) {
  accepted_ = true;
  local_ = local;
  peer_ = peer;
  Wait();
}

void FirstMessageWatch::Wait() {
  if (wait_ > absl::ZeroDuration() && wait_ <= settings_.limit) {
    timer_.ScheduleAfter(wait_);
  }
}

void FirstMessageWatch::OnTimer() {
  if (connection_.settled()) return;
  if (accepted_) {
    if (LiesUnread() && connection_.send(Nothing::kRead)) return;
  } else {
    connection_.send(Nothing::kWrite);
  }
  wait_ *= 2;
  Wait();
}

bool FirstMessageWatch::LiesUnread() {
  const absl::StatusOr<TcpArrivals> now = QueryTcpArrivals(local_, peer_);
  if (!now.ok()) {
    wait_ = absl::InfiniteDuration();
    // Otherwise it has ended, and somebody else says so.
    if (!absl::IsNotFound(now.status())) SayOnce(now.status());
    return false;
  }
  return std::exchange(before_, *now) == *now && now->unread > 0;
}

}  // namespace skiff::transport
