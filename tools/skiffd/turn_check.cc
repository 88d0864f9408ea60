#include "tools/skiffd/turn_check.h"

namespace skiff::tools::skiffd {

void TurnCheck::Ask() {
  // One more than the reactors: the last to answer still calls all_turned when
  // it has counted itself, and only then may the next question begin.
  size_t none = 0;
  if (!question_->waiting.compare_exchange_strong(none, reactors_.size() + 1)) {
    return;
  }
  for (transport::Reactor* const reactor : reactors_) {
    reactor->Post([question = question_] {
      if (--question->waiting != 1) return;
      question->all_turned();
      question->waiting = 0;
    });
  }
}

}  // namespace skiff::tools::skiffd
