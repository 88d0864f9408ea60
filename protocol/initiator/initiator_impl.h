#ifndef SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_
#define SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/initiator/backoff.h"
#include "protocol/initiator/initiator.h"
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
class InitiatorImpl final : public Initiator,
                            private PumpClient,
                            private transport::TurnHook {
 public:
  InitiatorImpl(transport::Transport* transport, transport::Reactor* reactor,
                const InitiatorOptions& options,
                absl::AnyInvocable<void(absl::Status)> on_ready);
  ~InitiatorImpl() override;

  // Connects to the portal, the first time or again.
  void Start();

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
  bool connected() const override { return up_; }
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
  void TellChange(SessionChange change, absl::Status why);
  absl::Status NotConnected() const;

  // --- initiator_connect.cc: the connection comes and goes.
  void Connect(const transport::Address& address);
  void OnConnected(absl::StatusOr<transport::Endpoint> endpoint);
  void OnSessionUp();
  void OnSessionEnded();
  void Redirect(const std::string& target);
  void JudgeRdma(const absl::Status& why);
  void RdmaFailed(absl::string_view how, const absl::Status& why);
  void AttemptFailed(const absl::Status& why);
  void Lost(const absl::Status& why, absl::Duration wait);
  void Reconnect(absl::Duration wait);
  void BeginOutage();
  void OutageIsOver();
  void GiveUpCommands();
  void TearDown();
  void FailThoseLostForLong(CommandList* unanswered);
  void Close(const absl::Status& why);
  void RegisterMemories();

  // --- initiator_move.cc: from a byte stream back to RDMA.
  struct Move {
    std::unique_ptr<transport::ConnectAttempt> attempt;
    IserSetup<InitiatorDatamover> iser;
    std::optional<absl::StatusOr<transport::Endpoint>> endpoint;
    absl::Time give_up = absl::InfiniteFuture();
    bool logging_out = false;
  };
  bool moving() const { return move_ != nullptr && move_->logging_out; }
  void ScheduleMove();
  void TryRdma();
  // Returns when to look again.
  absl::Time ContinueMove(absl::Time now);
  absl::Time AwaitLogout(absl::Time now);
  const transport::RdmaEndpoint* MovesEndpoint() const;
  absl::Status CanMove() const;
  bool MoveIsConnected() const;
  void AbandonMove();
  void FinishMove(std::unique_ptr<Move> move);
  // No command is sent any more, so that the session can move.
  bool holding_commands() const {
    return move_ != nullptr && move_->endpoint.has_value();
  }

  IserSetup<InitiatorDatamover> MakeIserSetup() const;
  InitiatorSessionOptions SessionOptions();
  IserDatamoverOptions IserOptions() const;
  absl::StatusOr<std::unique_ptr<ConnectionTransport<InitiatorDatamover>>>
  TransportOf(transport::Endpoint endpoint);
  absl::Status Explain(const absl::Status& why) const;
  void Log(absl::string_view message,
           const transport::LogSite& site = transport::LogSite());
  void Warn(absl::string_view message,
            const transport::LogSite& site = transport::LogSite());
  std::string About(absl::string_view message) const;

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

  // A connection in the making, then its outcome.
  transport::Address address_;
  uint32_t redirects_ = 0;
  std::unique_ptr<transport::ConnectAttempt> attempt_;
  // Before the endpoint that uses it.
  std::optional<IserSetup<InitiatorDatamover>> iser_;
  std::optional<absl::StatusOr<transport::Endpoint>> endpoint_;

  // The connection. In this order: each refers to those before it.
  std::unique_ptr<ConnectionTransport<InitiatorDatamover>> transport_;
  std::unique_ptr<InitiatorSession> session_;
  std::unique_ptr<ConnectionPump> pump_;
  AnswerCoalescer coalescer_;
  uint64_t coalesced_answers_ = 0;
  bool coalesce_pending_ = false;
  absl::Time up_since_;
  bool up_ = false;    // Full feature phase.
  bool dead_ = false;  // No connection will ever be made again.
  bool logout_wanted_ = false;
  absl::Status close_reason_;

  // To RDMA, under way.
  std::unique_ptr<Move> move_;
  // How often in a row RDMA connected, and then failed to log in or to move
  // data: the next attempt is for a byte stream, and moves are rarer.
  uint32_t rdma_failures_ = 0;
  std::string avoid_rdma_;   // Why the next attempt does; empty: it does not.
  std::string why_no_rdma_;  // The same of the last one.
  // Of a Logout() that found a move's logout under way.
  std::vector<absl::AnyInvocable<void(absl::Status)>> logged_out_;
  transport::Timer move_timer_;

  // Restoring a lost session.
  absl::Time outage_ends_ = absl::InfiniteFuture();  // Commands fail then.
  bool in_outage_ = false;
  bool commands_given_up_ = false;  // Until the session is restored.
  // What was told last; a session that is up counts as restored. None before
  // it is up for the first time.
  std::optional<SessionChange> change_;
  absl::Status last_failure_;  // Of the session, or of restoring it.
  Backoff backoff_;
  absl::Time stalled_since_ = absl::InfiniteFuture();
  transport::Timer work_timer_;
  transport::Timer coalesce_timer_;
  transport::Timer reconnect_timer_;
  transport::Timer outage_timer_;

  Parameters parameters_;
  LoginIdentity identity_;
  std::string peer_address_;
  ConnectionInfo connection_info_;  // Of the last connection, when it began.
  mutable InitiatorStats stats_;
  ConnectionCounters past_;  // Of connections that ended.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_INITIATOR_IMPL_H_
