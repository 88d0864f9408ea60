#include "protocol/initiator/initiator.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/codec/text.h"
#include "protocol/datamover/stream/stream_initiator_datamover.h"
#include "protocol/initiator/initiator_impl.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"

namespace skiff::protocol {
namespace {

using scsi::Command;

constexpr uint32_t kMaxCommands = kMaxTaskSlots - 16;
constexpr int kLastRounds = 1000;

// A random ISID (RFC 7143 section 11.12.5, type 10b).
Isid RandomIsid() {
  std::random_device random;
  Isid isid;
  for (uint8_t& byte : isid) byte = static_cast<uint8_t>(random());
  isid[0] = 0x80;
  return isid;
}

absl::Status CheckReconnect(const InitiatorOptions& options) {
  const absl::Duration first = options.reconnect.delay;
  const absl::Duration longest = options.reconnect.max_delay;
  if (first <= absl::ZeroDuration() || longest == absl::InfiniteDuration() ||
      first > longest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reconnect.delay is ", absl::FormatDuration(first),
        " and reconnect.max_delay is ", absl::FormatDuration(longest),
        "; the first must be more than 0, and the second at least as much and "
        "finite"));
  }
  if (options.reconnect.max_time2wait < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reconnect.max_time2wait is ",
        absl::FormatDuration(options.reconnect.max_time2wait),
        "; it must be 0 (no target can ask for a longer pause) or more"));
  }
  if (!(options.reconnect.jitter >= 0 && options.reconnect.jitter <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("reconnect.jitter is ", options.reconnect.jitter,
                     "; it must be between 0 and 1"));
  }
  return absl::OkStatus();
}

absl::Status Check(InitiatorOptions* options) {
  if (options->max_commands == 0 || options->max_commands > kMaxCommands) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_commands is ", options->max_commands,
                     "; it must be between 1 and ", kMaxCommands));
  }
  constexpr uint32_t kMaxR2t = StreamInitiatorDatamover::kMaxOutstandingR2t;
  if (options->offer.max_outstanding_r2t > kMaxR2t) {
    return absl::InvalidArgumentError(absl::StrCat(
        "offer.max_outstanding_r2t is ", options->offer.max_outstanding_r2t,
        "; an initiator supports at most ", kMaxR2t));
  }
  absl::Status offer = Validate(options->offer, Role::kInitiator);
  if (!offer.ok()) return offer;
  if (options->chap.has_value()) {
    absl::Status chap = Validate(*options->chap);
    if (!chap.ok()) return chap;
  }
  for (std::string* name : {&options->initiator_name, &options->target_name}) {
    if (name == &options->target_name && name->empty()) continue;
    absl::StatusOr<std::string> normal = NormalizeName(*name);
    if (!normal.ok()) return normal.status();
    *name = *std::move(normal);
  }
  if (absl::Status status = CheckReconnect(*options); !status.ok()) {
    return status;
  }
  const absl::Duration delay = options->coalesce.max_delay;
  if (delay < absl::ZeroDuration() || delay > CoalesceOptions::kMaxDelay) {
    return absl::InvalidArgumentError(absl::StrCat(
        "coalesce.max_delay is ", absl::FormatDuration(delay),
        "; it must be between 0 (answers do not wait for each other) and ",
        absl::FormatDuration(CoalesceOptions::kMaxDelay)));
  }
  if (options->isid == Isid{}) options->isid = RandomIsid();
  if (options->reconnect.seed == 0) {
    options->reconnect.seed = std::random_device()();
  }
  return absl::OkStatus();
}

InitiatorLife::Options LifeOptions(const InitiatorOptions& options) {
  InitiatorLife::Options life;
  life.reconnect = options.reconnect;
  life.rdma_retry_interval = options.rdma_retry_interval;
  life.rdma_move_patience = options.rdma_move_patience;
  life.logout_timeout = options.timeouts.logout_timeout;
  life.max_redirects = options.max_redirects;
  return life;
}

