#ifndef SKIFF_PROTOCOL_TARGET_HANDOVER_H_
#define SKIFF_PROTOCOL_TARGET_HANDOVER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/session/target_session_state.h"
#include "scsi/target/nexus_state.h"
#include "transport/address.h"
#include "transport/net/scoped_fd.h"

namespace skiff::protocol {

// A session that goes on in another process: what it is, and its connection.
struct HandedOverSession {
  transport::ScopedFd connection;
  std::string scheme;         // Of the transport that the connection is of.
  transport::Address portal;  // By which it came.
  TargetSessionState state;
};

// A portal that goes on listening in another process.
struct HandedOverPortal {
  transport::ScopedFd socket;
  transport::Address address;
};

// What TargetServer::HandOver() gives, and TargetServer::TakeOver() takes.
struct ServerHandover {
  std::vector<HandedOverPortal> portals;
  std::map<std::string, scsi::TargetState> targets;  // By their names.
  std::vector<HandedOverSession> sessions;
};

// How a server hands over.
struct HandOverOptions {
  // Which sessions may go on, by the name of their target; empty: they
  // discover. Those of a target whose media do not outlive the process may not.
  // Called on the reactors. Null: all.
  std::function<bool(const std::string& target)> wanted = nullptr;
  // For those that can't, like those of RDMA: as Shutdown's.
  absl::Duration grace = absl::Seconds(2);
  // For commands that are under way: a session whose commands take longer ends.
  absl::Duration patience = absl::Seconds(5);
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_HANDOVER_H_
