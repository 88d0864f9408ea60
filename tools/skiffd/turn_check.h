#ifndef SKIFF_TOOLS_SKIFFD_TURN_CHECK_H_
#define SKIFF_TOOLS_SKIFFD_TURN_CHECK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "transport/reactor/reactor.h"

namespace skiff::tools::skiffd {

// Asks reactors whether they turn. One that is blocked does not answer. Used
// from one thread; the reactors have to outlive it.
class TurnCheck {
 public:
  // `all_turned` runs on one of the reactors, once for each question that all
  // of them have answered; it must not block.
  TurnCheck(std::vector<transport::Reactor*> reactors,
            absl::AnyInvocable<void()> all_turned)
      : reactors_(std::move(reactors)),
        question_(std::make_shared<Question>(std::move(all_turned))) {}

  // Does nothing while the last question waits for an answer, so that a blocked
  // reactor has one posted function at most.
  void Ask();

 private:
  struct Question {
    explicit Question(absl::AnyInvocable<void()> fn)
        : all_turned(std::move(fn)) {}
    absl::AnyInvocable<void()> all_turned;
    std::atomic<size_t> waiting{0};  // Reactors that have not answered.
  };

  const std::vector<transport::Reactor*> reactors_;
  const std::shared_ptr<Question> question_;  // Outlives what is posted.
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_TURN_CHECK_H_