IserMemoryOptions MemoryOptions(const InitiatorOptions& options) {
  IserMemoryOptions memory;
  memory.rdma = options.rdma;
  memory.keep_registrations = options.keep_registrations;
  memory.cache = options.kept_registrations;
  return memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Initiator>> Initiator::Create(
    const transport::Registry* registry, transport::Reactor* reactor,
    const InitiatorOptions& options,
    absl::AnyInvocable<void(absl::Status)> on_ready) {
  InitiatorOptions checked = options;
  absl::Status status = Check(&checked);
  if (!status.ok()) return status;
  absl::StatusOr<transport::Transport*> transport =
      registry->Find(checked.portal.scheme);
  if (!transport.ok()) return transport.status();
  auto initiator = std::make_unique<InitiatorImpl>(*transport, reactor, checked,
                                                   std::move(on_ready));
  initiator->Start();
  return initiator;
}

InitiatorImpl::InitiatorImpl(transport::Transport* transport,
                             transport::Reactor* reactor,
                             const InitiatorOptions& options,
                             absl::AnyInvocable<void(absl::Status)> on_ready)
    : portal_transport_(transport),
      reactor_(reactor),
      options_(options),
      log_(
          reactor,
          [this](transport::LogLevel level, absl::string_view line) {
            const bool warns =
                level == transport::LogLevel::kWarning && options_.warn;
            (warns ? options_.warn : options_.log)(line);
          },
          options.log_limits),
      on_ready_(std::move(on_ready)),
      buffers_(StreamBuffers::kDefaultScratchBytes,
               options.memory.max_spare_buffer_bytes),
      iser_memories_(std::make_shared<IserMemories>(
          IserMemories::Role::kInitiator, MemoryOptions(options))),
      life_(LifeOptions(options)),
      life_timer_(reactor, [this] { Do(life_.OnTimer(reactor_->Now())); }) {}

InitiatorImpl::~InitiatorImpl() {
  on_ready_ = nullptr;
  options_.on_change = nullptr;
  Do(life_.Close(absl::CancelledError("the initiator was destroyed")));
  // Also what waited in a queue that is being told right now, and what is
  // submitted meanwhile; but whoever never stops is left alone in the end.
  CallbackQueue rest;
  for (int round = 0; round < kLastRounds && !completions_.empty(); ++round) {
    rest.TakeAll(&completions_);
    rest.Run();
  }
  if (!completions_.empty()) {
    Warn(
        "commands were submitted again and again while the initiator was "
        "destroyed: the last are not completed");
  }
}

// --- Commands.

void InitiatorImpl::Submit(Command* command) {
  ++stats_.commands;
  command->session_slot = kNoTask;
  command->session_lost = absl::InfiniteFuture();
  command->outcome = Command::Outcome::kPending;
  if (options_.target_name.empty() ||
      InitiatorSession::Validate(*command) != nullptr) {
    return Fail(command, Command::Outcome::kInvalid);
  }
  if (life_.refuses_commands()) {
    return Fail(command, Command::Outcome::kConnectionLost);
  }
  if (life_.sends_commands() && queue_.empty() &&
      connection_->session->CanIssue()) {
    const absl::Time now = reactor_->Now();
    Issue(command, now);
    // It may have ended: the command, or all of the session.
    if (!completions_.empty() || connection_->session->ended()) Wake();
    connection_->pump->Kick();
    if (options_.timeouts.command_timeout > absl::ZeroDuration()) {
      ScheduleWork(now + options_.timeouts.command_timeout);
    }
    return;
  }
  queue_.PushBack(command);
  if (life_.up()) Wake();
}

void InitiatorImpl::Abort(Command* command) {
  if (command->session_slot == kNoTask) {
    if (queue_.Remove(command)) Fail(command, Command::Outcome::kAborted);
    return;
  }
  connection_->session->Abort(command);
  Wake();
}

void InitiatorImpl::Fail(Command* command, Command::Outcome outcome) {
  command->outcome = outcome;
  command->status = 0;
  command->sense_length = 0;
  completions_.Add(command);
  Wake();
}

void InitiatorImpl::FailQueued() {
  while (!queue_.empty()) {
    Fail(queue_.PopFront(), Command::Outcome::kConnectionLost);
  }
}

void InitiatorImpl::Issue(Command* command, absl::Time now) {
  InitiatorSession& session = *connection_->session;
  if (session.CanCarry(*command)) return session.Issue(command, now);
  Log(absl::StrCat("a command is refused: its additional header segments are ",
                   "longer than the target takes, which declares MaxAHSLength=",
                   parameters_.iser.target_max_ahs_length));
  Fail(command, Command::Outcome::kInvalid);
}

void InitiatorImpl::IssueQueued() {
  if (!life_.sends_commands()) return;
  while (!queue_.empty() && connection_->session->CanIssue()) {
    Issue(queue_.PopFront(), reactor_->Now());
  }
}

// --- Requests.

void InitiatorImpl::Tell(absl::AnyInvocable<void(absl::Status)> done,
                         absl::Status status) {
  if (done) {
    completions_.Add([done = std::move(done), status]() mutable {
      done(std::move(status));
    });
  }
  Wake();
}

absl::Status InitiatorImpl::NotConnected() const {
  if (life_.closed()) return close_reason_;
  return absl::UnavailableError(
      absl::StrCat("not connected to ",
                   options_.target_name.empty() ? "the discovery portal"
                                                : options_.target_name,
                   " at ", options_.portal.ToString(),
                   "; wait until the session is restored"));
}

void InitiatorImpl::Manage(TaskManagementFunction function, uint64_t lun,
                           Command* referenced,
                           absl::AnyInvocable<void(absl::Status)> done) {
  if (function == TaskManagementFunction::kAbortTask && referenced != nullptr &&
      referenced->session_slot == kNoTask && queue_.Remove(referenced)) {
    // The target never saw it.
    Fail(referenced, Command::Outcome::kAborted);
    return Tell(std::move(done), absl::OkStatus());
  }
  if (!life_.takes_requests()) return Tell(std::move(done), NotConnected());
  connection_->session->Manage(function, lun, referenced, std::move(done));
  Wake();
}

void InitiatorImpl::Ping(absl::AnyInvocable<void(absl::Status)> done) {
  if (!life_.takes_requests()) return Tell(std::move(done), NotConnected());
  connection_->session->Ping(std::move(done));
  Wake();
}

void InitiatorImpl::SendTargets(
    const std::string& what,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<DiscoveredTarget>>)>
        done) {
  if (!life_.takes_requests()) {
    return Tell([done = std::move(done)](
                    absl::Status status) mutable { done(std::move(status)); },
                NotConnected());
  }
  std::string keys = absl::StrCat("SendTargets=", what);
  keys.push_back('\0');
  connection_->session->SendText(
      std::move(keys),
      [done = std::move(done)](absl::StatusOr<std::string> answer) mutable {
        if (!answer.ok()) return done(answer.status());
        std::vector<TextPair> pairs;
        const absl::Status parsed = ParseText(*answer, &pairs);
        if (!parsed.ok()) return done(parsed);
        done(ParseTargets(pairs));
      });
  Wake();
}

