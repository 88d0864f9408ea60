#ifndef SKIFF_TRANSPORT_REACTOR_NEWCOMERS_H_
#define SKIFF_TRANSPORT_REACTOR_NEWCOMERS_H_

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::transport {

// What a reactor does for connections that come and go: it takes them, they log
// in, and what is left of them is cleared away. However many there are, all of
// that together is one member of the reactor's TurnShares, so that a flood of
// them takes no more from those who work than another of these would. Nobody
// else is active: then it has the reactor for itself.
//
// In order: the oldest work is done first. What has no time in this turn is
// done in a later one, which comes at once.
//
// Work that std::bad_alloc ends has ended. What belongs to it has to give back
// what it holds in its destructor.
//
// Not thread-safe; belongs to its reactor (Reactor::newcomers()).
class Newcomers final : private TurnHook, private Poller {
 public:
  // Something to be done once, soon. Destroying it takes it back.
  class Work {
   public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() {
      if (queue_ != nullptr) queue_->Remove(this);
    }
    // From a hook of the reactor's turn; may destroy this. False if there was
    // nothing to do: as if it had not been added.
    virtual bool RunAsNewcomer() = 0;

   private:
    friend class Newcomers;
    Newcomers* queue_ = nullptr;
    Work* prev_ = nullptr;
    Work* next_ = nullptr;
  };

  explicit Newcomers(Reactor* reactor) : reactor_(reactor) {}
  ~Newcomers() override;

  // Does nothing if it waits already.
  void Add(Work* work);
  // Runs `fn` as such work; destroys it unrun with the reactor.
  void Add(absl::AnyInvocable<void()> fn);
  // The same, but now, if this is called by such work.
  void RunOrAdd(absl::AnyInvocable<void()> fn);

  // For work that runs: what the pass may do, and when it began.
  bool running() const { return running_; }
  const TurnShares::Grant& grant() const { return grant_; }
  absl::Time pass_began() const { return pass_began_; }
  // The pass has had its time: do no more than you must.
  bool OutOfTime() const;

 private:
  class Once;

  void OnTurnEnd() override;
  int Poll() override;
  static bool Run(Work* work);
  void Remove(Work* work);
  void SetPolling(bool polling);

  Reactor* const reactor_;
  Work* head_ = nullptr;
  Work* tail_ = nullptr;
  size_t size_ = 0;
  bool polling_ = false;
  bool running_ = false;
  TurnShares::Member member_;
  TurnShares::Grant grant_;  // Of this pass.
  absl::Time pass_began_ = absl::InfinitePast();
  PutOff put_off_;
  Debt debt_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_NEWCOMERS_H_
