#ifndef SKIFF_PROTOCOL_INITIATOR_INITIATOR_H_
#define SKIFF_PROTOCOL_INITIATOR_INITIATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "protocol/auth/chap.h"
#include "protocol/connection/connection_info.h"
#include "protocol/datamover/policies.h"
#include "protocol/initiator/answer_coalescer.h"
#include "protocol/initiator/backoff.h"
#include "protocol/initiator/session_change.h"
#include "protocol/negotiation/parameters.h"
#include "protocol/negotiation/send_targets.h"
#include "protocol/session/session_timeouts.h"
#include "scsi/initiator/command.h"
#include "transport/limited_log.h"
#include "transport/memory/registration_cache.h"
#include "transport/reactor/reactor.h"
#include "transport/registry.h"
#include "transport/trace/pcapng.h"
#include "transport/transport.h"

namespace skiff::protocol {

// What an initiator is made with. It is copied.
struct InitiatorOptions {
  transport::Address portal;
  std::string target_name;  // Empty: a discovery session.
  std::string initiator_name = "iqn.2026-11.org.skiff:initiator";
  std::string initiator_alias;
  Isid isid = {};  // All zero: a random one (RFC 7143 section 11.12.5, type 2).
  Offer offer;
  // Hooks, private data and the receive queue of RDMA are not taken from here.
  transport::ConnectOptions connect;
  uint32_t max_commands =
      128;  // Outstanding at once; more wait in Submit's queue.
  MemoryPolicy memory;
  // Byte streams on a reactor that sleeps.
  CoalesceOptions coalesce;
  SessionTimeouts timeouts;
  ReconnectPolicy reconnect;
  // Where the portal is of a kind that prefers RDMA ("auto://…") and there was
  // none: how often RDMA is tried while the session is up over a byte stream.
  // Once it connects, the session moves there: no new command is sent, and when
  // none is under way any more, for which it waits up to `rdma_move_patience`
  // before it leaves that for the next time, it is logged out and in again.
  // Each login over RDMA that fails although it connected, and each session
  // over RDMA that is lost by a fault before any of the data came through that
  // RDMA was to move, doubles the interval, up to 64 times. Zero: never.
  absl::Duration rdma_retry_interval = absl::Seconds(30);
  absl::Duration rdma_move_patience = absl::Seconds(2);
  uint32_t max_redirects = 4;
  // With this, the initiator offers CHAP: and nothing else where the target has
  // to authenticate itself, too; otherwise the target may do without, which
  // `warn` is told. None: no target that asks for it lets the initiator in.
  absl::optional<ChapInitiatorOptions> chap;
  RdmaPolicy rdma;
  // Registrations of memory that was not given to UseMemory() are kept, too,
  // for the next command that uses the same buffer, or a part of it. Whoever
  // frees memory that a command has used then has to call ForgetMemory(). It
  // helps where UseMemory() does: with memory windows, or with
  // `rdma.lasting_keys`, which then are keys of that memory, too.
  bool keep_registrations = false;
  // Of each RDMA device: what is kept gives way to what commands use, that
  // which was used longest ago first. Commands may use more at once; what there
  // is no room for is registered for its command. Registered memory is locked.
  transport::RegistrationCacheOptions kept_registrations;
  // Gets each change of the session's state, and the reason (OK for kRestored),
  // in the order in which they happen, beginning after `on_ready`. What it says
  // may be over already: connected() has the state now. Runs on the reactor's
  // thread, at the end of a turn, never from inside a call of the initiator; it
  // may call whatever it wants, also destroy the initiator. Commands that end
  // because of the change may end before or after it. It does not run any more
  // once the destructor was entered. Null: nobody is told.
  std::function<void(SessionChange change, const absl::Status& why)> on_change;
  // One line for people per event: connected, lost and why, restored, gave up.
  std::function<void(absl::string_view message)> log;
  // Gets those of these lines that matter also to who does not follow events:
  // that RDMA connects, but cannot be used. Null: `log` gets them.
  std::function<void(absl::string_view message)> warn;
  // Of the lines that a target can cause.
  transport::LogLimits log_limits;
  // Gets what connections carry, those of iSER as iSCSI PDUs, in blocks for a
  // file that begins with PcapngHeader(); null: nothing.
  transport::CaptureSink capture;
};

// What a session has done, over all of its connections.
struct InitiatorStats {
  uint64_t commands = 0;
  uint64_t retries = 0;
  uint64_t reconnects = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};

// An initiator's session with one target: one connection, restored when it is
// lost. Lives on one reactor. Not thread-safe.
class Initiator : public scsi::CommandPort {
 public:
  // `on_ready` runs once, on the reactor's turn: OK in full feature phase,
  // otherwise why the first login failed. That is not retried, so that mistakes
  // are told at once; but where the portal prefers RDMA ("auto://…"), RDMA
  // connects and the login over it fails, there is one more without RDMA,
  // unless the target does not admit us. Each has `connect.timeout` and
  // `timeouts.login_timeout` of its own. Commands may be submitted before; they
  // wait.
  static absl::StatusOr<std::unique_ptr<Initiator>> Create(
      const transport::Registry* registry, transport::Reactor* reactor,
      const InitiatorOptions& options,
      absl::AnyInvocable<void(absl::Status)> on_ready);

