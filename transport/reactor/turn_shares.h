#ifndef SKIFF_TRANSPORT_REACTOR_TURN_SHARES_H_
#define SKIFF_TRANSPORT_REACTOR_TURN_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace skiff::transport {

// Shares the time of a reactor between those who have work in its turns, such
// as connections: nobody makes the others wait for long, whatever his work
// costs, and whatever is left is his who has work.
//
// A member asks, at the beginning of each pass, how much he may do, and says
// what it took. Both cost nothing to speak of, and the clock is read for it
// only while several members are active. Time used counts half after every
// kEpoch.
//
// Not thread-safe: belongs to its reactor. Reads no clock.
class TurnShares {
 public:
  // For so long a member counts as active, and twice as long at most.
  static constexpr absl::Duration kEpoch = absl::Milliseconds(16);
  // What one pass may take of one who is alone: somebody else may come. If the
  // reactor's processor is crowded, somebody is there.
  static constexpr absl::Duration kLonePass = absl::Microseconds(256);
  // Of others, as long as they use no more than their part: kPasses divided by
  // those who are active, which keeps turns within that, but kShortPass at
  // least.
  static constexpr absl::Duration kPasses = absl::Microseconds(512);
  static constexpr absl::Duration kShortPass = absl::Microseconds(32);
  // Of all together, if the reactor's processor is crowded.
  static constexpr absl::Duration kPassesCrowded = absl::Microseconds(64);
  // The least for a member who uses more: as much as the others together have
  // in this turn, but within this and kShortPass.
  static constexpr absl::Duration kLeastPass = absl::Microseconds(8);
  // A member may do without a look at the clock what arrives with so many
  // bytes. What such work has cost lately decides between these.
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr size_t kLeastBytes = 512;
  // Of those who use more than their part.
  static constexpr size_t kMostBytesOfGreedy = 4096;

  class Member {
   public:
    Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    friend class TurnShares;
    static constexpr int64_t kNever = -2;
    int64_t active_in_ = kNever;  // The last epoch in which it worked.
    bool also_before_ = false;    // In the one before that, too.
    int64_t used_as_of_ = 0;      // The epoch of `used_`.
    absl::Duration used_;
    absl::Time turn_ = absl::InfinitePast();  // When `used_in_turn_` was.
    absl::Duration used_in_turn_;
    size_t bytes_ = kMostBytes;
    bool greedy_ = false;
    bool finished_ = true;  // Its last pass left nothing to do.
  };

  // What a pass may do.
  struct Grant {
    // Nobody else was active lately, in a reactor that has its processor for
    // itself: the pass need not be timed.
    bool alone = true;
    // Uses clearly more than his part, and has not been without work since:
    // the pass comes after those of others.
    bool greedy = false;
    absl::Duration time = kLonePass;
    size_t bytes = kMostBytes;  // Between two looks at the clock.
    // What others have used of this turn.
    absl::Duration others = absl::ZeroDuration();
  };

  // Several members were active lately, here or in a reactor that shares the
  // processor.
  bool contended() const {
    return active_ > 1 || active_before_ > 1 || crowded_;
  }

  // Another reactor wants the same processor (ProcessorSharing): turns are
  // short, and timed also for one who is alone.
  void set_crowded(bool crowded) { crowded_ = crowded; }

  // The pass of `member` begins, in the turn that began at `turn`.
  Grant Begin(Member* member, absl::Time turn) {
    if (turn >= epoch_end_) NextEpoch(turn);
    const int self = member->active_in_ == epoch_ ? 1 : 0;
    const int self_before = member->active_in_ >= epoch_ - 1 ? 1 : 0;
    const bool alone = active_ <= self && active_before_ <= self_before;
    return alone && !crowded_ ? Grant() : Share(member, turn, alone);
  }
  // The pass has ended, and done something. `finished`: it left nothing to do.
  // It took so much time, which need not be right for one that was alone.
  void End(Member* member, absl::Time turn, const Grant& grant, bool finished,
           absl::Duration took) {
    member->finished_ = finished;
    if (member->active_in_ != epoch_) {
      member->also_before_ = member->active_in_ == epoch_ - 1;
      member->active_in_ = epoch_;
      ++active_;
    }
    if (!grant.alone) Charge(member, turn, grant, took);
  }
  // The member goes: it is active no more.
  void Leave(const Member& member) {
    const bool now = member.active_in_ == epoch_;
    if (now) --active_;
    if (now ? member.also_before_ : member.active_in_ == epoch_ - 1) {
      --active_before_;
    }
  }

 private:
  void NextEpoch(absl::Time turn);
  Grant Share(Member* member, absl::Time turn, bool alone);
  void Judge(Member* member, int active) const;
  void Charge(Member* member, absl::Time turn, const Grant& grant,
              absl::Duration took);
  void NextTurn(absl::Time turn);

  bool crowded_ = false;
  int64_t epoch_ = 0;
  absl::Time epoch_end_ = absl::InfinitePast();
  int active_ = 0;         // In this epoch.
  int active_before_ = 0;  // In the last one.
  absl::Duration used_;    // By all.
  absl::Time turn_ = absl::InfinitePast();
  absl::Duration used_in_turn_;
};

// When the pass of a greedy member comes: after those of the others. It is put
// off to a later round of the turn's hooks three times, as what others receive
// goes to a medium in the second round, and its answer to the connection in the
// third.
class PutOff {
 public:
  // Whether the pass in this round is to be put off once more.
  bool Again(const TurnShares::Grant& grant, absl::Time turn) {
    if (std::exchange(turn_, turn) != turn) times_ = 0;
    if (!grant.greedy || times_ == kTimes) {
      times_ = 0;
      return false;
    }
    ++times_;
    return true;
  }

 private:
  static constexpr int kTimes = 3;
  int times_ = 0;
  absl::Time turn_ = absl::InfinitePast();
};

// What a greedy member took beyond its time, as some work cannot be done in
// pieces that are small enough: a login, a Text Request, a look at a device
// that copies the data itself. It is paid for with turns in which others work.
class Debt {
 public:
  // More is forgiven. It bounds for how long a single piece of work keeps a
  // member waiting, however long it took the machine: hundreds of turns.
  static constexpr absl::Duration kMost = absl::Milliseconds(1);

  // Whether the pass is left out, and pays as much as it might have taken.
  bool Pays(const TurnShares::Grant& grant) {
    if (!grant.greedy || grant.others == absl::ZeroDuration()) return false;
    if (owed_ < grant.time) return false;
    owed_ -= grant.time;
    return true;
  }
  // The pass took that long.
  void Add(const TurnShares::Grant& grant, absl::Duration took) {
    owed_ =
        grant.greedy && grant.others > absl::ZeroDuration()
            ? std::clamp(owed_ + took - grant.time, absl::ZeroDuration(), kMost)
            : absl::ZeroDuration();
  }

 private:
  absl::Duration owed_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_TURN_SHARES_H_
