#include "protocol/target/login_throttle.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

const LoginThrottle::Failures& LoginThrottle::Table::Add(
    std::string whose, const FailedLoginLimits& limits, uint32_t allowed,
    absl::Time now) {
  const auto found = of_.find(whose);
  if (found != of_.end()) {
    order_.splice(order_.begin(), order_, found->second);
  } else {
    Order fresh(1);
    fresh.front().whose = std::move(whose);
    of_.emplace(fresh.front().whose, fresh.begin());
    order_.splice(order_.begin(), fresh);
    if (of_.size() > limits.max_entries) {
      of_.erase(order_.back().whose);
      order_.pop_back();
    }
  }
  Failures& failures = order_.front();
  // Who is slow has to be quiet for a window; of others, a window is counted.
  const absl::Time since =
      failures.count > allowed ? failures.last : failures.first;
  if (failures.count == 0 || now - since >= limits.window) {
    failures.count = 0;
    failures.first = now;
  }
  failures.last = now;
  if (failures.count < std::numeric_limits<uint32_t>::max()) ++failures.count;
  return failures;
}

absl::Duration LoginThrottle::DelayOf(const Failures& failures,
                                      uint32_t allowed) const {
  if (failures.count <= allowed) return absl::ZeroDuration();
  constexpr uint32_t kMostDoublings = 30;  // 34 years.
  const uint32_t doublings =
      std::min(failures.count - allowed - 1, kMostDoublings);
  return std::min(kFirstDelay * (int64_t{1} << doublings), limits_.max_delay);
}

std::string LoginThrottle::Begins(absl::string_view who,
                                  const Failures& failures,
                                  uint32_t allowed) const {
  if (failures.count != allowed + 1) return "";
  return absl::StrCat(
      who, " failed ", failures.count, " times within ",
      absl::FormatDuration(limits_.window),
      ": the answers to those that fail wait from now on, up to ",
      absl::FormatDuration(limits_.max_delay));
}

LoginThrottle::Verdict LoginThrottle::Failed(absl::string_view initiator,
                                             absl::string_view address,
                                             absl::Time now) {
  Verdict verdict;
  if (limits_.max_delay == absl::ZeroDuration()) return verdict;
  const std::lock_guard<std::mutex> lock(mutex_);
  // No iSCSI name has a space in it.
  const Failures& pair = pairs_.Add(absl::StrCat(address, " ", initiator),
                                    limits_, limits_.max_failures, now);
  verdict.delay = DelayOf(pair, limits_.max_failures);
  verdict.begins =
      Begins(absl::StrCat("logins of ", initiator, " from ", address), pair,
             limits_.max_failures);
  const Failures& all = addresses_.Add(std::string(address), limits_,
                                       limits_.max_failures_per_address, now);
  verdict.delay =
      std::max(verdict.delay, DelayOf(all, limits_.max_failures_per_address));
  const std::string of_address =
      Begins(absl::StrCat("logins from ", address, " under any name"), all,
             limits_.max_failures_per_address);
  if (!of_address.empty()) {
    absl::StrAppend(&verdict.begins, verdict.begins.empty() ? "" : "; ",
                    of_address);
  }
  return verdict;
}

size_t LoginThrottle::entries() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return addresses_.size() + pairs_.size();
}

}  // namespace skiff::protocol
