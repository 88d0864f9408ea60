// How an initiator's connection comes about, is lost and restored.

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "protocol/initiator/initiator_impl.h"
#include "protocol/negotiation/negotiated_keys.h"

namespace skiff::protocol {
namespace {

constexpr absl::string_view kLoginFailed =
    "connects, but the login over it failed";

const char* Advice(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return "; check the portal's address, that it is reachable, and that the "
             "target runs";
    case absl::StatusCode::kDeadlineExceeded:
      return "; check the network and the target's load";
    // These say themselves what to do: refusals of a login, and what the two
    // ends can do.
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kCancelled:
      return "";
    default:
      return "; see the target's log";
  }
}

// The target, or we, do not take the other for who it says it is, or the target
// does not admit us. That is not asked again over another transport, to which
// the answer would be the same: it would count as one more attempt to break in.
// Other refusals can be due to the transport: a target without iSER refuses its
// keys, some have no discovery sessions over it, and where the ports of RDMA
// and TCP belong to different targets, one of them does not know the name.
bool IsAboutWhoWeAre(const absl::Status& refusal) {
  return absl::IsUnauthenticated(refusal) || absl::IsPermissionDenied(refusal);
}

}  // namespace

void InitiatorImpl::Log(absl::string_view message,
                        const transport::LogSite& site) {
  if (!options_.log) return;
  log_.Log(transport::LogLevel::kInfo, "", About(message), site);
}

void InitiatorImpl::Warn(absl::string_view message,
                         const transport::LogSite& site) {
  if (!options_.warn) return Log(message, site);
  log_.Log(transport::LogLevel::kWarning, "", About(message), site);
}

std::string InitiatorImpl::About(absl::string_view message) const {
  return absl::StrCat(
      options_.target_name.empty() ? "discovery" : options_.target_name, " at ",
      address_.ToString(), ": ", message);
}

absl::Status InitiatorImpl::Explain(const absl::Status& why) const {
  // A question is advice already.
  const char* const advice =
      absl::EndsWith(why.message(), "?") ? "" : Advice(why.code());
  return absl::Status(
      why.code(),
      absl::StrCat(options_.target_name.empty()
                       ? std::string("discovery session")
                       : absl::StrCat("target ", options_.target_name),
                   " at ", address_.ToString(), ": ", why.message(), advice));
}

InitiatorSessionOptions InitiatorImpl::SessionOptions() {
  InitiatorSessionOptions session;
  InitiatorLoginOptions& login = session.login;
  login.identity.initiator_name = options_.initiator_name;
  login.identity.initiator_alias = options_.initiator_alias;
  login.identity.target_name = options_.target_name;
  login.identity.session_type = options_.target_name.empty()
                                    ? SessionType::kDiscovery
                                    : SessionType::kNormal;
  login.offer = options_.offer;
  transport_->Adjust(&login.offer);
  // The same ISID every time, and no TSIH: the target ends the old session
  // before it begins the new one (RFC 7143 section 6.3.5).
  login.isid = options_.isid;
  login.auth_methods = options_.auth_methods;
  login.start_auth = options_.start_auth;
  session.max_commands = options_.max_commands;
  session.timeouts = options_.timeouts;
  session.on_async_event = [this](uint64_t lun,
                                  absl::Span<const uint8_t> sense) {
    if (on_async_event_) on_async_event_(lun, sense);
  };
  session.log = [this](absl::string_view message,
                       const transport::LogSite& site) { Log(message, site); };
  return session;
}

void InitiatorImpl::Start() {
  redirects_ = 0;
  Connect(options_.portal);
}

void InitiatorImpl::Connect(const transport::Address& address) {
  address_ = address;
  iser_.emplace(MakeIserSetup());
  transport::ConnectOptions connect = options_.connect;
  iser_->FillIn(&connect);
  why_no_rdma_ = std::exchange(avoid_rdma_, "");
  const std::optional<transport::Address> streams =
      why_no_rdma_.empty() ? std::nullopt
                           : portal_transport_->Only(address_, transport::EndpointKind::kByteStream);
  auto attempt = portal_transport_->Connect(
      reactor_, streams.value_or(address_), connect,
      [this](absl::StatusOr<transport::Endpoint> endpoint) {
        // Not here: the attempt is on the call stack.
        endpoint_ = std::move(endpoint);
        Wake();
      });
  if (attempt.ok()) {
    attempt_ = *std::move(attempt);
    return;
  }
  endpoint_ = attempt.status();
  Wake();
}

