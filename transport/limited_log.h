#ifndef SKIFF_TRANSPORT_LIMITED_LOG_H_
#define SKIFF_TRANSPORT_LIMITED_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/log/log.h"
#include "transport/log/log_event.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// How many lines there are of one kind of event (LogSite). Whoever can cause
// events makes the log grow by time only, not by what it sends.
struct LogLimits {
  // About one peer, or one disk: so many at once, ...
  uint32_t burst = 10;  // At least 1.
  // ... and one more after each of these. Zero: no limits at all.
  absl::Duration interval = absl::Seconds(10);
  // About all of them together: so many at once, and as many again in the time
  // in which one of them gets `burst` again.
  uint32_t total_burst = 200;
  // How many pairs of kind and peer are told apart. Beyond, those that are new
  // share the lines of one.
  uint32_t peers = 1024;
};

// Counts events against the limits. No clock, no output.
class LogLimiter {
 public:
  // The limits are taken as they are.
  explicit LogLimiter(const LogLimits& limits) : limits_(limits) {}

  // Whether the event is to be logged; if so, how many of its kind and peer
  // were not since the last that was. `text` is asked for when it is needed as
  // an example.
  std::optional<uint64_t> Admit(LogLevel level, absl::string_view peer,
                                absl::FunctionRef<LogText()> text,
                                const LogSite& site, absl::Time now);

  // Gets the number of events of one kind and peer, and the first of them.
  using Tell = std::function<void(LogLevel level, uint64_t count,
                                  const LogText& example)>;
  // What was not logged and has not been told yet, of those for which there may
  // be a line again at `now`, or of all. Each is told once, from inside.
  void TellSuppressed(absl::Time now, bool all, const Tell& tell);
  // Whether there is something for TellSuppressed().
  bool has_suppressed() const { return suppressing_ > 0; }

 private:
  struct Bucket {
    double tokens = 0;
    absl::Time filled;
    // Not logged, and not told yet; the first of them is the example.
    uint64_t suppressed = 0;
    LogLevel level = LogLevel::kInfo;
    LogText example;
  };
  using Key = std::pair<LogSite, std::string>;
  using KeyView = std::pair<LogSite, absl::string_view>;
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      if (a.first != b.first) return a.first < b.first;
      return absl::string_view(a.second) < absl::string_view(b.second);
    }
  };

  Bucket* Find(const LogSite& site, absl::string_view peer, absl::Time now);
  void Refill(Bucket* bucket, double burst, absl::Time now) const;
  void ForgetFull(absl::Time now);
  double BurstOf(const Key& key) const;

  const LogLimits limits_;
  // With the peer "", the bucket of all.
  std::map<Key, Bucket, Less> buckets_;
  size_t suppressing_ = 0;  // Buckets with something to tell.
};

// A sink that keeps the limits, and tells by itself, when there may be a line
// again, what it left out. Lives on its reactor; the destructor tells the rest.
class LimitedLog {
 public:
  // `sink` may be null: silent.
  LimitedLog(Reactor* reactor, LogSink sink, const LogLimits& limits);
  LimitedLog(const LimitedLog&) = delete;
  LimitedLog& operator=(const LimitedLog&) = delete;
  ~LimitedLog();
  // Tells what was left out so far, and nothing by itself from now on: for who
  // may outlive the reactor.
  void Close();

  // `peer` is what the limit goes by, and not written: the message names it.
  void Log(LogLevel level, absl::string_view peer, absl::string_view message,
           const LogSite& site = LogSite());
  // Formats only what is written, for what a peer can cause with each PDU.
  void Log(LogLevel level, absl::string_view peer,
           absl::FunctionRef<std::string()> message,
           const LogSite& site = LogSite());
  // The same with fields, for a sink that takes them (LogEventSink).
  void Log(LogLevel level, absl::string_view peer,
           absl::FunctionRef<LogText()> text, const LogSite& site = LogSite());

 private:
  void Tell(bool all);

  Reactor* const reactor_;
  const LogSink sink_;
  const LogLimits limits_;
  LogLimiter limiter_;
  Timer timer_;
  bool closed_ = false;
};

// The host of "host:port", for limits that a peer cannot escape by connecting
// again.
absl::string_view PeerHost(absl::string_view address);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIMITED_LOG_H_
