#ifndef SKIFF_TRANSPORT_TCP_TCP_OPTIONS_H_
#define SKIFF_TRANSPORT_TCP_TCP_OPTIONS_H_

#include "absl/time/time.h"

namespace skiff::transport {

// Settings of the TCP transport that no caller of the transport needs to know.
struct TcpOptions {
  // Connections that a listener takes in one turn, so that a flood of them
  // leaves the connected ones their share.
  int accepts_per_turn = 32;
  // How long to leave the backlog alone when the process or system is out of
  // descriptors or memory. Peers wait in the backlog meanwhile.
  absl::Duration accept_pause = absl::Milliseconds(100);
  // How often at most a listener says that it is (ListenOptions::on_trouble).
  absl::Duration complaint_interval = absl::Seconds(10);

  bool operator==(const TcpOptions&) const = default;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_OPTIONS_H_
