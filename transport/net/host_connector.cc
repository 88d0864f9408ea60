#include "transport/net/host_connector.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/annotate.h"

namespace skiff::transport {

HostConnector::HostConnector(Reactor* reactor, Address address,
                             ConnectOptions options, ConnectCallback done,
                             const char* doubts)
    : Connector(reactor, std::move(address), std::move(options),
                std::move(done)),
      doubts_(doubts) {}

absl::Status HostConnector::Start() {
  auto lookup = NameLookup::Start(
      reactor_, address_.host, address_.port,
      [this](auto resolved) { OnResolved(std::move(resolved)); });
  if (!lookup.ok()) return lookup.status();
  lookup_ = *std::move(lookup);
  StartTimer();
  return absl::OkStatus();
}

void HostConnector::OnResolved(
    absl::StatusOr<std::vector<SocketAddress>> resolved) {
  timer_.Cancel();
  if (!resolved.ok()) return Fail(resolved.status());
  candidates_ = *std::move(resolved);
  TryNext();
}

void HostConnector::OnTimer() {
  if (trying_) {
    FailOne(absl::DeadlineExceededError(
        absl::StrCat("no answer in time - ", doubts_)));
  } else {
    Fail(absl::DeadlineExceededError(
        absl::StrCat("the name service did not answer within ",
                     absl::FormatDuration(options_.timeout),
                     "; use a numeric address or a longer timeout")));
  }
}

void HostConnector::TryNext() {
  while (next_ < candidates_.size()) {
    const absl::Duration left = deadline_ - reactor_->Now();
    const auto remaining = static_cast<int64_t>(candidates_.size() - next_);
    absl::Status started = StartOne(candidates_[next_++]);
    if (started.ok()) {
      trying_ = true;
      timer_.ScheduleAfter(left / remaining);
      return;
    }
    DropOne();
    failures_.push_back(std::move(started));
  }
  Fail(Summary());
}

void HostConnector::FailOne(const absl::Status& why, Concerns concerns) {
  timer_.Cancel();
  trying_ = false;
  failures_.push_back(why);
  DropOne();
  if (concerns == Concerns::kAll) return Fail(Summary());
  TryNext();
}

absl::Status HostConnector::Summary() const {
  if (failures_.empty()) return absl::NotFoundError("it has no address");
  if (failures_.size() == 1) return failures_.front();
  std::string others;
  for (size_t i = 0; i + 1 < failures_.size(); ++i) {
    absl::StrAppend(&others, candidates_[i].ToString(), ": ",
                    failures_[i].message(), "; ");
  }
  // With what the last peer said, if it did.
  return Annotate(failures_.back(),
                  absl::StrCat("none of its ", candidates_.size(),
                               " addresses answered: ", others,
                               candidates_[failures_.size() - 1].ToString()));
}

}  // namespace skiff::transport
