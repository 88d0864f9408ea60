#ifndef SKIFF_TRANSPORT_AUTO_DEVICE_SURVEY_H_
#define SKIFF_TRANSPORT_AUTO_DEVICE_SURVEY_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace skiff::transport {

// The scheme of addresses that leave the choice to us.
inline constexpr char kAutoScheme[] = "auto";

// What one transport finds on this machine.
struct TransportDevices {
  Transport* transport = nullptr;
  std::vector<DeviceReport> devices;
  // Of the transport, where no device tells.
  bool rdma = false;
};

// Of every transport of a registry but auto itself, in its order.
using MachineDevices = std::vector<TransportDevices>;

// Runs a function once, soon, perhaps on another thread.
using SurveyRunner = std::function<absl::Status(std::function<void()>)>;
// On a thread of its own.
absl::Status RunOnNewThread(std::function<void()> work);

// Looks at the machine for reactors: asking RDMA devices takes milliseconds, a
// broken one may take for ever, and meanwhile connections want their turn. One
// survey runs at a time; what it found serves everybody for a while.
// Thread-safe.
class DeviceSurvey {
 public:
  using Found = std::shared_ptr<const MachineDevices>;
  using Callback = absl::AnyInvocable<void(const absl::StatusOr<Found>&)>;

  // Destroying it cancels. Lives on its reactor, as the callback does.
  class Request {
   public:
    ~Request();

   private:
    friend class DeviceSurvey;
    struct Waiter;
    explicit Request(std::shared_ptr<Waiter> waiter);
    const std::shared_ptr<Waiter> waiter_;
  };

  // `registry` has to outlive this. What is found may be as old as `max_age`.
  DeviceSurvey(const Registry* registry, absl::Duration max_age,
               SurveyRunner run);
  // Waits for the survey that runs: it uses the registry's transports.
  ~DeviceSurvey();

  // `done` runs once on the reactor's thread, never from inside this call, and
  // may destroy the request; an error says why nobody could look. Joins a
  // survey that runs already.
  std::unique_ptr<Request> Start(Reactor* reactor, Callback done);
  // Looks now, on the calling thread.
  static MachineDevices Look(const Registry& registry);

 private:
  struct State;

  const Registry* const registry_;
  const absl::Duration max_age_;
  const SurveyRunner run_;
  const std::shared_ptr<State> state_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_DEVICE_SURVEY_H_
