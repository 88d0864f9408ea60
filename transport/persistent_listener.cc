#include "transport/persistent_listener.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/system/spare_memory.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<PersistentListener>> PersistentListener::Create(
    Transport* transport, Reactor* reactor, const Address& address,
    const ListenOptions& options, AcceptCallback on_request) {
  std::unique_ptr<PersistentListener> self(new PersistentListener(
      transport, reactor, address, options, std::move(on_request)));
  absl::Status status = self->Listen();
  if (!status.ok()) return status;
  return self;
}

PersistentListener::PersistentListener(Transport* transport, Reactor* reactor,
                                       const Address& address,
                                       const ListenOptions& options,
                                       AcceptCallback on_request)
    : transport_(transport),
      reactor_(reactor),
      address_(address),
      options_(options),
      on_request_(std::move(on_request)),
      retry_(reactor, [this] { Retry(); }) {}

absl::Status PersistentListener::Listen() {
  ListenOptions options = options_;
  options.on_failure = [this](const absl::Status& why) { Ended(why); };
  auto listener =
      transport_->Listen(reactor_, address_, options,
                         [this](std::unique_ptr<ConnectionRequest> request) {
                           Take(std::move(request));
                         });
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  ended_ = false;
  // Where any port would do, peers know the one that it was; and looking up a
  // name again could hold up the reactor.
  address_.host = listener_->address().host;
  address_.port = listener_->address().port;
  addresses_ = listener_->addresses();
  return absl::OkStatus();
}

void PersistentListener::Take(std::unique_ptr<ConnectionRequest> request) {
  if (reactor_->newcomers().running()) return on_request_(std::move(request));
  if (requests_.size() >= static_cast<size_t>(options_.backlog)) {
    return TellOfRejected();
  }
  const SpareMemory::Watch memory;
  try {
    requests_.push_back(std::move(request));
  } catch (const std::bad_alloc&) {
    return;  // Its destructor rejects it.
  }
  reactor_->newcomers().Add(this);
}

// Once, until all that waited have been told.
void PersistentListener::TellOfRejected() {
  if (std::exchange(rejecting_, true) || options_.on_trouble == nullptr) return;
  options_.on_trouble(absl::ResourceExhaustedError(absl::StrCat(
      options_.backlog,
      " connections wait to be taken, which is the backlog: more are "
      "rejected")));
}

bool PersistentListener::RunAsNewcomer() {
  if (requests_.empty()) return false;
  std::unique_ptr<ConnectionRequest> request = std::move(requests_.front());
  requests_.pop_front();
  if (!requests_.empty()) {
    reactor_->newcomers().Add(this);
  } else {
    rejecting_ = false;
  }
  on_request_(std::move(request));
  return true;
}

// From inside the listener, which goes at the next attempt.
void PersistentListener::Ended(const absl::Status& why) {
  if (std::exchange(ended_, true)) return;
  told_ = why.ToString();
  if (options_.retry_interval > absl::ZeroDuration()) {
    retry_.ScheduleAfter(options_.retry_interval);
  }
  const bool again = retry_.scheduled();
  // Of auto://, whoever hears that all has ended may destroy this.
  const auto on_change = options_.on_change;
  const auto on_failure = options_.on_failure;
  on_change(why);
  if (!again && on_failure != nullptr) on_failure(why);
}

void PersistentListener::Retry() {
  // What came to it goes with it.
  requests_.clear();
  rejecting_ = false;
  listener_.reset();
  const absl::Status status = Listen();
  if (!status.ok()) {
    retry_.ScheduleAfter(options_.retry_interval);
    if (told_ == status.ToString()) return;
  }
  told_ = status.ToString();
  options_.on_change(status);
}

}  // namespace skiff::transport
