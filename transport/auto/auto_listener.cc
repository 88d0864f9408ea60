#include "transport/auto/auto_listener.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/persistent_listener.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<AutoListener>> AutoListener::Create(
    const Registry& registry, Reactor* reactor, const Address& address,
    const AutoOptions& auto_options, const ListenOptions& options,
    ChoiceObserver observer, AcceptCallback on_request) {
  auto parsed = ParseAutoOptions(address, auto_options);
  if (!parsed.ok()) return parsed.status();
  const absl::Time began = reactor->Now();
  std::unique_ptr<AutoListener> self(new AutoListener(
      address, options, std::move(observer), std::move(on_request)));
  std::vector<Candidate> candidates = RankCandidates(
      DeviceSurvey::Look(registry), address, *parsed, &self->report_);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Candidate& candidate) {
                          return candidate.grade == TransportGrade::kByteStream;
                        });
  for (const Candidate& candidate : candidates) self->Start(reactor, candidate);
  self->report_.took = reactor->Now() - began;
  self->observer_(self->report_);
  if (self->listeners_.empty()) {
    return NothingSucceeded(self->report_, self->failure_);
  }
  return self;
}

AutoListener::AutoListener(const Address& address, const ListenOptions& options,
                           ChoiceObserver observer, AcceptCallback on_request)
    : address_(address),
      options_(options),
      observer_(std::move(observer)),
      on_request_(std::move(on_request)) {
  report_.listening = true;
}

std::vector<Address> AutoListener::addresses() const {
  std::vector<Address> all;
  for (const auto& listener : listeners_) all.push_back(listener->address());
  return all;
}

std::vector<ListeningDescriptor> AutoListener::ReleaseDescriptors() {
  std::vector<ListeningDescriptor> all;
  for (const auto& listener : listeners_) {
    for (ListeningDescriptor& one : listener->ReleaseDescriptors()) {
      all.push_back(std::move(one));
    }
  }
  return all;
}

void AutoListener::Start(Reactor* reactor, const Candidate& candidate) {
  Address address = candidate.address;
  // Where any port will do, all take the one that the first one got.
  address.port = address_.port;
  ChoiceEntry& entry = report_.entries[candidate.entry];
  entry.address = address.ToString();
  ListenOptions options = options_;
  options.on_failure = nullptr;
  options.on_change = [this, candidate](const absl::Status& status) {
    OnChange(candidate, status);
  };
  auto listener = PersistentListener::Create(
      candidate.transport, reactor, address, options,
      [this](std::unique_ptr<ConnectionRequest> request) {
        on_request_(std::move(request));
      });
  if (!listener.ok()) {
    entry.outcome = ChoiceOutcome::kFailed;
    entry.reason = std::string(listener.status().message());
    if (failure_.ok()) failure_ = listener.status();
    return;
  }
  entry.outcome = ChoiceOutcome::kSucceeded;
  address_.port = (*listener)->address().port;
  address.port = address_.port;
  entry.address = address.ToString();
  listeners_.push_back(*std::move(listener));
}

void AutoListener::OnChange(const Candidate& candidate,
                            const absl::Status& status) {
  ChoiceEntry& entry = report_.entries[candidate.entry];
  const bool again = options_.retry_interval > absl::ZeroDuration();
  if (status.ok()) {
    entry.outcome = ChoiceOutcome::kSucceeded;
    entry.reason.clear();
  } else {
    entry.outcome = ChoiceOutcome::kFailed;
    entry.reason = absl::StrCat("stopped to listen: ", status.message());
  }
  observer_(report_);
  const bool last = !again && report_.chosen() == nullptr;
  if (last && options_.on_failure != nullptr) {
    // The callback may destroy this.
    const auto on_failure = options_.on_failure;
    return on_failure(status);
  }
  if (options_.on_change == nullptr) return;
  options_.on_change(
      status.ok() ? status
                  : absl::Status(status.code(), absl::StrCat(entry.scheme, " ",
                                                             entry.reason)));
}

}  // namespace skiff::transport
