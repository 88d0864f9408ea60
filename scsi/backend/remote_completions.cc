#include "scsi/backend/remote_completions.h"

#include <mutex>

namespace skiff::scsi {

struct RemoteCompletions::State : std::enable_shared_from_this<State> {
  explicit State(transport::Reactor* on) : reactor(on) {}

  void Add(IoRequest* first, IoRequest* last) {
    bool wake = false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      // Whoever comes while there are some finds the wake-up under way.
      wake = head == nullptr;
      (wake ? head : tail->backend_next) = first;
      tail = last;
    }
    if (wake) reactor->Post([self = shared_from_this()] { self->RunDone(); });
  }

  void RunDone() {
    IoRequest* next = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      next = head;
      head = nullptr;
    }
    while (next != nullptr) {
      IoRequest* const request = next;
      next = request->backend_next;  // It is the caller's again.
      request->done(request);
    }
  }

  transport::Reactor* const reactor;
  std::mutex mutex;
  IoRequest* head = nullptr;
  IoRequest* tail = nullptr;  // Of a list that is not empty.
};

RemoteCompletions::RemoteCompletions(transport::Reactor* reactor)
    : state_(std::make_shared<State>(reactor)) {}

void RemoteCompletions::Complete(IoRequest* request) {
  request->backend_next = nullptr;
  CompleteChain(request);
}

void RemoteCompletions::CompleteChain(IoRequest* first) {
  IoRequest* last = first;
  while (last->backend_next != nullptr) last = last->backend_next;
  // This object may be gone as soon as the request is there for the reactor.
  const std::shared_ptr<State> state = state_;
  state->Add(first, last);
}

}  // namespace skiff::scsi