IserSetup<InitiatorDatamover> InitiatorImpl::MakeIserSetup() const {
  return {iser_memories_, IserOptions(), options_.capture};
}

void InitiatorImpl::OnConnected(absl::StatusOr<transport::Endpoint> endpoint) {
  attempt_.reset();
  iser_->Settle(endpoint);
  if (!endpoint.ok()) return AttemptFailed(endpoint.status());
  auto made = TransportOf(*std::move(endpoint));
  if (!made.ok()) {
    RdmaFailed(kLoginFailed, made.status());
    return AttemptFailed(made.status());
  }
  transport_ = *std::move(made);
  peer_address_ = transport_->peer_address();
  connection_info_ = transport_->Info();
  if (!why_no_rdma_.empty()) {
    connection_info_.fallbacks.push_back(
        absl::StrCat("iSCSI instead of iSER: ", why_no_rdma_));
  }
  RegisterMemories();
  session_ = std::make_unique<InitiatorSession>(
      SessionOptions(), transport_->datamover(), &completions_);
  pump_ = transport_->MakePump(reactor_, static_cast<PumpClient*>(this));
  coalescer_ = AnswerCoalescer(options_.coalesce);
  coalesced_answers_ = 0;
  coalesce_pending_ = false;
  session_->Start(reactor_->Now());
  pump_->Kick();
}

// Of another device, perhaps, than that of the connection before.
void InitiatorImpl::RegisterMemories() {
  for (const LastingMemory& memory : lasting_memories_) {
    std::shared_ptr<const void> owner = memory.owner.lock();
    if (owner == nullptr) continue;
    const absl::Status registered =
        transport_->UseMemory(memory.data, memory.size, std::move(owner));
    if (registered.ok()) continue;
    Log(absl::StrCat(memory.size, " bytes of memory are registered for each ",
                     "command, not once: ", registered.message()));
  }
}

IserDatamoverOptions InitiatorImpl::IserOptions() const {
  // Answers to requests other than commands, and what comes unasked.
  constexpr uint32_t kOtherAnswers = 8;
  IserDatamoverOptions iser;
  iser.receives = options_.max_commands + kOtherAnswers +
                  UnexpectedReceives(options_.offer.iser);
  // The target may invalidate our keys where they are windows.
  iser.remote_invalidation = true;
  return iser;
}

absl::StatusOr<std::unique_ptr<ConnectionTransport<InitiatorDatamover>>>
InitiatorImpl::TransportOf(transport::Endpoint endpoint) {
  if (auto* rdma =
          std::get_if<std::unique_ptr<transport::RdmaEndpoint>>(&endpoint)) {
    return iser_->Take(std::move(*rdma));
  }
  StreamDatamoverOptions mover;
  mover.memory = options_.memory;
  mover.max_control_data_bytes = options_.offer.max_recv_data_segment_length;
  return MakeStreamTransport(
      std::get<std::unique_ptr<transport::ByteStream>>(std::move(endpoint)),
      MakeInitiatorStreamDatamover(&buffers_, mover), options_.capture);
}

void InitiatorImpl::OnSessionUp() {
  up_ = true;
  up_since_ = reactor_->Now();
  ScheduleMove();
  parameters_ = session_->parameters();
  identity_ = session_->identity();
  const std::string dialect = IserDialect(parameters_.iser);
  const std::string over =
      dialect.empty() ? "" : absl::StrCat(", iSER ", dialect);
  if (on_ready_) {
    Log(absl::StrCat("connected", over));
    Tell(std::move(on_ready_), absl::OkStatus());
    on_ready_ = nullptr;
    change_ = SessionChange::kRestored;
    return;
  }
  ++stats_.reconnects;
  commands_given_up_ = false;
  outage_timer_.Cancel();
  TellChange(SessionChange::kRestored, absl::OkStatus());
  Log(absl::StrCat("session restored", over, "; ", queue_.size(),
                   " commands wait or are retried"));
  // Otherwise not before the first answer: a target that dies of what it is
  // asked to retry is not restored.
  if (queue_.empty()) OutageIsOver();
}

