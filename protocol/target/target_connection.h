#ifndef SKIFF_PROTOCOL_TARGET_TARGET_CONNECTION_H_
#define SKIFF_PROTOCOL_TARGET_TARGET_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/session/target_session.h"
#include "protocol/target/account_lookups.h"
#include "protocol/target/authenticator.h"
#include "protocol/target/command_coalescer.h"
#include "protocol/target/connection_shares.h"
#include "protocol/target/handover.h"
#include "protocol/target/login_throttle.h"
#include "protocol/target/shard_counts.h"
#include "protocol/target/target_node.h"
#include "protocol/target/target_server.h"
#include "transport/address.h"
#include "transport/reactor/newcomers.h"
#include "transport/reactor/reactor.h"

namespace skiff::protocol {

// What a connection gets from its server.
struct TargetConnectionContext {
  transport::Reactor* reactor = nullptr;
  scsi::Worker* worker = nullptr;
  std::shared_ptr<const void> worker_memory;  // Keeps the worker's buffers.
  TargetNode* node = nullptr;
  ConnectionShares* shares = nullptr;
  LoginThrottle* throttle = nullptr;
  AccountLookups* lookups = nullptr;
  // As they were when it was accepted.
  std::shared_ptr<const TargetServerOptions> options;
  MemoryBudget* budget = nullptr;  // Of all connections.
  ShardCounts* counts = nullptr;   // Of its reactor.
  transport::LimitedLog* log = nullptr;
  // Runs `fn` with the connection on its reactor, if it still is; thread-safe.
  std::function<void(TargetNode::ConnectionId,
                     absl::AnyInvocable<void(class TargetConnection*)>)>
      post_to;
  // The connection, if it is one of this reactor; only there.
  std::function<class TargetConnection*(TargetNode::ConnectionId)> find;
  // The session goes on in another process, and ends here.
  std::function<void(HandedOverSession)> handed_over;
  // The connection has ended: destroys it.
  std::function<void(TargetNode::ConnectionId)> ended;
};

// One accepted connection: its transport, with the datamover, the session, and
// the pump between them and the reactor, with their timers. Lives on its
// reactor.
class TargetConnection final : private TargetSessionHost,
                               private PumpClient,
                               private transport::TurnHook,
                               private transport::Newcomers::Work {
 public:
  TargetConnection(
      const TargetConnectionContext& context, TargetNode::ConnectionId id,
      transport::Address portal,
      std::unique_ptr<ConnectionTransport<TargetDatamover>> transport);
  ~TargetConnection() override;

  // Ends now, without waiting for what is queued.
  void End(absl::string_view why);
  // Asks for a logout; drops what is left after `grace`. Again: perhaps sooner.
  // `why` is said of a login, which ends at once.
  void Drain(absl::Duration grace, absl::string_view why);
  // Gives the session to `handed_over` as soon as nothing of it is under way.
  // After `patience`, or where it can't, it ends.
  void HandOver(absl::Duration patience);
  // It can be handed over, or will be able to once it has logged in.
  bool MayBeHandedOver() const { return !transport_->rdma(); }
  // In place of a login, once, at first. Not OK: End() says why.
  absl::Status TakeOver(const TargetSessionState& state);
  // An older session of the same name is gone.
  void ResumeLogin();
  SessionInfo Info() const;
  // What it has done, and where that will count once it is gone.
  ConnectionCounters Counters() const {
    return transport_->datamover()->counters();
  }
  const PortalCounts& portal_counts() const { return *portal_counts_; }
  TargetNode::ConnectionId id() const { return id_; }
  // Of the target that it has logged in to, or names; empty: none.
  const std::string& TargetName() const {
    return session_->identity().target_name;
  }
  // It is, or is about to be, a session with that target.
  bool Serves(absl::string_view target) const;

 private:
  // Between two looks whether commands that are under way have ended.
  static constexpr absl::Duration kLookForQuiet = absl::Milliseconds(1);
  // What was asked for from inside a call, done at the end of the turn.
  enum class Ending : uint8_t { kNo, kAfterSending, kNow, kBegun };

  // TargetLoginPolicy:
  LoginStatus Admit(const LoginRequestPdu& first, LoginIdentity* identity,
                    Offer* offer, std::string* target_address) override;
  std::vector<std::string> AuthMethods(const LoginIdentity& identity) override;
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity& identity,
                                          absl::string_view method) override;
  LoginStatus Establish(const LoginRequestPdu& last,
                        const LoginIdentity& identity,
                        const Parameters& parameters, uint16_t* tsih) override;
  bool HoldRefusal(const LoginIdentity& identity, const std::string& reason,
                   std::function<void()> tell);
  void TellRefusal();
  void TakeAccount(const ChapTargetOptions::Answer& answer,
                   absl::StatusOr<ChapAccount> account);
  // TargetSessionHost:
  std::shared_ptr<scsi::Target> FindTarget(const std::string& name) override;
  scsi::Worker* worker() override { return context_.worker; }
  absl::Status UseMemoryOf(const scsi::Target& target) override;
  std::vector<const TargetDatamover*> Reinstated(const LoginIdentity& identity,
                                                 const Isid& isid) override;
  bool MustWaitForReinstatement() override { return must_wait_; }
  void LoginRefused(uint8_t status_class, uint8_t detail) override;
  std::vector<DiscoveredTarget> Discover(const LoginIdentity& identity,
                                         absl::string_view what) override;
  void Wake() override;
  void CloseConnection(const absl::Status& why, bool after_sending) override;
  void SessionEnded() override;
  absl::Time Now() override { return context_.reactor->Now(); }
  uint64_t TagSecret() override;
  MemoryBudget* budget() override { return context_.budget; }
  uint64_t Unacknowledged() const override {
    return pump_ == nullptr ? 0 : pump_->unacknowledged();
  }
  void OnWarning(LogLine line, const transport::LogSite& site) override;
  // PumpClient:
  void OnProgress() override;
  void OnClosed(absl::Status why) override;
  // TurnHook:
  void OnTurnEnd() override;
  // Work: the end.
  bool RunAsNewcomer() override;

