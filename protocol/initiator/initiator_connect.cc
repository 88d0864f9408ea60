// How an initiator's connection comes about, is lost and restored.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "protocol/codec/text_value.h"
#include "protocol/initiator/initiator_impl.h"

namespace skiff::protocol {
namespace {

// The target, or we, do not take the other for who it says it is, or the target
// does not admit us. That is not asked again over another transport, to which
// the answer would be the same: it would count as one more attempt to break in.
// Other refusals can be due to the transport: a target without iSER refuses its
// keys, some have no discovery sessions over it, and where the ports of RDMA
// and TCP belong to different targets, one of them does not know the name.
bool IsAboutWhoWeAre(const absl::Status& refusal) {
  return absl::IsUnauthenticated(refusal) || absl::IsPermissionDenied(refusal);
}

InitiatorLife::SessionEnd::How HowOf(InitiatorSession::State end) {
  using How = InitiatorLife::SessionEnd::How;
  switch (end) {
    case InitiatorSession::State::kRedirected:
      return How::kRedirected;
    case InitiatorSession::State::kLoginFailed:
      return How::kLoginFailed;
    case InitiatorSession::State::kLoggedOut:
      return How::kLoggedOut;
    default:
      return How::kLost;
  }
}

}  // namespace

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
  connection_->transport->Adjust(&login.offer);
  // The same ISID every time, and no TSIH: the target ends the old session
  // before it begins the new one (RFC 7143 section 6.3.5).
  login.isid = options_.isid;
  if (options_.chap.has_value()) {
    login.auth_methods = {std::string(kChapMethod)};
    if (!options_.chap->target.has_value()) {
      login.auth_methods.emplace_back(kValueNone);
    }
    chap_wanted_ = false;
    login.start_auth = [this](const std::string& /*method*/) {
      chap_wanted_ = true;
      return StartChapInitiator(*options_.chap);
    };
  }
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

InitiatorImpl::Connection::Connection(
    InitiatorImpl* initiator, IserSetup<InitiatorDatamover> iser_arg,
    std::unique_ptr<ConnectionTransport<InitiatorDatamover>> transport_arg)
    : iser(std::move(iser_arg)),
      transport(std::move(transport_arg)),
      coalescer(initiator->options_.coalesce),
      work_timer(initiator->reactor_, [initiator] { initiator->Wake(); }),
      coalesce_timer(initiator->reactor_, [this] {
        coalescer.TimedOut();
        pump->SetReadThreshold(1);
      }) {}

void InitiatorImpl::Connect(const transport::Address& address) {
  address_ = address;
  attempt_ = std::make_unique<Attempt>(MakeIserSetup());
  transport::ConnectOptions connect = options_.connect;
  attempt_->iser.FillIn(&connect);
  const std::optional<transport::Address> streams =
      life_.why_no_rdma().empty()
          ? std::nullopt
          : portal_transport_->Only(address_,
                                    transport::EndpointKind::kByteStream);
  auto attempt = portal_transport_->Connect(
      reactor_, streams.value_or(address_), connect,
      [this,
       made = attempt_.get()](absl::StatusOr<transport::Endpoint> endpoint) {
        // Not here: the attempt is on the call stack.
        made->endpoint = std::move(endpoint);
        Wake();
      });
  if (attempt.ok()) {
    attempt_->attempt = *std::move(attempt);
    return;
  }
  attempt_->endpoint = attempt.status();
  Wake();
}

IserSetup<InitiatorDatamover> InitiatorImpl::MakeIserSetup() const {
  return {iser_memories_, IserOptions(), options_.capture};
}

void InitiatorImpl::OnConnected() {
  const std::unique_ptr<Attempt> attempt = std::move(attempt_);
  attempt->attempt.reset();
  attempt->iser.Settle(*attempt->endpoint);
  absl::StatusOr<transport::Endpoint> endpoint = *std::move(attempt->endpoint);
  attempt->endpoint.reset();
  if (!endpoint.ok()) {
    return Do(life_.ConnectFailed(reactor_->Now(), endpoint.status(),
                                  InitiatorLife::RdmaUse()));
  }
  auto made = TransportOf(*std::move(endpoint), &attempt->iser);
  if (!made.ok()) {
    InitiatorLife::RdmaUse rdma;
    rdma.used = true;
    rdma.avoidable = WorksWithoutRdma();
    return Do(life_.ConnectFailed(reactor_->Now(), made.status(), rdma));
  }
  connection_.emplace(this, attempt->iser, *std::move(made));
  Do(life_.Connected());
}

void InitiatorImpl::BeginSession() {
  Connection& connection = *connection_;
  peer_address_ = connection.transport->peer_address();
  connection_info_ = connection.transport->Info();
  if (!life_.why_no_rdma().empty()) {
    connection_info_.fallbacks.push_back(
        absl::StrCat("iSCSI instead of iSER: ", life_.why_no_rdma()));
  }
  RegisterMemories();
  connection.session = std::make_unique<InitiatorSession>(
      SessionOptions(), connection.transport->datamover(), &completions_);
  connection.pump =
      connection.transport->MakePump(reactor_, static_cast<PumpClient*>(this));
  connection.session->Start(reactor_->Now());
  connection.pump->Kick();
  // Sets the timer of the login, also where a move's endpoint is used: nothing
  // drives that before something of it completes.
  Wake();
}

// Of another device, perhaps, than that of the connection before.
void InitiatorImpl::RegisterMemories() {
  for (const LastingMemory& memory : lasting_memories_) {
    std::shared_ptr<const void> owner = memory.owner.lock();
    if (owner == nullptr) continue;
    const absl::Status registered = connection_->transport->UseMemory(
        memory.data, memory.size, std::move(owner));
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
InitiatorImpl::TransportOf(transport::Endpoint endpoint,
                           IserSetup<InitiatorDatamover>* iser) {
  if (auto* rdma =
          std::get_if<std::unique_ptr<transport::RdmaEndpoint>>(&endpoint)) {
    return iser->Take(std::move(*rdma));
  }
  StreamDatamoverOptions mover;
  mover.memory = options_.memory;
  mover.max_control_data_bytes = options_.offer.max_recv_data_segment_length;
  return MakeStreamTransport(
      std::get<std::unique_ptr<transport::ByteStream>>(std::move(endpoint)),
      MakeInitiatorStreamDatamover(&buffers_, mover), options_.capture);
}

void InitiatorImpl::OnSessionUp() {
  parameters_ = connection_->session->parameters();
  identity_ = connection_->session->identity();
  WarnIfNotAuthenticated();
  Do(life_.LoggedIn(reactor_->Now(), CanMoveLater(), !queue_.empty()));
}

void InitiatorImpl::OnSessionEnded() {
  const InitiatorSession& session = *connection_->session;
  InitiatorLife::SessionEnd end;
  end.how = HowOf(session.state());
  end.why = session.failure();
  end.wait = session.time2wait();
  end.not_admitted = session.loss() == InitiatorSession::Loss::kNone &&
                     IsAboutWhoWeAre(end.why);
  end.rdma = RdmaUseOfSession();
  if (end.how == InitiatorLife::SessionEnd::How::kRedirected) {
    ReadRedirect(session.redirect_address(), &end);
  }
  TearDown();
  Do(life_.SessionEnded(reactor_->Now(), end));
}

// `host:port[,portal group]`, from the target (RFC 7143 section 13.8).
void InitiatorImpl::ReadRedirect(const std::string& target,
                                 InitiatorLife::SessionEnd* end) {
  end->redirected_to = std::vector<std::string>(
      absl::StrSplit(target, absl::MaxSplits(',', 1)))[0];
  absl::StatusOr<transport::Address> address = transport::Address::Parse(
      absl::StrCat(options_.portal.scheme, "://", end->redirected_to));
  end->redirect_makes_sense = address.ok() && address->options.empty();
  if (!end->redirect_makes_sense) return;
  address->options = options_.portal.options;
  redirect_.where = end->redirected_to;
  redirect_.address = *std::move(address);
}

InitiatorLife::RdmaUse InitiatorImpl::RdmaUseOfSession() const {
  InitiatorLife::RdmaUse rdma;
  rdma.used = connection_->transport->rdma();
  if (!rdma.used) return rdma;
  using Loss = InitiatorSession::Loss;
  const ConnectionCounters done = connection_->transport->Info().counters;
  const Loss loss = connection_->session->loss();
  const bool by_fault = loss != Loss::kNone && loss != Loss::kTarget;
  rdma.moved_data = done.commands_moved > 0;
  rdma.lost_before_data = by_fault && done.commands_by_rdma > 0;
  rdma.avoidable = WorksWithoutRdma();
  return rdma;
}

bool InitiatorImpl::WorksWithoutRdma() const {
  return portal_transport_->Only(address_, transport::EndpointKind::kByteStream)
      .has_value();
}

// Ends the connection; its unanswered commands are first in the queue again.
void InitiatorImpl::TearDown() {
  if (!connection_.has_value()) return;
  past_.Add(connection_->transport->Info().counters);
  CommandList retry;
  connection_->session->TakeUnfinished(&retry);
  FailThoseLostForLong(&retry);
  if (!life_.closed()) stats_.retries += retry.size();
  queue_.Prepend(&retry);
  connection_.reset();
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

}  // namespace skiff::protocol