void InitiatorImpl::OutageIsOver() {
  in_outage_ = false;
  outage_ends_ = absl::InfiniteFuture();
}

void InitiatorImpl::OnSessionEnded() {
  const InitiatorSession::State state = session_->state();
  const absl::Status why = session_->failure();
  // What the target asked for (RFC 7143 sections 11.9.1 and 11.15.3), or none.
  const absl::Duration wait =
      std::min(session_->time2wait(), options_.reconnect.max_time2wait);
  const std::string redirect = session_->redirect_address();
  std::unique_ptr<Move> move = std::move(move_);
  const bool final =
      on_ready_ && state == InitiatorSession::State::kLoginFailed &&
      session_->loss() == InitiatorSession::Loss::kNone && IsAboutWhoWeAre(why);
  if (!final && transport_->rdma() &&
      state != InitiatorSession::State::kRedirected) {
    JudgeRdma(why);
  }
  TearDown();
  switch (state) {
    case InitiatorSession::State::kRedirected:
      return Redirect(redirect);
    case InitiatorSession::State::kLoginFailed:
      return final ? Close(why) : AttemptFailed(why);
    case InitiatorSession::State::kLoggedOut:
      if (logout_wanted_) {
        return Close(absl::CancelledError("the session was logged out"));
      }
      if (move != nullptr && move->logging_out &&
          wait == absl::ZeroDuration()) {
        return FinishMove(std::move(move));
      }
      return Lost(absl::UnavailableError("the target asked for a logout"),
                  wait);
    default:
      if (logout_wanted_) return Close(why);
      return Lost(why, wait);
  }
}

// `host:port[,portal group]`, from the target (RFC 7143 section 13.8).
void InitiatorImpl::Redirect(const std::string& target) {
  const std::string where = std::vector<std::string>(
      absl::StrSplit(target, absl::MaxSplits(',', 1)))[0];
  if (++redirects_ > options_.max_redirects) {
    return AttemptFailed(absl::FailedPreconditionError(
        absl::StrCat("redirected more than ", options_.max_redirects,
                     " times (max_redirects), at last to ", where)));
  }
  absl::StatusOr<transport::Address> address = transport::Address::Parse(
      absl::StrCat(options_.portal.scheme, "://", where));
  if (!address.ok() || !address->options.empty()) {
    return AttemptFailed(absl::InvalidArgumentError(
        "the target redirects to an address that makes no sense"));
  }
  address->options = options_.portal.options;
  Log(absl::StrCat("redirected to ", where));
  Connect(*address);
}

// A session over RDMA has ended.
void InitiatorImpl::JudgeRdma(const absl::Status& why) {
  if (!up_) return RdmaFailed(kLoginFailed, why);
  using Loss = InitiatorSession::Loss;
  const ConnectionCounters done = transport_->Info().counters;
  const bool by_fault =
      session_->loss() != Loss::kNone && session_->loss() != Loss::kTarget;
  if (done.commands_moved > 0) {
    rdma_failures_ = 0;
  } else if (by_fault && done.commands_by_rdma > 0) {
    RdmaFailed("takes logins, but was lost before it had moved data", why);
  }
}

// Although RDMA connected: the next attempt does without, where it may.
void InitiatorImpl::RdmaFailed(absl::string_view how, const absl::Status& why) {
  ++rdma_failures_;
  if (!portal_transport_->Only(address_, transport::EndpointKind::kByteStream).has_value()) return;
  avoid_rdma_ = absl::StrCat("RDMA ", how, ": ", why.message());
  Warn(absl::StrCat(avoid_rdma_, "; the next attempt is without RDMA"));
}

// Mistakes are told at once; a session that once was up is tried again.
void InitiatorImpl::AttemptFailed(const absl::Status& why) {
  if (logout_wanted_) return Close(why);
  if (on_ready_) {
    if (!avoid_rdma_.empty()) return Connect(address_);
    if (why_no_rdma_.empty()) return Close(why);
    return Close(absl::Status(
        why.code(),
        absl::StrCat(why.message(), "; before that: ", why_no_rdma_)));
  }
  Log(absl::StrCat("reconnect failed: ", why.message()));
  last_failure_ = Explain(why);
  // Of a move that did not work out, it is the first that is told.
  if (!commands_given_up_) TellChange(SessionChange::kLost, last_failure_);
  BeginOutage();
  Reconnect(absl::ZeroDuration());
}

