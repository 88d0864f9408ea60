#include "protocol/target/target_connection.h"

#include <sys/random.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "protocol/auth/held_refusal.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/negotiated_keys.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

// How long a peer may take to read our last words before the connection is
// dropped.
constexpr absl::Duration kCloseTimeout = absl::Seconds(5);
// The same when the server shuts down.
constexpr absl::Duration kLastCloseTimeout = absl::Seconds(1);
// How soon one that found no memory to end with tries again.
constexpr absl::Duration kEndAgain = absl::Milliseconds(100);

// Of "host:port" or "[host]:port": without port and brackets.
std::string AddressOf(absl::string_view peer) {
  absl::string_view host = transport::PeerHost(peer);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

}  // namespace

bool TargetConnection::IsThere(const scsi::Target& target,
                               const LoginIdentity& identity) {
  return target.IsThereFor({.protocol = scsi::ProtocolIdentifier::kIscsi,
                            .initiator = identity.initiator_name,
                            .authenticated_as = identity.authenticated_peer,
                            .address = identity.peer_address});
}

TargetConnection::TargetConnection(
    const TargetConnectionContext& context, TargetNode::ConnectionId id,
    transport::Address portal,
    std::unique_ptr<ConnectionTransport<TargetDatamover>> transport)
    : context_(context),
      id_(id),
      portal_(std::move(portal)),
      local_(transport->local_address()),
      peer_(transport->peer_address()),
      portal_counts_(
          context.counts->OfPortal(portal_.ToString(), transport->Info())),
      login_deadline_(Now() + context.options->limits.login_timeout),
      transport_(std::move(transport)),
      session_(std::make_unique<TargetSession>(
          static_cast<TargetSessionHost*>(this), transport_->datamover(),
          context.options->limits.session)),
      pump_(transport_->MakePump(context.reactor,
                                 static_cast<PumpClient*>(this))),
      timer_(context.reactor,
             [this] { UnlessNoMemory([this] { OnTimer(); }); }),
      coalescer_(context.options->limits.coalesce_delay),
      coalesce_timer_(context.reactor, [this] {
        coalescer_.TimedOut();
        pump_->SetReadThreshold(1);
      }) {
  ShardCounts::Came(portal_counts_);
  Say(LogLevel::kDebug, absl::StrCat("connected to ", local_));
  pump_->SetNewcomer(true);
  ScheduleTimer(Now());
}

TargetConnection::~TargetConnection() {
  if (in_login_ && !login_refused_) context_.counts->LeftUnfinished();
  ShardCounts::Went(portal_counts_, Counters());
}

// --- Ending.

void TargetConnection::End(absl::string_view why) {
  CloseConnection(absl::AbortedError(why), /*after_sending=*/false);
}

void TargetConnection::CloseConnection(const absl::Status& why,
                                       bool after_sending) {
  const Ending wanted = after_sending ? Ending::kAfterSending : Ending::kNow;
  if (ending_ >= wanted) return;
  ending_ = wanted;
  if (why.ok()) {
    Say(LogLevel::kInfo, "logged out");
  } else {
    SayWhy(LogLevel::kWarning, "closing: ", why.message());
  }
  context_.reactor->ScheduleTurnEnd(this);
}

