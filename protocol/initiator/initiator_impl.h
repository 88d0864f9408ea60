#ifndef SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_
#define SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/initiator/initiator.h"
#include "protocol/initiator/initiator_life.h"
#include "protocol/initiator/session_change.h"
#include "protocol/session/callback_queue.h"
#include "protocol/session/command_list.h"
#include "protocol/session/initiator_session.h"
#include "transport/limited_log.h"
#include "transport/reactor/reactor.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace skiff::protocol {

// The initiator over any endpoint. Everything happens in Work(), at the end of
// a turn: there neither a session nor a stream is on the call stack, so that
// callers may do anything from their callbacks, also destroy this object.
//
// What it is at, and what comes next, InitiatorLife decides. This says what
// happens, and does what the life wants.
class InitiatorImpl final : public Initiator,
                            private PumpClient,
                            private transport::TurnHook {
 public:
  InitiatorImpl(transport::Transport* transport, transport::Reactor* reactor,
                const InitiatorOptions& options,
                absl::AnyInvocable<void(absl::Status)> on_ready);
  ~InitiatorImpl() override;

  // Connects to the portal for the first time.
  void Start() { Do(life_.Start()); }

  // CommandPort:
  void Submit(scsi::Command* command) override;
  void Abort(scsi::Command* command) override;
  // Initiator:
  void Manage(TaskManagementFunction function, uint64_t lun,
              scsi::Command* referenced,
              absl::AnyInvocable<void(absl::Status)> done) override;
  void Ping(absl::AnyInvocable<void(absl::Status)> done) override;
  void SendTargets(
      const std::string& what,
      absl::AnyInvocable<void(absl::StatusOr<std::vector<DiscoveredTarget>>)>
          done) override;
  void Logout(absl::AnyInvocable<void(absl::Status)> done) override;
  bool Reconnect() override;
  void SetAsyncEventHandler(
      std::function<void(uint64_t lun, absl::Span<const uint8_t> sense)>
          handler) override {
    on_async_event_ = std::move(handler);
  }
  absl::Status UseMemory(void* data, size_t size,
                         std::shared_ptr<const void> owner) override;
  void ForgetMemory(const void* data, size_t size) override {
    iser_memories_->Forget(data, size);
  }
  bool connected() const override { return life_.up(); }
  const Parameters& parameters() const override { return parameters_; }
  const LoginIdentity& identity() const override { return identity_; }
  std::string transport_name() const override {
    const std::string& name = connection_info_.transport;
    return name.empty() ? options_.portal.scheme : name;
  }
  std::string data_model() const override {
    return connection_info_.data_model;
  }
  ConnectionInfo connection() const override;
  std::string peer_address() const override { return peer_address_; }
  const InitiatorStats& stats() const override;

 private:
  using Action = InitiatorLife::Action;

  // A connection in the making, then its outcome: of a session, or of a move.
  struct Attempt {
    explicit Attempt(IserSetup<InitiatorDatamover> iser_arg)
        : iser(std::move(iser_arg)) {}

    std::unique_ptr<transport::ConnectAttempt> attempt;
    // Before the endpoint that uses it.
    IserSetup<InitiatorDatamover> iser;
    std::optional<absl::StatusOr<transport::Endpoint>> endpoint;
  };

  // A session and its connection, from login to the end. In this order: each
  // refers to those before it.
  struct Connection {
    Connection(
        InitiatorImpl* initiator, IserSetup<InitiatorDatamover> iser_arg,
        std::unique_ptr<ConnectionTransport<InitiatorDatamover>> transport_arg);

    IserSetup<InitiatorDatamover> iser;
    std::unique_ptr<ConnectionTransport<InitiatorDatamover>> transport;
    std::unique_ptr<InitiatorSession> session;
    std::unique_ptr<ConnectionPump> pump;
    AnswerCoalescer coalescer;
    uint64_t coalesced_answers = 0;
    bool coalesce_pending = false;
    absl::Time stalled_since = absl::InfiniteFuture();
    transport::Timer work_timer;
    transport::Timer coalesce_timer;
  };

  // PumpClient:
  void OnProgress() override { Work(); }
  void OnClosed(absl::Status why) override;
  // TurnHook:
  void OnTurnEnd() override { Work(); }

  // --- initiator.cc
  void Work();
  void Drive();
  void Issue(scsi::Command* command, absl::Time now);
  void IssueQueued();
  absl::Time CheckStall(absl::Time now);
  void Coalesce(absl::Time now);
  void Fail(scsi::Command* command, scsi::Command::Outcome outcome);
  void FailQueued();
  void Wake();
  void ScheduleWork(absl::Time when);
  void Tell(absl::AnyInvocable<void(absl::Status)> done, absl::Status status);
  absl::Status NotConnected() const;

  // --- initiator_actions.cc: what the life wants.
  void Do(const InitiatorLife::Actions& actions);
  void Do(const Action& action);
  void Report(const Action& action);
  void ScheduleLife();
  void SendLogout();
  void AnswerReady(bool up);
  void AnswerLogouts();
  void TellChange(SessionChange change);
  absl::Status WhyOf(SessionChange change) const;
  std::string OverDialect() const;
  void Disconnect(const absl::Status& why);
  absl::Status Explain(const absl::Status& why) const;
  void Log(absl::string_view message,
           const transport::LogSite& site = transport::LogSite());
  void WarnIfNotAuthenticated();
  void Warn(absl::string_view message,
            const transport::LogSite& site = transport::LogSite());
  std::string About(absl::string_view message) const;

  // --- initiator_connect.cc: the connection comes and goes.
  void Connect(const transport::Address& address);
  void OnConnected();
  void BeginSession();
  void OnSessionUp();
  void OnSessionEnded();
  InitiatorLife::RdmaUse RdmaUseOfSession() const;
  bool WorksWithoutRdma() const;
  void ReadRedirect(const std::string& target, InitiatorLife::SessionEnd* end);
  void TearDown();
  void FailThoseLostForLong(CommandList* unanswered);
  void RegisterMemories();

  // --- initiator_move.cc: from a byte stream back to RDMA.
  bool CanMoveLater() const;
  void TryRdma();
  void DropMove();
  void ContinueMove(absl::Time now);
  void LogOutForMove();
  void UseMove();
  const transport::RdmaEndpoint* MovesEndpoint() const;
  absl::Status CanMove() const;
  bool MoveIsConnected() const;

  IserSetup<InitiatorDatamover> MakeIserSetup() const;
  InitiatorSessionOptions SessionOptions();
  IserDatamoverOptions IserOptions() const;
  absl::StatusOr<std::unique_ptr<ConnectionTransport<InitiatorDatamover>>>
  TransportOf(transport::Endpoint endpoint,
              IserSetup<InitiatorDatamover>* iser);

  transport::Transport* const portal_transport_;
  transport::Reactor* const reactor_;
  InitiatorOptions options_;
  transport::LimitedLog log_;
  absl::AnyInvocable<void(absl::Status)> on_ready_;
  std::function<void(uint64_t lun, absl::Span<const uint8_t> sense)>
      on_async_event_;

  // Of UseMemory(). Who registers it holds on to it.
  struct LastingMemory {
    void* data;
    size_t size;
    std::weak_ptr<const void> owner;
  };
  std::vector<LastingMemory> lasting_memories_;

  StreamBuffers buffers_;
  const std::shared_ptr<IserMemories> iser_memories_;
  CallbackQueue completions_;
  CommandList queue_;  // Not yet issued, in order.

  InitiatorLife life_;
  bool chap_wanted_ = false;  // By the target, in the last login.
  transport::Timer life_timer_;

  // What there is of a connection, as far as it has come.
  transport::Address address_;  // Of the last attempt.
  std::unique_ptr<Attempt> attempt_;
  std::optional<Connection> connection_;
  // A move to RDMA, until the session that moves is logged out.
  std::unique_ptr<Attempt> move_;
  struct {
    std::string where;  // As the target wrote it.
    transport::Address address;
  } redirect_;  // Where a target sent us last.

  // Of Logout(), until a session has them or they are told.
  std::vector<absl::AnyInvocable<void(absl::Status)>> logouts_;
  absl::Status last_failure_;  // Of the session, or of restoring it.
  absl::Status close_reason_;

  Parameters parameters_;
  LoginIdentity identity_;
  std::string peer_address_;
  ConnectionInfo connection_info_;  // Of the last connection, when it began.
  mutable InitiatorStats stats_;
  ConnectionCounters past_;  // Of connections that ended.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_
