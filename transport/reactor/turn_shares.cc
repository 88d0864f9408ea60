#include "transport/reactor/turn_shares.h"

#include <algorithm>

namespace skiff::transport {
namespace {

// Older use than that is forgotten.
constexpr int64_t kMostHalvings = 16;

absl::Duration Halved(absl::Duration used, int64_t times) {
  return times > kMostHalvings ? absl::ZeroDuration()
                               : used / (int64_t{1} << times);
}

}  // namespace

void TurnShares::NextEpoch(absl::Time turn) {
  // The first epoch, or one after a time in which nobody had anything to do.
  const bool follows = turn - epoch_end_ < kEpoch;
  const int64_t passed =
      follows
          ? 1
          : 1 + std::min<int64_t>((turn - epoch_end_) / kEpoch, kMostHalvings);
  epoch_ += passed;
  epoch_end_ = follows ? epoch_end_ + kEpoch : turn + kEpoch;
  used_ = Halved(used_, passed);
  active_before_ = follows ? active_ : 0;
  active_ = 0;
}

void TurnShares::NextTurn(absl::Time turn) {
  if (turn_ == turn) return;
  turn_ = turn;
  used_in_turn_ = absl::ZeroDuration();
}

// Greedy is whoever uses more than 5/4 of what each would have if all had the
// same; little use says little. One who always has work stays greedy when he is
// down at his part, which he would pass at once: until he has clearly less.
void TurnShares::Judge(Member* member, int active) const {
  const absl::Duration four_parts = member->used_ * (4 * active);
  if (member->used_ > kLonePass && four_parts > used_ * 5) {
    member->greedy_ = true;
  } else if (member->finished_ || four_parts < used_ * 3) {
    member->greedy_ = false;
  }
}

TurnShares::Grant TurnShares::Share(Member* member, absl::Time turn,
                                    bool alone) {
  NextTurn(turn);
  member->used_ = Halved(member->used_, epoch_ - member->used_as_of_);
  member->used_as_of_ = epoch_;
  const int active = std::max({active_, active_before_, alone ? 1 : 2});
  Grant grant;
  grant.alone = false;
  grant.bytes = member->bytes_;
  const absl::Duration own =
      member->turn_ == turn ? member->used_in_turn_ : absl::ZeroDuration();
  grant.others = used_in_turn_ - own;
  if (alone) {
    member->greedy_ = false;
  } else {
    Judge(member, active);
  }
  grant.greedy = member->greedy_;
  if (!grant.greedy) {
    grant.time =
        std::max((crowded_ ? kPassesCrowded : kPasses) / active, kShortPass);
    return grant;
  }
  grant.time = grant.others > absl::ZeroDuration()
                   ? std::clamp(grant.others, kLeastPass, kShortPass)
                   : kShortPass;
  grant.bytes = std::min(grant.bytes, kMostBytesOfGreedy);
  return grant;
}

void TurnShares::Charge(Member* member, absl::Time turn, const Grant& grant,
                        absl::Duration took) {
  NextTurn(turn);
  if (member->turn_ != turn) {
    member->turn_ = turn;
    member->used_in_turn_ = absl::ZeroDuration();
  }
  used_ += took;
  member->used_ += took;
  used_in_turn_ += took;
  member->used_in_turn_ += took;
  // Between two looks at the clock was too much, or could be more.
  if (took > grant.time + grant.time / 4) {
    member->bytes_ = std::max(grant.bytes / 2, kLeastBytes);
  } else if (took < grant.time / 2) {
    member->bytes_ = std::min(member->bytes_ * 2, kMostBytes);
  }
}

}  // namespace skiff::transport
