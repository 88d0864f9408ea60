#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DEVICE_HOLD_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DEVICE_HOLD_H_

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <mutex>

#include "transport/libfabric/fabric/fid.h"
#include "transport/libfabric/fabric/libfabric_options.h"

namespace skiff::transport {

// Holds on to a device of the verbs provider while a domain uses it, hears of
// its removal, and gives it back.
//
// The provider's domains use the device as librdmacm has opened it. librdmacm
// looks for devices from time to time, and closes those that were removed and
// that no connection uses: also one whose domain has memory registered. What is
// bound here counts as a connection. And what it does not look for again it
// keeps open, which some drivers wait for: LetGo() makes it look.
class DeviceHold {
 public:
  // Null where the provider is another one, or no address leads to the device.
  // May block for milliseconds. `fabric` outlives it.
  static std::unique_ptr<DeviceHold> Create(fid_fabric* fabric,
                                            const fi_info& info);

  // Whether the device was removed since. Thread-safe.
  bool DeviceWasRemoved();

  // Once the domain is closed, whose device was removed. Goes on on a thread
  // for that. `info` is the domain's; `hold` may be null.
  static void LetGo(std::unique_ptr<DeviceHold> hold, Fid<fid_fabric> fabric,
                    InfoPtr info, const LibfabricOptions& settings);

 private:
  DeviceHold() = default;

  std::mutex mutex_;  // Reading is two calls.
  Fid<fid_eq> events_;
  Fid<fid_pep> bound_;  // Never listens.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_DEVICE_HOLD_H_
