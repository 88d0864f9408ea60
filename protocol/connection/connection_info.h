#ifndef SKIFF_PROTOCOL_CONNECTION_CONNECTION_INFO_H_
#define SKIFF_PROTOCOL_CONNECTION_CONNECTION_INFO_H_

#include <string>
#include <vector>

#include "protocol/datamover/connection_counters.h"

namespace skiff::protocol {

// What a connection runs on and what it has done, for operators.
struct ConnectionInfo {
  std::string data_model;  // "iSCSI" or "iSER".
  std::string transport;   // The transport in use: "tcp", also by auto://.
  std::string device;      // Of RDMA; empty for byte streams.
  // Our commands' keys may be invalidated by the target's responses (at an
  // initiator), or are (at a target: both ends can).
  bool remote_invalidation = false;
  // What is done in a slower way than it could be, and why: for people.
  std::vector<std::string> fallbacks;
  ConnectionCounters counters;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_CONNECTION_INFO_H_
