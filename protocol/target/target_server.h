#ifndef SKIFF_PROTOCOL_TARGET_TARGET_SERVER_H_
#define SKIFF_PROTOCOL_TARGET_TARGET_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/codec/pdu.h"
#include "protocol/connection/connection_info.h"
#include "protocol/datamover/memory_budget.h"
#include "protocol/datamover/policies.h"
#include "protocol/negotiation/parameters.h"
#include "protocol/session/target_session_options.h"
#include "protocol/target/authenticator.h"
#include "protocol/target/connection_shares.h"
#include "protocol/target/handover.h"
#include "protocol/target/login_throttle.h"
#include "protocol/target/portal_group.h"
#include "protocol/target/server_counts.h"
#include "scsi/target/target.h"
#include "transport/limited_log.h"
#include "transport/log/log.h"
#include "transport/reactor/reactor.h"
#include "transport/registry.h"
#include "transport/trace/pcapng.h"
#include "transport/transport.h"

namespace skiff::protocol {

// How grave a line of the log is.
using LogLevel = transport::LogLevel;
using transport::LogSink;  // Thread-safe, and may not block: see there.

// The limits of one server. Every one has a reason to be changed somewhere.
struct TargetServerLimits {
  static constexpr absl::Duration kMaxCoalesceDelay = absl::Milliseconds(10);

  ConnectionLimits connections;
  TargetSessionOptions session;
  MemoryPolicy memory;
  // What all connections together may make the server keep: data that come
  // with writes before they can be served, and copies of what is sent. Past it,
  // commands that need it end in TASK SET FULL; and before that, those
  // of a session that has as much of it as is left. Zero: a sixteenth of the
  // memory that the process may use, from 16 MiB to 512 MiB
  // (MemoryBudget::DefaultLimit).
  uint64_t memory_budget = 0;
  // A login whose refusal is delayed by `failed_logins` has that time more.
  absl::Duration login_timeout = absl::Seconds(15);
  FailedLoginLimits failed_logins;
  // Questions to the authenticator (Authenticator::FindAccount) that are not
  // answered yet, whether their logins still wait or not. Beyond, a login ends
  // with "service unavailable". At least 1.
  uint32_t max_account_lookups = 512;
  // A discovery session that asks for nothing for this long is ended. Zero:
  // never.
  absl::Duration discovery_idle_timeout = absl::Seconds(60);
  // With 8 or more commands of an initiator outstanding, about how long one may
  // wait for others, so that one wake-up of a sleeping reactor brings several;
  // twice as long if they fail to come. Zero: not at all.
  absl::Duration coalesce_delay = absl::Microseconds(50);
  // A connection that accepts no byte for this long is dropped.
  absl::Duration send_timeout = absl::Seconds(60);
  // At Shutdown(): how long commands may take to come back from their backend
  // once the grace is over. Then what they use is left behind.
  absl::Duration backend_patience = absl::Seconds(5);
  // And how much later Shutdown() calls back when a reactor does not answer.
  static constexpr absl::Duration kShutdownMargin = absl::Seconds(1);
  // Where listening has ended by itself, as on a device that was removed: how
  // often it is tried again. Zero: never. It is ListenOptions::retry_interval.
  absl::Duration listen_retry_interval = absl::Seconds(2);
  static constexpr absl::Duration kMinListenRetryInterval =
      absl::Milliseconds(10);
};

// What a server is made with. It is copied.
struct TargetServerOptions {
  Offer offer;  // What this server offers and accepts in login.
  TargetServerLimits limits;
  scsi::WorkerOptions worker;
  transport::ListenOptions listen;
  // Hooks, private data and the receive queue of RDMA are not taken from here.
  transport::AcceptOptions accept;
  // A session takes IserMemoryOfSession() of `rdma.message_memory`.
  RdmaPolicy rdma;
  // Who has to authenticate himself; null: nobody. It may be asked until
  // Shutdown() has called back.
  std::shared_ptr<Authenticator> authenticator;
  // To share `limits.memory_budget` with other servers; null: one of its own.
  std::shared_ptr<MemoryBudget> budget;
  LogSink log;  // Null: silent.
  // Of the lines that initiators can cause, each reactor by itself.
  transport::LogLimits log_limits;
  // Gets what connections carry, those of iSER as iSCSI PDUs, in blocks for a
  // file that begins with PcapngHeader(); null: nothing.
  transport::CaptureSink capture;
};

// What each session over iSER takes of `rdma.message_memory`; its connection,
// less while it logs in. The server wants room for one.
uint64_t IserMemoryOfSession(const TargetServerOptions& options);

// What one session looks like, for operators.
struct SessionInfo {
  // What DropSession() takes. A server gives each connection one of its own,
  // and none again.
  uint64_t id = 0;
  std::string initiator_name;
  std::string initiator_alias;
  std::string authenticated_as;  // CHAP_N; empty: not asked.
  // What the initiator says, until it is `logged_in`. Of discovery it is empty
  // as a rule, but may be a target's name, or anything.
  std::string target_name;
  bool discovery = false;
  bool logged_in = false;
  std::string portal;  // Ours.
  std::string peer;
  ConnectionInfo connection;
  uint16_t tsih = 0;
  Isid isid = {};
  Parameters parameters;
  uint64_t commands = 0;
  uint64_t bytes_in = 0;  // Payload.
  uint64_t bytes_out = 0;
  scsi::CommandCounts counts;  // Of what reached a logical unit.
};

// What a server keeps for its peers, for operators.
struct ServerMemory {
  MemoryBudget::Use budget;
  scsi::BufferUse buffers;  // Of all reactors.
};

// An iSCSI target node: portals, targets, sessions, on one or more reactors.
//
// Threads: the reactors are the caller's, run by threads of his
// (ReactorThreads) or from his own loop; they outlive the server and turn until
// Shutdown has called back. All but Listen, ClosePortalHere and the destructor
// may be called from any thread, not after Shutdown has called back; these on
// the first
// reactor's thread, or while that reactor is not running (ReactorThreads::RunOn
// does it). Every `done` runs once, on the first reactor unless said otherwise,
// and never from inside the call. It may call the server.
class TargetServer {
 public:
  // The registry, which is not owned, outlives the server. Errors name the
  // option that makes no sense, or the memory that is missing.
  static absl::StatusOr<std::unique_ptr<TargetServer>> Create(
      const transport::Registry* registry,
      const std::vector<transport::Reactor*>& reactors,
      const TargetServerOptions& options);
  virtual ~TargetServer() = default;  // Only after Shutdown called back.

