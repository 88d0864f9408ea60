#ifndef SKIFF_PROTOCOL_SESSION_UNEXPECTED_PDUS_H_
#define SKIFF_PROTOCOL_SESSION_UNEXPECTED_PDUS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/codec/serial.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// The "unexpected" PDUs of one direction of an iSER session that are
// outstanding. The receiver keeps buffers for as many as it declared as
// MaxOutstandingUnexpectedPDUs (RFC 7145 sections 6.7 and 8.1). Both ends
// count: one so as not to send more, the other to notice when that happens.
//
// Each goes with a number that only grows: for those of an initiator, CmdSN;
// for those of a target, StatSN. It is retired when a later number was
// acknowledged.
class UnexpectedPdus {
 public:
  // 0, the default: as many as one likes, and nothing is counted.
  void SetLimit(uint32_t limit) { limit_ = limit; }
  // Of the peer, for who sends: may be less than it allows, so that what it
  // never acknowledges stays bounded.
  void SetSendLimit(uint32_t declared) {
    limit_ = std::min(declared, IserOffer::kMaxUnexpectedPdus);
  }
  uint32_t limit() const { return limit_; }
  uint32_t outstanding() const { return outstanding_; }

  // Whether one more may follow, and `reserve` after it.
  bool HasRoom(uint32_t reserve = 0) const {
    return limit_ == 0 || uint64_t{outstanding_} + reserve < limit_;
  }
  // At least half of them are outstanding.
  bool Crowded() const {
    return limit_ != 0 && 2 * uint64_t{outstanding_} >= limit_;
  }

  void Add(uint32_t number) {
    if (limit_ == 0) return;
    ++outstanding_;
    if (!groups_.empty() && groups_.back().number == number) {
      ++groups_.back().count;
    } else {
      groups_.push_back({number, 1});
    }
  }
  // Those with a number before `next` are not outstanding any more.
  void Retire(uint32_t next) {
    if (groups_.empty()) return;
    size_t retired = 0;
    for (; retired < groups_.size(); ++retired) {
      if (!SerialLess(groups_[retired].number, next)) break;
      outstanding_ -= groups_[retired].count;
    }
    groups_.erase(groups_.begin(),
                  groups_.begin() + static_cast<std::ptrdiff_t>(retired));
  }
  // One with this number is not, if any still is.
  void RetireOne(uint32_t number) {
    for (Group& group : groups_) {
      if (group.number != number || group.count == 0) continue;
      --group.count;
      --outstanding_;
      return;
    }
  }

 private:
  struct Group {
    uint32_t number;
    uint32_t count;
  };

  uint32_t limit_ = 0;
  uint32_t outstanding_ = 0;
  std::vector<Group> groups_;  // Few: most PDUs are retired one by one.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_UNEXPECTED_PDUS_H_
