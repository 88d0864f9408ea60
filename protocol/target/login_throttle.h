#ifndef SKIFF_PROTOCOL_TARGET_LOGIN_THROTTLE_H_
#define SKIFF_PROTOCOL_TARGET_LOGIN_THROTTLE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::protocol {

// When failed logins are answered late, so that passwords are guessed slowly.
struct FailedLoginLimits {
  // So many of one initiator name from one address are answered at once, ...
  uint32_t max_failures = 5;
  // ... and so many from one address under whatever names: who takes a new
  // name each time is slowed, too.
  uint32_t max_failures_per_address = 20;
  // The time in which they are counted. Who has failed too often is slow until
  // he has not failed for so long. More than zero.
  absl::Duration window = absl::Minutes(10);
  // Delays double up to this. Zero: there are none.
  absl::Duration max_delay = absl::Seconds(30);
  // How many addresses are kept, and how many pairs of name and address. Of
  // more, the one that failed the longest time ago is forgotten. At least 1.
  uint32_t max_entries = 4096;
};

// Counts failed logins, and says how long the answer to one waits. It is never
// asked about a login that succeeds: nobody can lock out somebody else,
// although they share an address or a name.
//
// Thread-safe; used when logins fail only. Has no clock.
class LoginThrottle {
 public:
  // The first delay.
  static constexpr absl::Duration kFirstDelay = absl::Seconds(1);

  struct Verdict {
    absl::Duration delay;  // Zero: the answer goes at once.
    // For the log, where it is the first that waits of somebody: whose logins
    // are slowed, and why. Else empty.
    std::string begins;
  };

  explicit LoginThrottle(const FailedLoginLimits& limits) : limits_(limits) {}

  // A login under the name `initiator` has failed. `address` is what the peer
  // shares with others of its host (PeerOfAddress()). Where memory runs out,
  // std::bad_alloc is thrown, and the table is as bounded as before.
  Verdict Failed(absl::string_view initiator, absl::string_view address,
                 absl::Time now);

  // How many addresses and pairs are kept.
  size_t entries() const;

 private:
  // Somebody's failures.
  struct Failures {
    std::string whose;
    uint32_t count = 0;
    absl::Time first;
    absl::Time last;
  };
  // By who failed, the latest first.
  class Table {
   public:
    // The entry, with one failure more.
    const Failures& Add(std::string whose, const FailedLoginLimits& limits,
                        uint32_t allowed, absl::Time now);
    size_t size() const { return of_.size(); }

   private:
    using Order = std::list<Failures>;
    Order order_;
    std::map<absl::string_view, Order::iterator> of_;  // Names are in `order_`.
  };

  absl::Duration DelayOf(const Failures& failures, uint32_t allowed) const;
  std::string Begins(absl::string_view who, const Failures& failures,
                     uint32_t allowed) const;

  const FailedLoginLimits limits_;
  mutable std::mutex mutex_;
  Table addresses_;
  Table pairs_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_LOGIN_THROTTLE_H_
