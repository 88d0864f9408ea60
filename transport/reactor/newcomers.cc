#include "transport/reactor/newcomers.h"

#include <new>
#include <utility>

namespace skiff::transport {

class Newcomers::Once final : public ReactorObject, private Work {
 public:
  static void Add(Newcomers* queue, absl::AnyInvocable<void()> fn) {
    auto once = std::make_unique<Once>(queue->reactor_, std::move(fn));
    queue->Add(once.get());
    queue->reactor_->Own(std::move(once));
  }
  Once(Reactor* reactor, absl::AnyInvocable<void()> fn)
      : reactor_(reactor), fn_(std::move(fn)) {}

 private:
  bool RunAsNewcomer() override {
    const std::unique_ptr<ReactorObject> self = reactor_->Disown(this);
    fn_();
    return true;
  }

  Reactor* const reactor_;
  absl::AnyInvocable<void()> fn_;
};

// The reactor is half gone: what it held was taken back before.
Newcomers::~Newcomers() {
  while (head_ != nullptr) Remove(head_);
}

void Newcomers::Add(Work* work) {
  if (work->queue_ != nullptr) return;
  work->queue_ = this;
  work->prev_ = tail_;
  work->next_ = nullptr;
  (tail_ != nullptr ? tail_->next_ : head_) = work;
  tail_ = work;
  ++size_;
  // Otherwise there is a pass to come.
  if (!running_ && !polling_) reactor_->ScheduleTurnEnd(this);
}

void Newcomers::Add(absl::AnyInvocable<void()> fn) {
  Once::Add(this, std::move(fn));
}

void Newcomers::RunOrAdd(absl::AnyInvocable<void()> fn) {
  if (running_) return fn();
  Add(std::move(fn));
}

void Newcomers::Remove(Work* work) {
  (work->prev_ != nullptr ? work->prev_->next_ : head_) = work->next_;
  (work->next_ != nullptr ? work->next_->prev_ : tail_) = work->prev_;
  work->queue_ = nullptr;
  --size_;
}

bool Newcomers::OutOfTime() const {
  return reactor_->NowInTurn() - pass_began_ >= grant_.time;
}

int Newcomers::Poll() {
  SetPolling(false);
  reactor_->ScheduleTurnEnd(this);
  return 1;
}

void Newcomers::OnTurnEnd() {
  if (head_ == nullptr) return;
  const absl::Time now = reactor_->Now();
  grant_ = reactor_->turn_shares().Begin(&member_, now);
  if (put_off_.Again(grant_, now)) return reactor_->ScheduleTurnEnd(this);
  // A login may take longer than a pass.
  if (debt_.Pays(grant_)) return SetPolling(true);
  pass_began_ = grant_.alone ? now : reactor_->NowInTurn();
  running_ = true;
  bool worked = false;
  // What is added meanwhile waits for the next turn, so that this one ends.
  for (size_t left = size_; left > 0 && head_ != nullptr; --left) {
    Work* const work = head_;
    Remove(work);
    worked = Run(work) || worked;
    if (OutOfTime()) break;
  }
  running_ = false;
  // Connections that say nothing, which a spinning reactor asks in each turn,
  // take nothing of the others' time.
  if (!worked && head_ == nullptr) return;
  const absl::Duration took = reactor_->NowInTurn() - pass_began_;
  reactor_->turn_shares().End(&member_, now, grant_, head_ == nullptr, took);
  debt_.Add(grant_, took);
  if (head_ != nullptr) SetPolling(true);
}

bool Newcomers::Run(Work* work) {
  try {
    return work->RunAsNewcomer();
  } catch (const std::bad_alloc&) {
    // It is what it was for that goes, not the process.
    return true;
  }
}

void Newcomers::SetPolling(bool polling) {
  if (polling == polling_) return;
  if (polling) {
    reactor_->AddPoller(this, /*busy=*/true);
  } else {
    reactor_->RemovePoller(this);
  }
  polling_ = polling;
}

}  // namespace skiff::transport
