#ifndef SKIFF_PROTOCOL_TARGET_SERVER_COUNTS_H_
#define SKIFF_PROTOCOL_TARGET_SERVER_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/datamover/connection_counters.h"

namespace skiff::protocol {

// What came by one portal over one transport, for operators.
struct PortalCounts {
  std::string portal;      // As it was given to Listen().
  std::string data_model;  // ConnectionInfo's.
  std::string transport;
  uint64_t connections = 0;     // That were accepted.
  uint64_t open = 0;            // Of these, now.
  ConnectionCounters counters;  // Of all of them.
};

// What became of connections and logins since the server was made, for
// operators.
struct ServerCounts {
  uint64_t refused_connections = 0;  // Before there was a login.
  uint64_t logins = 0;               // To targets.
  uint64_t discovery_logins = 0;
  // By what they were answered with: "target not found (0x0203)". Those of RFC
  // 7143 section 11.13.5 are there from the beginning, with 0: whoever watches
  // one grow has to know where it began.
  std::map<std::string, uint64_t> refused_logins;
  uint64_t unfinished_logins = 0;  // Ended without an answer.
  // Failed to authenticate too often, and had to wait for the answer
  // (FailedLoginLimits).
  uint64_t delayed_refusals = 0;
  std::vector<PortalCounts> portals;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_SERVER_COUNTS_H_