  // Serves `target` under its name (a valid iSCSI name). `alias` is for people.
  // It is reached through the portals of its groups, of which each portal is in
  // one at most: all of them, without more said.
  virtual absl::Status AddTarget(std::shared_ptr<scsi::Target> target,
                                 absl::string_view alias = "",
                                 std::vector<PortalGroup> portal_groups = {
                                     PortalGroup()}) = 0;

  // Another alias, for logins from now on. NotFound: there is no such target,
  // or it is being removed.
  virtual absl::Status SetAlias(absl::string_view name,
                                absl::string_view alias) = 0;

  // Opens a portal. Returns the address with the port really bound. Errors name
  // address and reason. Connections are taken from the reactor's next turn on.
  virtual absl::StatusOr<transport::Address> Listen(
      const transport::Address& address) = 0;

  // Told what became of a call.
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Closes one portal, by the address that Listen returned: no new connection
  // comes by it, discovery does not name it any more, and `done` runs. What
  // came by it stays: logins go on, and so do sessions. NotFound: the server
  // does not listen there, perhaps no longer (Shutdown closes all portals).
  virtual void ClosePortal(const transport::Address& address, Done done) = 0;

  // The same, done when it returns. Of a portal that this turn of the reactor
  // opened nobody has come in, then.
  virtual absl::Status ClosePortalHere(const transport::Address& address) = 0;

  // Gets the server's reference to the target: destroy it where that may block,
  // or add it again.
  using TargetRemoved =
      absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<scsi::Target>>)>;
  // From now on nobody logs in to the target or discovers it; logins that are
  // under way fail. Initiators of its sessions are told (Async Message: logout
  // request) and have until `grace`, which may be zero, to log out. What is
  // left is dropped. `done` runs once the last one is gone with all its
  // commands: a backend that keeps some is waited for, until Shutdown. Until
  // then there can't be another target of this name.
  //
  // NotFound: there is no such target, or it is being removed already. Aborted:
  // Shutdown left sessions of it behind.
  virtual void RemoveTarget(absl::string_view name, absl::Duration grace,
                            TargetRemoved done) = 0;
  // The same with one session, also a discovery session or one that logs in (to
  // which nobody gives `grace`): SessionInfo::id says which. It does not keep
  // the initiator from logging in again; that is the access policy's to refuse.
  // A session that is ending anyhow is waited for; again, it may get less
  // `grace`. NotFound: there is no such session, or it is gone.
  virtual void DropSession(uint64_t id, absl::Duration grace, Done done) = 0;

  // Ends gracefully: no new connections; initiators are told (Async Message:
  // logout request) and have until `grace` to log out, and their commands are
  // served until they do; what is left is dropped. Then `done` runs on the
  // first reactor, `grace` + limits.backend_patience + kShutdownMargin from now
  // at the latest.
  //
  // Until then, commands that a backend holds are waited for. If it never gives
  // them back, they and what they use, the backend too, stay in memory for
  // ever, and the log says so; the backend may still end them while the reactor
  // turns.
  //
  // May be called again, with a shorter grace: the sessions get no longer one.
  // Every `done` runs.
  virtual void Shutdown(absl::Duration grace,
                        absl::AnyInvocable<void()> done) = 0;

  // Ends as Shutdown() does, but so that another process goes on with what it
  // can: sockets that listen, sessions over byte streams, and what targets and
  // logical units are. The other sessions, those of RDMA among them, are asked
  // to log out first, and may log in again there. Then no new command begins;
  // those under way end, and what has come and was not begun goes along. `done`
  // gets it all, when the server has ended.
  //
  // Initiators notice no more than a pause, as long as the other process serves
  // the same media, and has its TargetServer take over. Connections stay open
  // while their descriptors are.
  virtual void HandOver(const HandOverOptions& how,
                        absl::AnyInvocable<void(ServerHandover)> done) = 0;
  // Goes on with sessions that another server, which may have been of another
  // process, has handed over: once, after targets were added and portals
  // opened; any thread. The log says which can't go on, and why: their
  // connections are closed. An initiator is told of what is different now (unit
  // attentions). `handover.portals` are not used: see
  // transport::ListenOptions::inherited.
  virtual void TakeOver(ServerHandover handover) = 0;
  // These sessions will be taken over: who logs in before gets no TSIH of
  // theirs. Before the first portal is opened.
  virtual void Expect(const std::vector<HandedOverSession>& sessions) = 0;

  // Gathers from all reactors, then runs `done` on one of them.
  virtual void ListSessions(
      absl::AnyInvocable<void(std::vector<SessionInfo>)> done) = 0;
  // The same with the memory that is kept for them.
  virtual void ReportMemory(absl::AnyInvocable<void(ServerMemory)> done) = 0;
  // The same with what became of connections and logins.
  virtual void ReportCounts(absl::AnyInvocable<void(ServerCounts)> done) = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_TARGET_SERVER_H_