void InitiatorImpl::Logout(absl::AnyInvocable<void(absl::Status)> done) {
  logouts_.push_back(std::move(done));
  Do(life_.AskedToLogOut(connection_.has_value() &&
                         connection_->session->state() ==
                             InitiatorSession::State::kFullFeature));
}

bool InitiatorImpl::Reconnect() {
  if (!life_.up() || !connection_.has_value() ||
      connection_->session->ended()) {
    return false;
  }
  connection_->session->Terminate(
      absl::AbortedError("a new connection was asked for"));
  Wake();
  return true;
}

absl::Status InitiatorImpl::UseMemory(void* data, size_t size,
                                      std::shared_ptr<const void> owner) {
  std::erase_if(lasting_memories_, [](const LastingMemory& memory) {
    return memory.owner.expired();
  });
  const bool known =
      std::any_of(lasting_memories_.begin(), lasting_memories_.end(),
                  [&](const LastingMemory& memory) {
                    return memory.data == data && memory.size == size &&
                           memory.owner.lock() == owner;
                  });
  if (!known) lasting_memories_.push_back({data, size, owner});
  if (!connection_.has_value()) return absl::OkStatus();
  return connection_->transport->UseMemory(data, size, std::move(owner));
}

const InitiatorStats& InitiatorImpl::stats() const {
  const ConnectionCounters counters = connection().counters;
  stats_.bytes_in = counters.bytes_in;
  stats_.bytes_out = counters.bytes_out;
  return stats_;
}

