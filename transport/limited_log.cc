#include "transport/limited_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

constexpr size_t kMaxExample = 160;
// An iSCSI name has at most 223 bytes (RFC 7143 section 4.2.7.1).
constexpr size_t kMaxExampleField = 223;
// Stands for the peers for which there is no bucket left. No address is this.
constexpr absl::string_view kOthers = "others";

// Buckets are many.
LogText Shortened(LogText text) {
  const auto shorten = [](std::string* value, size_t max) {
    if (value->size() > max) value->resize(max);
  };
  shorten(&text.message, kMaxExample);
  for (LogField& field : text.fields) shorten(&field.value, kMaxExampleField);
  return text;
}

}  // namespace

double LogLimiter::BurstOf(const Key& key) const {
  return std::max(key.second.empty() ? limits_.total_burst : limits_.burst, 1u);
}

// A bucket of all fills in the time in which one of a peer does.
void LogLimiter::Refill(Bucket* bucket, double burst, absl::Time now) const {
  const absl::Duration passed =
      std::max(now - bucket->filled, absl::ZeroDuration());
  const absl::Duration whole = limits_.interval * std::max(limits_.burst, 1u);
  bucket->filled = now;
  bucket->tokens = std::min(
      burst, bucket->tokens + burst * absl::FDivDuration(passed, whole));
}

// Full buckets say nothing that a new one would not. Those of all stay: kinds
// are few, and Admit() holds on to one.
void LogLimiter::ForgetFull(absl::Time now) {
  for (auto it = buckets_.begin(); it != buckets_.end();) {
    const double burst = BurstOf(it->first);
    Refill(&it->second, burst, now);
    const bool full = !it->first.second.empty() && it->second.tokens >= burst &&
                      it->second.suppressed == 0;
    it = full ? buckets_.erase(it) : std::next(it);
  }
}

LogLimiter::Bucket* LogLimiter::Find(const LogSite& site,
                                     absl::string_view peer, absl::Time now) {
  auto it = buckets_.find(KeyView(site, peer));
  if (it == buckets_.end()) {
    if (buckets_.size() >= limits_.peers) ForgetFull(now);
    // Kinds are few; only peers can be any number.
    if (buckets_.size() >= limits_.peers && !peer.empty() && peer != kOthers) {
      return Find(site, kOthers, now);
    }
    it = buckets_.emplace(Key(site, peer), Bucket()).first;
    it->second.filled = now;
    it->second.tokens = BurstOf(it->first);
  }
  Refill(&it->second, BurstOf(it->first), now);
  return &it->second;
}

std::optional<uint64_t> LogLimiter::Admit(LogLevel level,
                                          absl::string_view peer,
                                          absl::FunctionRef<LogText()> text,
                                          const LogSite& site, absl::Time now) {
  if (limits_.interval <= absl::ZeroDuration()) return 0;
  Bucket* const all = Find(site, "", now);
  // An empty name is that of all.
  Bucket* const one = Find(site, peer.empty() ? kOthers : peer, now);
  if (one->tokens >= 1 && all->tokens >= 1) {
    --one->tokens;
    --all->tokens;
    const uint64_t before = one->suppressed;
    one->suppressed = 0;
    if (before > 0) --suppressing_;
    return before;
  }
  if (one->suppressed++ == 0) {
    ++suppressing_;
    one->level = level;
    one->example = Shortened(text());
  }
  return std::nullopt;
}

void LogLimiter::TellSuppressed(absl::Time now, bool all, const Tell& tell) {
  for (auto& [key, bucket] : buckets_) {
    if (bucket.suppressed == 0) continue;
    Refill(&bucket, BurstOf(key), now);
    Bucket* const total = Find(key.first, "", now);
    if (!all && (bucket.tokens < 1 || total->tokens < 1)) continue;
    bucket.tokens = std::max(bucket.tokens - 1, 0.0);
    total->tokens = std::max(total->tokens - 1, 0.0);
    --suppressing_;
    tell(bucket.level, std::exchange(bucket.suppressed, 0), bucket.example);
  }
}

LimitedLog::LimitedLog(Reactor* reactor, LogSink sink, const LogLimits& limits)
    : reactor_(reactor),
      sink_(std::move(sink)),
      limits_(limits),
      limiter_(limits),
      timer_(reactor, [this] { Tell(/*all=*/false); }) {}

LimitedLog::~LimitedLog() {
  if (!closed_) Tell(/*all=*/true);
}

void LimitedLog::Close() {
  if (closed_) return;
  Tell(/*all=*/true);
  timer_.Cancel();
  closed_ = true;
}

void LimitedLog::Log(LogLevel level, absl::string_view peer,
                     absl::string_view message, const LogSite& site) {
  Log(
      level, peer, [message] { return std::string(message); }, site);
}

void LimitedLog::Log(LogLevel level, absl::string_view peer,
                     absl::FunctionRef<std::string()> message,
                     const LogSite& site) {
  Log(
      level, peer,
      [message] {
        return LogText{message(), {}};
      },
      site);
}

void LimitedLog::Log(LogLevel level, absl::string_view peer,
                     absl::FunctionRef<LogText()> text, const LogSite& site) {
  if (sink_ == nullptr) return;
  const std::optional<uint64_t> before =
      limiter_.Admit(level, peer, text, site, reactor_->Now());
  if (!before.has_value()) {
    if (!closed_ && !timer_.scheduled()) timer_.ScheduleAfter(limits_.interval);
    return;
  }
  LogText said = text();
  if (*before > 0) {
    absl::StrAppend(&said.message, " (", *before,
                    " more like this were not logged before it)");
  }
  LogTo(sink_, {level, said.message, said.fields, *before > 0});
}

void LimitedLog::Tell(bool all) {
  if (sink_ == nullptr || !limiter_.has_suppressed()) return;
  limiter_.TellSuppressed(
      reactor_->Now(), all,
      [this](LogLevel level, uint64_t count, const LogText& example) {
        LogTo(sink_, {level,
                      absl::StrCat(count, " more were not logged like: ",
                                   example.message),
                      example.fields, /*tells_count=*/true});
      });
  if (limiter_.has_suppressed()) timer_.ScheduleAfter(limits_.interval);
}

absl::string_view PeerHost(absl::string_view address) {
  const size_t colon = address.rfind(':');
  return colon == absl::string_view::npos ? address : address.substr(0, colon);
}

}  // namespace skiff::transport