// Without memory for what the peer may be the cause of, its connection ends.
void TargetConnection::UnlessNoMemory(absl::FunctionRef<void()> work) {
  const transport::SpareMemory::Watch memory;
  bool thrown = false;
  try {
    work();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (!thrown && !memory.ran_out()) return;
  // A session whose login stopped half way is not to see more of it.
  if (pump_ != nullptr) pump_->StopReceiving();
  CloseConnection(NoMemoryForPeer(), /*after_sending=*/false);
}

void TargetConnection::OnTurnEnd() {
  UnlessNoMemory([this] { session_->RunDeferred(); });
  if (ending_ == Ending::kNow) {
    // The end may have to wait among the newcomers.
    pump_->StopReceiving();
    return context_.reactor->newcomers().Add(this);
  }
  if (ending_ != Ending::kAfterSending) return;
  LimitEnding(draining_ ? kLastCloseTimeout : kCloseTimeout);
  pump_->CloseWhenSent();
}

// The first limit holds: this may be called again.
void TargetConnection::LimitEnding(absl::Duration limit) {
  const absl::Time deadline = Now() + limit;
  if (close_limited_ || deadline >= drain_deadline_) return;
  close_limited_ = true;
  drain_deadline_ = deadline;
  ScheduleTimer(Now());
}

void TargetConnection::OnClosed(absl::Status why) {
  if (!why.ok() && ending_ == Ending::kNo) {
    // What is ours is worth a warning.
    SayWhy(
        absl::IsResourceExhausted(why) ? LogLevel::kWarning : LogLevel::kInfo,
        "", why.message());
  }
  ending_ = Ending::kNow;
  context_.reactor->newcomers().Add(this);
}

// Where it throws, it may be called again: what has ended stays so.
void TargetConnection::BeginEnd() {
  ending_ = Ending::kBegun;
  timer_.Cancel();
  coalesce_timer_.Cancel();
  pump_.reset();
  session_->Terminate();
}

bool TargetConnection::RunAsNewcomer() {
  if (!session_ended_) {
    try {
      BeginEnd();
    } catch (const std::bad_alloc&) {
      EndLater();
    }
    return true;
  }
  const auto ended = context_.ended;  // Destroys this.
  ended(id_);
  return true;
}

// When there is memory again. Without any for the timer, either, it is soon.
void TargetConnection::EndLater() {
  try {
    timer_.ScheduleAfter(kEndAgain);
  } catch (const std::bad_alloc&) {
    context_.reactor->newcomers().Add(this);
  }
}

// Not from inside the session's call.
void TargetConnection::SessionEnded() {
  session_ended_ = true;
  context_.reactor->newcomers().Add(this);
}

void TargetConnection::Drain(absl::Duration grace, absl::string_view why) {
  if (handing_over_) {
    drain_deadline_ = std::min(drain_deadline_, Now() + grace);
    return;
  }
  const bool again = std::exchange(draining_, true);
  if (ending_ == Ending::kAfterSending) {
    close_limited_ = false;
    return LimitEnding(std::min(grace, kLastCloseTimeout));
  }
  if (ending_ != Ending::kNo) return;
  if (session_->phase() != TargetSession::Phase::kFullFeature) return End(why);
  drain_deadline_ = std::min(drain_deadline_, Now() + grace);
  if (!again) {
    session_->RequestLogout(static_cast<uint16_t>(
        std::clamp<int64_t>(absl::ToInt64Seconds(grace), 1, 0xffff)));
  }
  ScheduleTimer(Now());
}

void TargetConnection::ResumeLogin() {
  if (ending_ >= Ending::kNow) return;
  must_wait_ = false;
  UnlessNoMemory([this] {
    session_->FinishLogin();
    OnProgress();
  });
}

// --- Time.

void TargetConnection::OnTimer() {
  if (ending_ == Ending::kBegun) return context_.reactor->newcomers().Add(this);
  const absl::Time now = Now();
  if (now >= refusal_time_) TellRefusal();
  const TargetServerLimits& limits = context_.options->limits;
  if (in_login_ && now >= login_deadline_) {
    return End(absl::StrCat("login took longer than ",
                            absl::FormatDuration(limits.login_timeout)));
  }
  if (now >= discovery_deadline_) {
    return End(
        absl::StrCat("the discovery session asked for nothing for ",
                     absl::FormatDuration(limits.discovery_idle_timeout)));
  }
  if (handing_over_ && ending_ == Ending::kNo && session_->quiet()) {
    return TakeOut();
  }
  if (now >= drain_deadline_) {
    return End(handing_over_ ? "its commands did not end in time for another "
                               "process to go on with it"
                             : "time to log out is over");
  }
  if (pump_->send_blocked() &&
      now - pump_->last_send_progress() >= limits.send_timeout) {
    return End(absl::StrCat("the peer read nothing for ",
                            absl::FormatDuration(limits.send_timeout)));
  }
  ScheduleTimer(now);
}

void TargetConnection::ScheduleTimer(absl::Time now) {
  absl::Time heard = pump_->last_receive();
  // A ping waits behind what is queued, and while that is too much nothing is
  // read: a peer that takes it is alive.
  if (pump_->has_output()) {
    heard = std::max(heard, pump_->last_send_progress());
  }
  absl::Time next = session_->Tick(now, heard);
  if (ending_ == Ending::kNow || ending_ == Ending::kBegun) return;
  next = std::min({next, drain_deadline_, discovery_deadline_, refusal_time_});
  if (in_login_) next = std::min(next, login_deadline_);
  if (handing_over_) next = std::min(next, now + kLookForQuiet);
  // Half the timeout: a stall is noticed within one and a half.
  next = std::min(next, now + context_.options->limits.send_timeout / 2);
  timer_.ScheduleAt(std::max(next, now + absl::Milliseconds(1)));
}

// Not std::random_device, which asks the processor: in a virtual machine that
// may take longer than the rest of a login.
uint64_t TargetConnection::TagSecret() {
  uint64_t secret = 0;
  // So little never fails (getrandom(2)).
  [[maybe_unused]] const ssize_t got = getrandom(&secret, sizeof(secret), 0);
  assert(got == sizeof(secret));
  return secret;
}

// --- Progress.

void TargetConnection::Wake() {
  if (pump_ != nullptr) pump_->Kick();
  if (session_ != nullptr && session_->has_deferred())
    context_.reactor->ScheduleTurnEnd(this);
}

void TargetConnection::OnProgress() {
  Coalesce();
  if (!in_login_) return;
  if (session_->phase() != TargetSession::Phase::kFullFeature) {
    if (!session_->identity().initiator_name.empty()) {
      context_.shares->Heard(id_, Now());
    }
    return;
  }
  in_login_ = false;
  pump_->SetNewcomer(false);
  if (session_->identity().session_type == SessionType::kDiscovery) {
    context_.counts->Discovered();
    KeepDiscovering();
  } else {
    context_.counts->LoggedIn();
  }
  ScheduleTimer(Now());
  const LoginIdentity& identity = session_->identity();
  const std::string dialect = IserDialect(session_->parameters().iser);
  Say(LogLevel::kInfo,
      absl::StrCat(
          identity.initiator_name,
          identity.session_type == SessionType::kDiscovery
              ? " discovers targets"
              : absl::StrCat(" logged in to ", identity.target_name),
          identity.authenticated_peer.empty()
              ? ""
              : absl::StrCat(" as ", Quoted(identity.authenticated_peer)),
          dialect.empty() ? "" : ", iSER ", dialect));
}

void TargetConnection::Coalesce() {
  const uint64_t commands = session_->counters().commands;
  if (commands == coalesced_commands_ || context_.reactor->spinning() ||
      !pump_->has_read_threshold() ||
      context_.options->limits.coalesce_delay == absl::ZeroDuration()) {
    return;
  }
  coalesced_commands_ = commands;
  size_t threshold = coalescer_.Update(Now(), commands, pump_->bytes_received(),
                                       session_->initiator_depth());
  // Data are no commands, and more commands may not come before them. One that
  // spins is not woken.
  if (session_->awaits_data() ||
      context_.reactor->spin() > absl::ZeroDuration()) {
    threshold = 1;
  }
  pump_->SetReadThreshold(threshold);
  if (threshold > 1) {
    coalesce_timer_.ScheduleAfter(coalescer_.patience());
  } else {
    coalesce_timer_.Cancel();
  }
}

void TargetConnection::KeepDiscovering() {
  const absl::Time now = Now();
  context_.shares->Heard(id_, now);
  const absl::Duration limit = context_.options->limits.discovery_idle_timeout;
  if (limit > absl::ZeroDuration()) discovery_deadline_ = now + limit;
}

// What a limit refuses is the peer's own doing, or a matter of the settings:
// whoever looks at the log finds which.
LoginStatus TargetConnection::RefuseIf(const std::string& limit) {
  if (limit.empty()) return LoginStatus::kSuccess;
  SayWhy(LogLevel::kWarning, "login refused: ", limit);
  return LoginStatus::kOutOfResources;
}

void TargetConnection::LoginRefused(uint8_t status_class, uint8_t detail) {
  if (std::exchange(login_refused_, true)) return;
  context_.counts->RefusedLogin(status_class, detail);
}

// --- Policy.

LoginStatus TargetConnection::Admit(const LoginRequestPdu&,
                                    LoginIdentity* identity, Offer* offer,
                                    std::string*) {
  *offer = context_.options->offer;
  transport_->Adjust(offer);
  const LoginStatus refused =
      RefuseIf(context_.shares->Identify(id_, identity->initiator_name, Now()));
  if (refused != LoginStatus::kSuccess) return refused;
  identity->peer_address = AddressOf(peer_);
  const LoginStatus found = context_.node->Admit(portal_, identity);
  if (found != LoginStatus::kSuccess) return found;
  const auto target = context_.node->FindTarget(identity->target_name);
  if (identity->session_type == SessionType::kDiscovery) {
    // The answer names no portal group of what is not there for it.
    if (target == nullptr || !IsThere(*target, *identity)) {
      identity->target_portal_group_tag.reset();
    }
    return found;
  }
  if (target == nullptr) return LoginStatus::kNotFound;
  if (IsThere(*target, *identity)) return LoginStatus::kSuccess;
  SayWhy(
      LogLevel::kWarning, "login refused: ",
      absl::StrCat("no access rule of ", identity->target_name, " lets in ",
                   identity->initiator_name, " from ", identity->peer_address));
  return LoginStatus::kNotFound;
}

std::vector<std::string> TargetConnection::AuthMethods(
    const LoginIdentity& identity) {
  Authenticator* const authenticator = context_.options->authenticator.get();
  if (authenticator != nullptr) {
    terms_ = authenticator->TermsOf({identity, peer_, {}});
  }
  if (authenticator == nullptr || terms_.everybody) {
    return {std::string(kValueNone)};
  }
  // Without an algorithm nobody comes in.
  if (terms_.algorithms.empty()) return {};
  return {std::string(kChapMethod)};
}

// The account comes by the reactor, whoever knows it and wherever: so the login
// never goes on within a call of its own.
std::unique_ptr<AuthExchange> TargetConnection::StartAuth(
    const LoginIdentity& identity, absl::string_view /*method*/) {
  ChapTargetOptions options;
  options.algorithms = terms_.algorithms;
  // Goes with the exchange, whose function has it.
  const std::shared_ptr<const void> waiting = std::make_shared<char>();
  options.find = [authenticator = context_.options->authenticator, waiting,
                  attempt = LoginAttempt{identity, peer_, waiting},
                  lookups = context_.lookups, post_to = context_.post_to,
                  id = id_](const std::string& name,
                            ChapTargetOptions::Answer answer) {
    const auto lookup = lookups->Begin();
    if (lookup == nullptr) {
      return answer(absl::UnavailableError(absl::StrCat(
          lookups->limit(),
          " lookups of accounts are under way (max_account_lookups): the "
          "authenticator does not answer them in time")));
    }
    authenticator->FindAccount(
        attempt, name,
        [post_to, id, lookup,
         answer = std::move(answer)](absl::StatusOr<ChapAccount> account) {
          lookup->End();
          try {
            post_to(id, [answer, account = std::move(account)](
                            TargetConnection* connection) mutable {
              connection->TakeAccount(answer, std::move(account));
            });
          } catch (const std::bad_alloc&) {
            // Whose thread this is need not know: the login's time runs
            // out.
            return;
          }
        });
  };
  return HoldRefusals(
      StartChapTarget(std::move(options)),
      [this, identity](const std::string& reason, std::function<void()> tell) {
        return HoldRefusal(identity, reason, std::move(tell));
      });
}

// False: it need not wait. Otherwise it is a login as others are, and gives way
// to new ones. Nothing is read meanwhile, so that a guesser who does not wait
// for the answer has no place back before, either.
bool TargetConnection::HoldRefusal(const LoginIdentity& identity,
                                   const std::string& reason,
                                   std::function<void()> tell) {
  const absl::Time now = Now();
  const LoginThrottle::Verdict verdict = context_.throttle->Failed(
      identity.initiator_name, PeerOfAddress(peer_), now);
  if (!verdict.begins.empty()) Say(LogLevel::kWarning, verdict.begins);
  if (verdict.delay == absl::ZeroDuration()) return false;
  context_.counts->DelayedRefusal();
  Say(LogLevel::kDebug,
      absl::StrCat("its refusal waits for ",
                   absl::FormatDuration(verdict.delay), ": ", reason));
  tell_refusal_ = std::move(tell);
  refusal_time_ = now + verdict.delay;
  login_deadline_ = std::max(login_deadline_, refusal_time_ + kCloseTimeout);
  pump_->StopReceiving();
  ScheduleTimer(now);
  return true;
}

void TargetConnection::TellRefusal() {
  refusal_time_ = absl::InfiniteFuture();
  const std::function<void()> tell = std::exchange(tell_refusal_, nullptr);
  tell();
}

void TargetConnection::TakeAccount(const ChapTargetOptions::Answer& answer,
                                   absl::StatusOr<ChapAccount> account) {
  if (ending_ >= Ending::kNow) return;
  UnlessNoMemory([&] {
    answer(std::move(account));
    OnProgress();
  });
}

// For other threads.
TargetNode::Ender TargetConnection::EnderOfThis() const {
  return [post_to = context_.post_to, shares = context_.shares,
          id = id_](absl::string_view why) {
    shares->Leave(id);
    post_to(id, [why = std::string(why)](TargetConnection* connection) {
      connection->End(why);
    });
  };
}

LoginStatus TargetConnection::Establish(const LoginRequestPdu& last,
                                        const LoginIdentity& identity,
                                        const Parameters&, uint16_t* tsih) {
  auto resume = [post_to = context_.post_to, id = id_] {
    post_to(id,
            [](TargetConnection* connection) { connection->ResumeLogin(); });
  };
  const bool discovery = identity.session_type == SessionType::kDiscovery;
  const auto enter = [&](std::optional<TargetNode::ConnectionId> replaced) {
    return RefuseIf(context_.shares->Enter(id_, discovery, Now(), replaced));
  };
  return context_.node->Register(identity, last, id_, enter, EnderOfThis(),
                                 std::move(resume), tsih, &must_wait_);
}

std::vector<const TargetDatamover*> TargetConnection::Reinstated(
    const LoginIdentity& identity, const Isid& isid) {
  std::vector<const TargetDatamover*> here;
  for (const auto id : context_.node->ConnectionsOf(identity, isid)) {
    const TargetConnection* const older = context_.find(id);
    if (older != nullptr) here.push_back(older->transport_->datamover());
  }
  return here;
}

std::shared_ptr<scsi::Target> TargetConnection::FindTarget(
    const std::string& name) {
  return context_.node->FindTarget(name);
}

absl::Status TargetConnection::UseMemoryOf(const scsi::Target& target) {
  const absl::Span<uint8_t> buffers = context_.worker->buffer_memory();
  absl::Status used = transport_->UseMemory(buffers.data(), buffers.size(),
                                            context_.worker_memory);
  for (const scsi::DirectMemory& memory : target.DirectMemories()) {
    if (!used.ok()) break;
    used = transport_->UseMemory(memory.data, memory.size, memory.owner);
  }
  if (used.ok()) return used;
  const std::string why =
      absl::StrCat("cannot register the memory of ", target.name(),
                   " for RDMA: ", used.message());
  Say(LogLevel::kError, why);
  return absl::ResourceExhaustedError(why);
}

std::vector<DiscoveredTarget> TargetConnection::Discover(
    const LoginIdentity& identity, absl::string_view what) {
  if (identity.session_type == SessionType::kDiscovery) KeepDiscovering();
  std::vector<DiscoveredTarget> found = context_.node->Discover(
      what, {portal_, transport_->Info().transport, local_});
  found.erase(
      std::remove_if(found.begin(), found.end(),
                     [&](const DiscoveredTarget& one) {
                       const auto target = context_.node->FindTarget(one.name);
                       return target == nullptr || !IsThere(*target, identity);
                     }),
      found.end());
  return found;
}

// --- For people.

void TargetConnection::OnWarning(LogLine line, const transport::LogSite& site) {
  // All of it is the reason: it is about nothing but what the initiator did.
  SayText(
      LogLevel::kWarning,
      [line] {
        Words words = {line(), ""};
        words.reason = words.line;
        return words;
      },
      site);
}

void TargetConnection::Say(LogLevel level, absl::string_view message,
                           const transport::LogSite& site) {
  SayLine(
      level, [message] { return std::string(message); }, site);
}

void TargetConnection::SayLine(LogLevel level, LogLine line,
                               const transport::LogSite& site) {
  SayText(
      level,
      [line] {
        return Words{line(), ""};
      },
      site);
}

void TargetConnection::SayWhy(LogLevel level, absl::string_view what,
                              absl::string_view reason,
                              const transport::LogSite& site) {
  SayText(
      level,
      [&] {
        return Words{absl::StrCat(what, reason), std::string(reason)};
      },
      site);
}

void TargetConnection::SayText(LogLevel level, absl::FunctionRef<Words()> words,
                               const transport::LogSite& site) {
  if (context_.options->log == nullptr) return;
  try {
    context_.log->Log(
        level, transport::PeerHost(peer_),
        [&] {
          const Words said = words();
          return TextOf(absl::StrCat(peer_, ": ", said.line), said.reason);
        },
        site);
  } catch (const std::bad_alloc&) {
    // Nobody who has something to say ends half way for it. That memory ran out
    // is said when some is there again (SpareMemory).
  }
}

// What the initiator says of itself is known from its first Login Request on.
transport::LogText TargetConnection::TextOf(std::string message,
                                            absl::string_view reason) const {
  transport::LogText text = {std::move(message), {}};
  const auto add = [&](absl::string_view name, absl::string_view value) {
    if (!value.empty()) text.fields.push_back({name, std::string(value)});
  };
  add(transport::kLogAddress, peer_);
  add(transport::kLogPortal, portal_.ToString());
  if (session_ != nullptr) {
    add(transport::kLogInitiator, session_->identity().initiator_name);
    add(transport::kLogTarget, session_->identity().target_name);
  }
  add(transport::kLogReason, reason);
  return text;
}

bool TargetConnection::Serves(absl::string_view target) const {
  const LoginIdentity& identity = session_->identity();
  return identity.session_type == SessionType::kNormal &&
         identity.target_name == target;
}

SessionInfo TargetConnection::Info() const {
  SessionInfo info;
  info.id = id_;
  const LoginIdentity& identity = session_->identity();
  info.initiator_name = identity.initiator_name;
  info.initiator_alias = identity.initiator_alias;
  info.authenticated_as = identity.authenticated_peer;
  info.discovery = session_->identity().session_type == SessionType::kDiscovery;
  info.logged_in = !in_login_;
  info.target_name = identity.target_name;
  info.portal = portal_.ToString();
  info.peer = peer_;
  info.connection = transport_->Info();
  info.tsih = session_->tsih();
  info.isid = session_->isid();
  info.parameters = session_->parameters();
  info.commands = session_->counters().commands;
  info.bytes_in = session_->counters().bytes_in;
  info.bytes_out = session_->counters().bytes_out;
  info.counts = session_->CommandCounts();
  return info;
}

}  // namespace skiff::protocol
