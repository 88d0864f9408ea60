#ifndef SKIFF_TRANSPORT_NET_CONNECTOR_H_
#define SKIFF_TRANSPORT_NET_CONNECTOR_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/address.h"
#include "transport/reactor/reactor.h"
#include "transport/transport.h"

namespace skiff::transport {

// A connect in progress, whatever the transport: it has until a deadline, and
// tells its outcome once.
class Connector : public ConnectAttempt {
 protected:
  // `options`: with a timeout, which begins now.
  Connector(Reactor* reactor, Address address, ConnectOptions options,
            ConnectCallback done);

  // From now on OnTimer() is called at the deadline, unless `timer_` is told
  // otherwise or the outcome was told before.
  void StartTimer() { timer_.ScheduleAt(deadline_); }
  virtual void OnTimer() = 0;

  // Each of the two tells the outcome, by a callback that may destroy this: the
  // last thing to be done. Fail() names the address.
  void Finish(absl::StatusOr<Endpoint> result);
  void Fail(const absl::Status& why);

  Reactor* const reactor_;
  const Address address_;
  const ConnectOptions options_;
  const absl::Time deadline_;
  Timer timer_;

 private:
  ConnectCallback done_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_CONNECTOR_H_
