#ifndef SKIFF_TRANSPORT_LOG_REPEATED_EVENTS_H_
#define SKIFF_TRANSPORT_LOG_REPEATED_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/log/log_event.h"

namespace skiff::transport {

// Counts events that repeat an earlier one: the same level, the same fields but
// for the port in the address and for the reason, and a message that differs
// only in numbers (words that begin with a digit). The first is logged at once
// and begins a window. Those that follow in it are held back, and told at its
// end: by the last of them, with "(N more in 10s)".
//
// Never held back: errors, events without fields, and those that tell a count
// themselves. Neither clock nor output; not thread-safe.
class RepeatedEvents {
 public:
  // How many different events there are; of more, the oldest is told.
  static constexpr size_t kMaxEvents = 256;

  // `window`: zero holds nothing back.
  explicit RepeatedEvents(absl::Duration window) : window_(window) {}

  // Gets what was held back, from inside of a call.
  using Tell = absl::FunctionRef<void(const LogEvent& event)>;

  // Whether the event is held back. If not, log it, after what `tell` gets.
  // `now` never goes back.
  bool Hold(const LogEvent& event, absl::Time now, Tell tell);
  // Tells what is at the end of its window.
  void TellDue(absl::Time now, Tell tell);
  // Tells all, and begins anew.
  void TellAll(absl::Time now, Tell tell);
  // Forgets all.
  void Clear();
  // When to call TellDue(); infinite: nothing is held back.
  absl::Time next() const;

 private:
  struct Held {
    std::string key;
    absl::Time begin;
    uint64_t count = 0;
    // The last of them.
    LogLevel level = LogLevel::kInfo;
    std::string message;
    std::vector<LogField> fields;
  };

  void TellOldest(absl::Time now, Tell tell);

  const absl::Duration window_;
  std::list<Held> events_;  // The oldest first.
  absl::flat_hash_map<absl::string_view, std::list<Held>::iterator> by_key_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LOG_REPEATED_EVENTS_H_
