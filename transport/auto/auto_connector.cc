#include "transport/auto/auto_connector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<AutoConnector>> AutoConnector::Create(
    DeviceSurvey* survey, Reactor* reactor, const Address& address,
    const AutoOptions& auto_options, const ConnectOptions& options,
    ChoiceObserver observer, ConnectCallback done) {
  auto parsed = ParseAutoOptions(address, auto_options);
  if (!parsed.ok()) return parsed.status();
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "connect ", address.ToString(), ": the timeout leaves no time"));
  }
  std::unique_ptr<AutoConnector> self(
      new AutoConnector(reactor, address, *parsed, options, std::move(observer),
                        std::move(done)));
  self->deadline_timer_.ScheduleAt(self->began_ + options.timeout);
  self->survey_ =
      survey->Start(reactor, [connector = self.get()](const auto& found) {
        connector->OnSurveyed(found);
      });
  return self;
}

AutoConnector::AutoConnector(Reactor* reactor, const Address& address,
                             const AutoOptions& auto_options,
                             const ConnectOptions& options,
                             ChoiceObserver observer, ConnectCallback done)
    : reactor_(reactor),
      address_(address),
      auto_options_(auto_options),
      options_(options),
      observer_(std::move(observer)),
      done_(std::move(done)),
      began_(reactor->Now()),
      stagger_timer_(reactor, [this] { StartNext(); }),
      deadline_timer_(reactor, [this] { OnDeadline(); }) {
  report_.address = address_.ToString();
  report_.policy = auto_options_.policy;
}

void AutoConnector::OnSurveyed(
    const absl::StatusOr<DeviceSurvey::Found>& found) {
  survey_.reset();
  if (!found.ok()) {
    SurveyFailed(found.status());
    return;
  }
  candidates_ = RankCandidates(**found, address_, auto_options_, &report_);
  StartNext();
}

void AutoConnector::SurveyFailed(const absl::Status& why) {
  ChoiceEntry entry;
  entry.scheme = kAutoScheme;
  entry.outcome = ChoiceOutcome::kFailed;
  entry.reason = std::string(why.message());
  entry.took = reactor_->Now() - began_;
  report_.entries.push_back(std::move(entry));
  Finish(NothingSucceeded(report_, why));
}

void AutoConnector::StartNext() {
  while (next_ < candidates_.size()) {
    if (Start(next_++)) {
      ScheduleNext();
      return;
    }
  }
  if (running_.empty()) Finish(NothingSucceeded(report_, failure_));
}

bool AutoConnector::Start(size_t candidate) {
  const Candidate& chosen = candidates_[candidate];
  ChoiceEntry& entry = EntryOf(candidate);
  entry.address = chosen.address.ToString();
  entry.began = reactor_->Now() - began_;
  ConnectOptions options = options_;
  options.timeout -= entry.began;
  auto attempt = chosen.transport->Connect(
      reactor_, chosen.address, options,
      [this, candidate](absl::StatusOr<Endpoint> result) {
        OnAttemptDone(candidate, std::move(result));
      });
  if (attempt.ok()) {
    running_.push_back({candidate, *std::move(attempt)});
    return true;
  }
  Fail(candidate, attempt.status());
  return false;
}

void AutoConnector::ScheduleNext() {
  if (next_ == candidates_.size()) return;
  const bool worse = candidates_[next_].grade != candidates_[next_ - 1].grade;
  stagger_timer_.ScheduleAfter(
      worse ? std::max(auto_options_.stagger, auto_options_.fallback_delay)
            : auto_options_.stagger);
}

void AutoConnector::OnAttemptDone(size_t candidate,
                                  absl::StatusOr<Endpoint> result) {
  const auto ended =
      std::find_if(running_.begin(), running_.end(),
                   [&](const Running& r) { return r.candidate == candidate; });
  // Lives until this function returns: the callback that runs belongs to it.
  const Running kept = std::move(*ended);
  running_.erase(ended);
  if (result.ok()) {
    Settle(candidate, ChoiceOutcome::kSucceeded, "");
    Finish(std::move(result));
    return;
  }
  Fail(candidate, result.status());
  const bool newest = candidate + 1 == next_;
  const bool same_grade =
      next_ < candidates_.size() &&
      candidates_[next_].grade == candidates_[candidate].grade;
  // A worse kind waits as long as one of a better kind may still succeed.
  if (running_.empty() || (newest && same_grade)) {
    stagger_timer_.Cancel();
    StartNext();
  }
}

void AutoConnector::OnDeadline() {
  if (survey_ != nullptr) {
    survey_.reset();
    SurveyFailed(absl::DeadlineExceededError(
        absl::StrCat("this machine's devices did not tell within ",
                     absl::FormatDuration(options_.timeout),
                     " what they are; does a driver hang?")));
    return;
  }
  const std::string within =
      absl::StrCat("no answer within the ",
                   absl::FormatDuration(options_.timeout), " for all attempts");
  for (const Running& running : running_) {
    Settle(running.candidate, ChoiceOutcome::kFailed, within);
  }
  for (; next_ < candidates_.size(); ++next_) {
    EntryOf(next_).reason = "no time was left for it";
  }
  Finish(NothingSucceeded(report_, absl::DeadlineExceededError(within)));
}

void AutoConnector::Fail(size_t candidate, const absl::Status& why) {
  Settle(candidate, ChoiceOutcome::kFailed, why.message());
  if (!failure_.ok() && failed_ < candidate) return;
  failure_ = why;
  failed_ = candidate;
}

void AutoConnector::Settle(size_t candidate, ChoiceOutcome outcome,
                           absl::string_view reason) {
  ChoiceEntry& entry = EntryOf(candidate);
  entry.outcome = outcome;
  entry.reason = std::string(reason);
  entry.took = reactor_->Now() - began_ - entry.began;
}

void AutoConnector::Finish(absl::StatusOr<Endpoint> result) {
  stagger_timer_.Cancel();
  deadline_timer_.Cancel();
  report_.took = reactor_->Now() - began_;
  if (result.ok()) {
    const std::string winner =
        absl::StrCat(report_.chosen()->scheme, " succeeded first");
    for (const Running& running : running_) {
      Settle(running.candidate, ChoiceOutcome::kTried, winner);
    }
    for (; next_ < candidates_.size(); ++next_) {
      EntryOf(next_).reason = winner;
    }
  }
  running_.clear();
  observer_(report_);
  // The callback may destroy this.
  ConnectCallback done = std::move(done_);
  done(std::move(result));
}

}  // namespace skiff::transport