  void UnlessNoMemory(absl::FunctionRef<void()> work);
  // Whether the target is there for who has said to be this one.
  static bool IsThere(const scsi::Target& target,
                      const LoginIdentity& identity);
  TargetNode::Ender EnderOfThis() const;
  void LimitEnding(absl::Duration limit);
  void BeginEnd();
  void EndLater();
  void TakeOut();
  absl::Status Adopt(const TargetSessionState& state);
  void KeepDiscovering();
  LoginStatus RefuseIf(const std::string& limit);
  void OnTimer();
  void Coalesce();
  void ScheduleTimer(absl::Time now);
  void Say(LogLevel level, absl::string_view message,
           const transport::LogSite& site = transport::LogSite());
  void SayLine(LogLevel level, LogLine line, const transport::LogSite& site);
  // `what`, and why, which is a field of its own, too.
  void SayWhy(LogLevel level, absl::string_view what, absl::string_view reason,
              const transport::LogSite& site = transport::LogSite());
  // What is said of an event, and why it happened: empty, if it does not say.
  struct Words {
    std::string line;
    std::string reason;
  };
  void SayText(LogLevel level, absl::FunctionRef<Words()> words,
               const transport::LogSite& site);
  transport::LogText TextOf(std::string message,
                            absl::string_view reason) const;

  const TargetConnectionContext context_;
  const TargetNode::ConnectionId id_;
  const transport::Address portal_;
  const std::string local_;
  const std::string peer_;
  PortalCounts* const portal_counts_;
  Ending ending_ = Ending::kNo;
  bool must_wait_ = false;
  Authenticator::Terms terms_;  // Of the login.
  bool session_ended_ = false;
  bool in_login_ = true;
  bool login_refused_ = false;
  // Set: who failed to authenticate is told so at `refusal_time_`.
  std::function<void()> tell_refusal_;
  absl::Time refusal_time_ = absl::InfiniteFuture();
  bool draining_ = false;
  bool handing_over_ = false;
  bool close_limited_ = false;  // `drain_deadline_` is that of its last words.
  absl::Time login_deadline_;
  absl::Time discovery_deadline_ = absl::InfiniteFuture();
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  // In this order: session and pump refer to the transport's datamover.
  const std::unique_ptr<ConnectionTransport<TargetDatamover>> transport_;
  std::unique_ptr<TargetSession> session_;
  std::unique_ptr<ConnectionPump> pump_;
  transport::Timer timer_;
  CommandCoalescer coalescer_;
  uint64_t coalesced_commands_ = 0;
  transport::Timer coalesce_timer_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_TARGET_CONNECTION_H_