void InitiatorImpl::Lost(const absl::Status& why, absl::Duration wait) {
  Log(absl::StrCat("session lost: ", why.message(), "; restoring it, ",
                   queue_.size(), " commands wait"));
  last_failure_ = Explain(why);
  TellChange(SessionChange::kLost, last_failure_);
  BeginOutage();
  Reconnect(wait);
}

void InitiatorImpl::BeginOutage() {
  if (!in_outage_) {
    in_outage_ = true;
    outage_ends_ = reactor_->Now() + options_.reconnect.replacement_timeout;
  }
  if (!commands_given_up_) outage_timer_.ScheduleAt(outage_ends_);
}

void InitiatorImpl::Reconnect(absl::Duration wait) {
  reconnect_timer_.ScheduleAfter(backoff_.Next(wait));
}

void InitiatorImpl::GiveUpCommands() {
  Log(absl::StrCat("not restored within ",
                   absl::FormatDuration(options_.reconnect.replacement_timeout),
                   " (replacement_timeout): ", queue_.size(),
                   " commands fail, and new ones until it is"));
  commands_given_up_ = true;
  TellChange(
      SessionChange::kGivenUp,
      absl::Status(
          last_failure_.code(),
          absl::StrCat(
              "not restored within ",
              absl::FormatDuration(options_.reconnect.replacement_timeout),
              " (replacement_timeout): ", last_failure_.message())));
  FailQueued();
}

// Ends the connection; its unanswered commands are first in the queue again.
void InitiatorImpl::TearDown() {
  // A target that takes each login, perhaps answers something, and ends the
  // session at once, is asked ever more seldom, too.
  if (up_ && reactor_->Now() - up_since_ >= options_.reconnect.max_delay) {
    backoff_.Reset();
  }
  up_ = false;
  stalled_since_ = absl::InfiniteFuture();
  coalesce_timer_.Cancel();
  move_timer_.Cancel();
  move_.reset();
  if (session_ == nullptr) return;
  past_.Add(transport_->Info().counters);
  CommandList retry;
  session_->TakeUnfinished(&retry);
  FailThoseLostForLong(&retry);
  if (!dead_) stats_.retries += retry.size();
  queue_.Prepend(&retry);
  pump_.reset();
  session_.reset();
  transport_.reset();
  work_timer_.Cancel();
}

// A target can answer other commands before it ends each session. What it does
// not answer would be sent again for ever.
void InitiatorImpl::FailThoseLostForLong(CommandList* unanswered) {
  const absl::Time now = reactor_->Now();
  size_t failed = 0;
  for (size_t left = unanswered->size(); left > 0; --left) {
    scsi::Command* const command = unanswered->PopFront();
    command->session_lost = std::min(command->session_lost, now);
    if (now - command->session_lost <= options_.reconnect.replacement_timeout) {
      unanswered->PushBack(command);
      continue;
    }
    ++failed;
    Fail(command, scsi::Command::Outcome::kConnectionLost);
  }
  if (failed == 0) return;
  Log(absl::StrCat(failed, " commands fail: sessions were lost before they ",
                   "were answered for more than ",
                   absl::FormatDuration(options_.reconnect.replacement_timeout),
                   " (replacement_timeout)"));
}

void InitiatorImpl::Close(const absl::Status& why) {
  if (dead_) return;
  dead_ = true;
  if (session_ != nullptr) session_->Terminate(why);
  TearDown();
  attempt_.reset();
  endpoint_.reset();
  iser_.reset();
  iser_memories_->DropRemoved();
  reconnect_timer_.Cancel();
  outage_timer_.Cancel();
  close_reason_ = Explain(why);
  TellChange(SessionChange::kClosed, close_reason_);
  FailQueued();
  for (auto& done : std::exchange(logged_out_, {})) {
    Tell(std::move(done), absl::OkStatus());
  }
  if (!on_ready_) return;
  Tell(std::move(on_ready_), close_reason_);
  on_ready_ = nullptr;
}

}  // namespace skiff::protocol
