#include "transport/auto/device_survey.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/thread/background_threads.h"

namespace skiff::transport {

struct DeviceSurvey::Request::Waiter {
  // Null once cancelled: the reactor may be gone then. Guarded by `mutex`,
  // which whoever has the result holds while posting it.
  std::mutex mutex;
  Reactor* reactor = nullptr;
  // Touched on the reactor's thread only.
  Callback done;

  static void Deliver(const std::shared_ptr<Waiter>& waiter,
                      absl::StatusOr<Found> result) {
    std::lock_guard<std::mutex> lock(waiter->mutex);
    if (waiter->reactor == nullptr) return;
    waiter->reactor->Post([waiter, result = std::move(result)] {
      if (waiter->done) std::exchange(waiter->done, nullptr)(result);
    });
  }
};

struct DeviceSurvey::State {
  using Clock = std::chrono::steady_clock;

  std::mutex mutex;
  std::condition_variable ended;
  bool running = false;
  Found found;  // Null while a survey runs. It began then:
  Clock::time_point began;
  std::vector<std::shared_ptr<Request::Waiter>> waiters;

  // The survey that runs is over.
  void End(const absl::StatusOr<Found>& result) {
    std::vector<std::shared_ptr<Request::Waiter>> served;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (result.ok()) found = *result;
      served.swap(waiters);
      running = false;
      ended.notify_all();
    }
    for (const auto& waiter : served) Request::Waiter::Deliver(waiter, result);
  }
};

absl::Status RunOnNewThread(std::function<void()> work) {
  try {
    StartBackgroundThread(std::move(work));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start a thread to look at this machine's devices: ",
        error.what(), "; raise the limit on them (ulimit -u)"));
  }
  return absl::OkStatus();
}

DeviceSurvey::Request::Request(std::shared_ptr<Waiter> waiter)
    : waiter_(std::move(waiter)) {}

DeviceSurvey::Request::~Request() {
  waiter_->done = nullptr;
  std::lock_guard<std::mutex> lock(waiter_->mutex);
  waiter_->reactor = nullptr;
}

DeviceSurvey::DeviceSurvey(const Registry* registry, absl::Duration max_age,
                           SurveyRunner run)
    : registry_(registry),
      max_age_(max_age),
      run_(run != nullptr ? std::move(run) : RunOnNewThread),
      state_(std::make_shared<State>()) {}

DeviceSurvey::~DeviceSurvey() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->ended.wait(lock, [this] { return !state_->running; });
}

MachineDevices DeviceSurvey::Look(const Registry& registry) {
  MachineDevices all;
  for (Transport* transport : registry.All()) {
    if (transport->scheme() == kAutoScheme) continue;
    TransportDevices found;
    found.transport = transport;
    found.devices = transport->Devices();
    bool tells = !found.devices.empty();
    for (const DeviceReport& device : found.devices) {
      tells = tells && (device.usable || device.capabilities.rdma);
    }
    // What is unusable may not know what it could do.
    if (!tells) found.rdma = transport->capabilities().rdma;
    all.push_back(std::move(found));
  }
  return all;
}

std::unique_ptr<DeviceSurvey::Request> DeviceSurvey::Start(Reactor* reactor,
                                                           Callback done) {
  auto waiter = std::make_shared<Request::Waiter>();
  waiter->reactor = reactor;
  waiter->done = std::move(done);
  std::unique_ptr<Request> request(new Request(waiter));
  const State::Clock::time_point now = State::Clock::now();
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->found != nullptr &&
        absl::FromChrono(now - state_->began) < max_age_) {
      Request::Waiter::Deliver(waiter, state_->found);
      return request;
    }
    state_->waiters.push_back(std::move(waiter));
    if (std::exchange(state_->running, true)) return request;
    state_->found = nullptr;
    state_->began = now;
  }
  const absl::Status status = run_([state = state_, registry = registry_] {
    state->End(std::make_shared<const MachineDevices>(Look(*registry)));
  });
  if (!status.ok()) state_->End(status);
  return request;
}

}  // namespace skiff::transport