ConnectionInfo InitiatorImpl::connection() const {
  ConnectionInfo info = connection_info_;
  info.counters = past_;
  if (connection_.has_value()) {
    info.counters.Add(connection_->transport->Info().counters);
  }
  return info;
}

// --- The engine.

void InitiatorImpl::Wake() { reactor_->ScheduleTurnEnd(this); }

void InitiatorImpl::ScheduleWork(absl::Time when) {
  if (when == absl::InfiniteFuture()) return;
  // Deadlines move away all the time: a timer that comes early looks again.
  transport::Timer& timer = connection_->work_timer;
  if (timer.scheduled() && timer.deadline() <= when) return;
  timer.ScheduleAt(when);
}

void InitiatorImpl::OnClosed(absl::Status why) {
  connection_->session->ConnectionLost(why);
  Work();
}

void InitiatorImpl::Work() {
  if (attempt_ != nullptr && attempt_->endpoint.has_value()) OnConnected();
  if (connection_.has_value()) Drive();
  if (!completions_.Run()) return;  // `this` is gone.
  if (!completions_.empty()) Wake();
}

void InitiatorImpl::Drive() {
  const absl::Time now = reactor_->Now();
  InitiatorSession& session = *connection_->session;
  ConnectionPump& pump = *connection_->pump;
  if (!life_.up() && session.state() == InitiatorSession::State::kFullFeature) {
    OnSessionUp();
  }
  if (life_.unproved() && session.responses() > 0) life_.Answered();
  if (life_.holding()) ContinueMove(now);
  IssueQueued();
  Coalesce(now);
  const absl::Time next = session.Advance(now, pump.last_receive());
  if (!session.ended()) {
    // Requests that waited were sent, and commands held back for them.
    if (!queue_.empty() && life_.sends_commands() && session.CanIssue()) {
      Wake();
    }
    const absl::Time stall = CheckStall(now);
    if (!session.ended()) {
      if (pump.has_output()) pump.Kick();
      return ScheduleWork(std::min(next, stall));
    }
  }
  OnSessionEnded();
}

void InitiatorImpl::Coalesce(absl::Time now) {
  Connection& connection = *connection_;
  ConnectionPump& pump = *connection.pump;
  const uint64_t answers = connection.session->responses();
  if (!life_.up() || reactor_->spinning() || !pump.has_read_threshold() ||
      options_.coalesce.max_delay == absl::ZeroDuration()) {
    return;
  }
  if (answers == connection.coalesced_answers) return;
  // Later in this turn, when the answers' callbacks have issued new commands.
  connection.coalesce_pending = !connection.coalesce_pending;
  if (connection.coalesce_pending) return Wake();
  connection.coalesced_answers = answers;
  size_t threshold = connection.coalescer.Update(
      now, answers, pump.bytes_received(), connection.session->outstanding());
  // Who spins is not woken.
  if (reactor_->spin() > absl::ZeroDuration()) threshold = 1;
  pump.SetReadThreshold(threshold);
  if (threshold > 1) {
    connection.coalesce_timer.ScheduleAfter(connection.coalescer.patience());
  } else {
    connection.coalesce_timer.Cancel();
  }
}

// A target that keeps its window closed with nothing outstanding will never
// take the commands that wait. Returns when to look again.
absl::Time InitiatorImpl::CheckStall(absl::Time now) {
  absl::Time& stalled_since = connection_->stalled_since;
  InitiatorSession& session = *connection_->session;
  if (!life_.sends_commands() || queue_.empty() || session.outstanding() > 0 ||
      options_.timeouts.command_timeout <= absl::ZeroDuration()) {
    stalled_since = absl::InfiniteFuture();
    return absl::InfiniteFuture();
  }
  stalled_since = std::min(stalled_since, now);
  const absl::Time deadline = stalled_since + options_.timeouts.command_timeout;
  if (now >= deadline) {
    session.Terminate(absl::DeadlineExceededError(
        absl::StrCat("the target took no command for ",
                     absl::FormatDuration(options_.timeouts.command_timeout),
                     ": it keeps its command window closed")));
  }
  return deadline;
}

}  // namespace skiff::protocol
