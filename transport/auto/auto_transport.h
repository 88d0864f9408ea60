#ifndef SKIFF_TRANSPORT_AUTO_AUTO_TRANSPORT_H_
#define SKIFF_TRANSPORT_AUTO_AUTO_TRANSPORT_H_

#include <memory>

#include "transport/auto/auto_options.h"
#include "transport/auto/choice_report.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace skiff::transport {

// Chooses between the other transports of `registry`, scheme `auto`. It may be
// part of that registry, which must outlive it and stay where it is.
//
// Connecting tries the usable transports in order and in overlapping attempts
// (AutoConnector); ConnectOptions::timeout is for all of them. Since attempts
// overlap, `resources` and `prepare` may run for more endpoints than the one
// that is delivered: the others are destroyed, with all that this means for
// what was posted on them, and their `on_disconnect` does not run. Listening
// takes every usable transport on the same port (AutoListener).
//
// For connecting, devices are looked at on another thread (AutoOptions::
// devices_max_age); listening does it on the thread of the reactor, which takes
// milliseconds where there are RDMA devices. Destroying this, or the registry
// that it is part of, waits for the devices that are being looked at.
//
// `observer` gets a report of every choice, on the thread of the reactor that
// it is for, and so perhaps on several at once. It may not be null: which
// transport is used, and why it is not a better one, must not stay unsaid.
std::unique_ptr<Transport> MakeAutoTransport(const Registry* registry,
                                             ChoiceObserver observer,
                                             const AutoOptions& options = {});

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_AUTO_AUTO_TRANSPORT_H_
