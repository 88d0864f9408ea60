#ifndef SKIFF_TRANSPORT_AUTO_CHOICE_REPORT_H_
#define SKIFF_TRANSPORT_AUTO_CHOICE_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::transport {

// Which transports may be chosen.
enum class RdmaPolicy : uint8_t {
  kRequire,  // RDMA or nothing.
  kPrefer,   // RDMA where it can be had; otherwise byte streams, and a report.
  kTcpOnly,  // Byte streams only.
};

// What became of it.
enum class ChoiceOutcome : uint8_t {
  kSucceeded,  // The connection, or a listener, is made of it.
  kFailed,     // Tried; `reason` says what went wrong.
  kTried,      // Was being tried when another succeeded, and was cancelled.
  kSkipped,    // Not tried; `reason` says why.
};

// What became of one way to reach the peer, or of one device.
struct ChoiceEntry {
  std::string scheme;
  std::string devices;  // "rxe0 port 1", "lo, eth0".
  std::string address;  // As it was tried; empty if it was not.
  bool rdma = false;
  bool emulated = false;  // RDMA over plain sockets.
  int rank = 0;           // 1 is the best; 0: not to be tried.
  ChoiceOutcome outcome = ChoiceOutcome::kSkipped;
  std::string reason;  // Empty for the first choice that succeeded at once.
  absl::Duration began = absl::ZeroDuration();  // After the whole began.
  absl::Duration took = absl::ZeroDuration();
};

// Every choice that was made, and every one that was rejected: those with a
// rank first, in its order.
struct ChoiceReport {
  std::string address;  // What was asked for.
  bool listening = false;
  RdmaPolicy policy = RdmaPolicy::kPrefer;
  std::vector<ChoiceEntry> entries;
  absl::Duration took = absl::ZeroDuration();

  // The first entry that succeeded; null if none did.
  const ChoiceEntry* chosen() const;
  // True if RDMA was preferred and there is none.
  bool fell_back() const;
  // Why RDMA is not what was chosen, in one line; empty if it is, or was not
  // wanted.
  std::string WhyNoRdma() const;
  // For the log: one line each for the outcome and for the entries.
  std::string ToString() const;
};

// Runs when a choice is made, before the caller gets its result; and on
// listeners again when one of several ends later, or resumes. On the thread of
// the reactor.
using ChoiceObserver = std::function<void(const ChoiceReport&)>;

// For people: "RDMA is preferred".
absl::string_view RdmaPolicyName(RdmaPolicy policy);
// For people: one word.
absl::string_view ChoiceOutcomeName(ChoiceOutcome outcome);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_CHOICE_REPORT_H_