  // Pending commands complete with kConnectionLost from inside the destructor,
  // and so do those that their callbacks submit; but not without end (1,000
  // times in a row).
  ~Initiator() override = default;

  // Task management (RFC 7143 section 11.5). `referenced` for kAbortTask. The
  // status is OK for "function complete", otherwise says what the target
  // answered.
  virtual void Manage(TaskManagementFunction function, uint64_t lun,
                      scsi::Command* referenced,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;
  // A NOP-Out ping; the round trip ends in `done`.
  virtual void Ping(absl::AnyInvocable<void(absl::Status)> done) = 0;
  // SendTargets in this session; `what` is "All" (discovery), "" or a name.
  virtual void SendTargets(
      const std::string& what,
      absl::AnyInvocable<void(absl::StatusOr<std::vector<DiscoveredTarget>>)>
          done) = 0;
  // Ends the session in order; commands still pending fail. Then `done` runs.
  virtual void Logout(absl::AnyInvocable<void(absl::Status)> done) = 0;

  // Ends the connection, as if it had been lost, and restores the session: for
  // who knows before the session does that its way has gone. False: there is no
  // session just now that could end.
  virtual bool Reconnect() = 0;

  // Unit attentions and the target's asynchronous SCSI events.
  virtual void SetAsyncEventHandler(
      std::function<void(uint64_t lun, absl::Span<const uint8_t> sense)>
          handler) = 0;

  // Memory that many commands will use, such as a pool of buffers. RDMA devices
  // register it once, as a whole, and not for each command; for byte streams
  // there is nothing to do. Goes for every connection from now on.
  //
  // The caller keeps `owner` for as long as commands use the memory. The
  // initiator may keep it longer, until its own end at the most. Memory may not
  // overlap what an owner still has in use (AlreadyExists). An error: the
  // device has registered nothing, for example because of a limit for locked
  // memory; commands work all the same.
  virtual absl::Status UseMemory(void* data, size_t size,
                                 std::shared_ptr<const void> owner) = 0;

  // With `keep_registrations`, memory that commands have used is about to be
  // freed or mapped anew. Whoever owns it says so before that, on the reactor's
  // thread, to each initiator whose commands have used it, at whatever
  // transport they are now. The range may be any that covers what commands
  // used; memory that UseMemory() was told of goes with its owner: where nobody
  // else holds that, by this call.
  //
  // What a command still uses stays registered until that ends, and has to stay
  // until then. A command that is submitted afterwards registers anew.
  //
  // Without it, the device still has the pages that were there: when something
  // else is at the same address, commands read from and write to the old ones,
  // and their data are wrong without an error. Without `keep_registrations`, or
  // over a byte stream, nothing else is to be done, and it does no harm.
  virtual void ForgetMemory(const void* data, size_t size) = 0;

  // In full feature phase now.
  virtual bool connected() const = 0;
  virtual const Parameters& parameters() const = 0;  // Of the current session.
  // What both sides said about themselves in the current session's login.
  virtual const LoginIdentity& identity() const = 0;
  // The transport of the current connection, or of the last one: "tcp", also by
  // "auto://…". Before the first, the portal's scheme.
  virtual std::string transport_name() const = 0;
  // "iSCSI" or "iSER", of the current connection, or of the last one. Empty
  // before the first.
  virtual std::string data_model() const = 0;
  // Of the current connection, or of the last one; its counters are of all
  // connections of the session together.
  virtual ConnectionInfo connection() const = 0;
  // Numeric `host:port` of the current connection, or of the last one. Empty
  // before the first.
  virtual std::string peer_address() const = 0;
  // Changes as the session goes on.
  virtual const InitiatorStats& stats() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_INITIATOR_H_
