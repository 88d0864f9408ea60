#include "transport/log/repeated_events.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

bool IsOfWord(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-' || c == '.';
}

// With "#" for each word that begins with a digit: "10.0.0.2", "0x1f", "1.5s".
// Digits within names stay.
void AppendWithoutNumbers(absl::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsOfWord(text[end])) ++end;
    if (end == i) {
      out->push_back(text[i++]);
      continue;
    }
    const absl::string_view word = text.substr(i, end - i);
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0]))) {
      out->push_back('#');
    } else {
      out->append(word.data(), word.size());
    }
    i = end;
  }
}

std::string KeyOf(const LogEvent& event) {
  std::string key = absl::StrCat(static_cast<int>(event.level), " ");
  for (const LogField& field : event.fields) {
    absl::string_view value = field.value;
    if (field.name == kLogReason) continue;  // It is in the message.
    if (field.name == kLogAddress) value = value.substr(0, value.rfind(':'));
    // With lengths: values are what peers make of them.
    absl::StrAppend(&key, field.name, "=", value.size(), ":", value, " ");
  }
  AppendWithoutNumbers(event.message.substr(0, kMaxLogLine), &key);
  return key;
}

}  // namespace

bool RepeatedEvents::Hold(const LogEvent& event, absl::Time now, Tell tell) {
  TellDue(now, tell);
  if (window_ <= absl::ZeroDuration() || event.level == LogLevel::kError ||
      event.fields.empty() || event.tells_count) {
    return false;
  }
  std::string key = KeyOf(event);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    Held& held = *found->second;
    held.message = std::string(event.message.substr(0, kMaxLogLine));
    held.fields.assign(event.fields.begin(), event.fields.end());
    ++held.count;
    return true;
  }
  if (events_.size() >= kMaxEvents) TellOldest(now, tell);
  Held first;
  first.key = std::move(key);
  first.begin = now;
  first.level = event.level;
  events_.push_back(std::move(first));
  const auto last = std::prev(events_.end());
  by_key_.emplace(last->key, last);
  return false;
}

void RepeatedEvents::TellOldest(absl::Time now, Tell tell) {
  by_key_.erase(events_.front().key);
  const Held held = std::move(events_.front());
  events_.pop_front();
  if (held.count == 0) return;
  const absl::Duration passed =
      std::clamp(absl::Ceil(now - held.begin, absl::Seconds(1)),
                 absl::Seconds(1), std::max(window_, absl::Seconds(1)));
  tell({held.level,
        absl::StrCat(held.message, " (", held.count, " more in ",
                     absl::FormatDuration(passed), ")"),
        held.fields, /*tells_count=*/true});
}

void RepeatedEvents::TellDue(absl::Time now, Tell tell) {
  while (!events_.empty() && now - events_.front().begin >= window_) {
    TellOldest(now, tell);
  }
}

void RepeatedEvents::TellAll(absl::Time now, Tell tell) {
  while (!events_.empty()) TellOldest(now, tell);
}

void RepeatedEvents::Clear() {
  by_key_.clear();
  events_.clear();
}

absl::Time RepeatedEvents::next() const {
  for (const Held& held : events_) {
    if (held.count > 0) return held.begin + window_;
  }
  return absl::InfiniteFuture();
}

}  // namespace skiff::transport
