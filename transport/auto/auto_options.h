#ifndef SKIFF_TRANSPORT_AUTO_AUTO_OPTIONS_H_
#define SKIFF_TRANSPORT_AUTO_AUTO_OPTIONS_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/address.h"
#include "transport/auto/choice_report.h"
#include "transport/auto/device_survey.h"
#include "transport/transport.h"

namespace skiff::transport {

// How to choose. The options of an auto:// address change the first three, for
// that address: `rdma=require|prefer|off`, `emulated=yes|no`, `stagger=250ms`.
struct AutoOptions {
  RdmaPolicy policy = RdmaPolicy::kPrefer;
  // Whether RDMA that software emulates over sockets (DeviceReport::emulated)
  // counts; it then comes after other RDMA and before byte streams.
  bool allow_emulated = false;
  // How long an attempt runs before the next one joins it; RFC 8305 section 8
  // calls this the Connection Attempt Delay.
  absl::Duration stagger = absl::Milliseconds(250);
  // The same where the next attempt is of a worse kind (a byte stream after
  // RDMA): what is slow to connect may still be the better transport. At least
  // `stagger`.
  absl::Duration fallback_delay = absl::Seconds(1);
  // No more ways than these, the best, are tried.
  size_t max_attempts = 8;
  // Connecting chooses by what this machine's devices were at most so long ago.
  absl::Duration devices_max_age = absl::Seconds(1);
  // What looks at the devices; null: RunOnNewThread(). Where time is simulated,
  // it has to run at once.
  SurveyRunner run_survey;
  // Refuses devices that the caller cannot use, and says why: keys that are too
  // wide, depths that are too small. May be null.
  std::function<absl::Status(const DeviceReport&)> suitable;
};

// `defaults` as changed by the options of `address`. Errors name the option.
absl::StatusOr<AutoOptions> ParseAutoOptions(const Address& address,
                                             const AutoOptions& defaults);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_AUTO_OPTIONS_H_
