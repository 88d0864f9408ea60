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
      coalescer_(options.coalesce),
      move_timer_(reactor, [this] { TryRdma(); }),
      backoff_(options.reconnect),
      work_timer_(reactor, [this] { Wake(); }),
      coalesce_timer_(reactor,
                      [this] {
                        coalescer_.TimedOut();
                        if (pump_ != nullptr) pump_->SetReadThreshold(1);
                      }),
      reconnect_timer_(reactor, [this] { Start(); }),
      outage_timer_(reactor, [this] { GiveUpCommands(); }) {}

InitiatorImpl::~InitiatorImpl() {
  on_ready_ = nullptr;
  options_.on_change = nullptr;
  Close(absl::CancelledError("the initiator was destroyed"));
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
  if (dead_ || commands_given_up_) {
    return Fail(command, Command::Outcome::kConnectionLost);
  }
  if (up_ && queue_.empty() && !holding_commands() && session_->CanIssue()) {
    const absl::Time now = reactor_->Now();
    Issue(command, now);
    // It may have ended: the command, or all of the session.
    if (!completions_.empty() || session_->ended()) Wake();
    pump_->Kick();
    if (options_.timeouts.command_timeout > absl::ZeroDuration()) {
      ScheduleWork(now + options_.timeouts.command_timeout);
    }
    return;
  }
  queue_.PushBack(command);
  if (up_) Wake();
}

void InitiatorImpl::Abort(Command* command) {
  if (command->session_slot == kNoTask) {
    if (queue_.Remove(command)) Fail(command, Command::Outcome::kAborted);
    return;
  }
  session_->Abort(command);
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
  if (session_->CanCarry(*command)) return session_->Issue(command, now);
  Log(absl::StrCat("a command is refused: its additional header segments are ",
                   "longer than the target takes, which declares MaxAHSLength=",
                   parameters_.iser.target_max_ahs_length));
  Fail(command, Command::Outcome::kInvalid);
}

void InitiatorImpl::IssueQueued() {
  if (holding_commands()) return;
  while (!queue_.empty() && session_->CanIssue()) {
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

void InitiatorImpl::TellChange(SessionChange change, absl::Status why) {
  if (!change_.has_value() || *change_ == change) return;
  change_ = change;
  if (options_.on_change == nullptr) return;
  completions_.Add([this, change, why = std::move(why)] {
    // It may destroy this, and so itself.
    const auto on_change = options_.on_change;
    if (on_change != nullptr) on_change(change, why);
  });
  Wake();
}

absl::Status InitiatorImpl::NotConnected() const {
  if (dead_) return close_reason_;
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
  if (!up_ || moving()) return Tell(std::move(done), NotConnected());
  session_->Manage(function, lun, referenced, std::move(done));
  Wake();
}

void InitiatorImpl::Ping(absl::AnyInvocable<void(absl::Status)> done) {
  if (!up_ || moving()) return Tell(std::move(done), NotConnected());
  session_->Ping(std::move(done));
  Wake();
}

void InitiatorImpl::SendTargets(
    const std::string& what,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<DiscoveredTarget>>)>
        done) {
  if (!up_ || moving()) {
    return Tell([done = std::move(done)](
                    absl::Status status) mutable { done(std::move(status)); },
                NotConnected());
  }
  std::string keys = absl::StrCat("SendTargets=", what);
  keys.push_back('\0');
  session_->SendText(
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
  logout_wanted_ = true;
  if (up_ && session_->state() == InitiatorSession::State::kFullFeature) {
    session_->Logout(LogoutRequestPdu::kCloseSession, /*cid=*/0,
                     std::move(done));
    return Wake();
  }
  if (moving()) {  // It ends there.
    logged_out_.push_back(std::move(done));
    return;
  }
  if (!up_) Close(absl::CancelledError("the session was logged out"));
  Tell(std::move(done), absl::OkStatus());
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
  if (transport_ == nullptr) return absl::OkStatus();
  return transport_->UseMemory(data, size, std::move(owner));
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
  if (transport_ != nullptr) info.counters.Add(transport_->Info().counters);
  return info;
}

// --- The engine.

void InitiatorImpl::Wake() { reactor_->ScheduleTurnEnd(this); }

void InitiatorImpl::ScheduleWork(absl::Time when) {
  if (when == absl::InfiniteFuture()) return;
  // Deadlines move away all the time: a timer that comes early looks again.
  if (work_timer_.scheduled() && work_timer_.deadline() <= when) return;
  work_timer_.ScheduleAt(when);
}

void InitiatorImpl::OnClosed(absl::Status why) {
  session_->ConnectionLost(why);
  Work();
}

void InitiatorImpl::Work() {
  if (endpoint_.has_value()) {
    absl::StatusOr<transport::Endpoint> endpoint = *std::move(endpoint_);
    endpoint_.reset();
    OnConnected(std::move(endpoint));
  }
  if (session_ != nullptr) Drive();
  if (!completions_.Run()) return;  // `this` is gone.
  if (!completions_.empty()) Wake();
}

void InitiatorImpl::Drive() {
  const absl::Time now = reactor_->Now();
  if (!up_ && session_->state() == InitiatorSession::State::kFullFeature) {
    OnSessionUp();
  }
  if (in_outage_ && session_->responses() > 0) OutageIsOver();
  const absl::Time move = ContinueMove(now);
  IssueQueued();
  Coalesce(now);
  const absl::Time next = session_->Advance(now, pump_->last_receive());
  if (!session_->ended()) {
    // Requests that waited were sent, and commands held back for them.
    if (!queue_.empty() && !holding_commands() && session_->CanIssue()) {
      Wake();
    }
    const absl::Time stall = CheckStall(now);
    if (!session_->ended()) {
      if (pump_->has_output()) pump_->Kick();
      return ScheduleWork(std::min({next, stall, move}));
    }
  }
  OnSessionEnded();
}

void InitiatorImpl::Coalesce(absl::Time now) {
  if (!up_ || reactor_->spinning() || !pump_->has_read_threshold() ||
      options_.coalesce.max_delay == absl::ZeroDuration()) {
    return;
  }
  if (session_->responses() == coalesced_answers_) return;
  // Later in this turn, when the answers' callbacks have issued new commands.
  coalesce_pending_ = !coalesce_pending_;
  if (coalesce_pending_) return Wake();
  coalesced_answers_ = session_->responses();
  size_t threshold =
      coalescer_.Update(now, session_->responses(), pump_->bytes_received(),
                        session_->outstanding());
  // Who spins is not woken.
  if (reactor_->spin() > absl::ZeroDuration()) threshold = 1;
  pump_->SetReadThreshold(threshold);
  if (threshold > 1) {
    coalesce_timer_.ScheduleAfter(coalescer_.patience());
  } else {
    coalesce_timer_.Cancel();
  }
}

// A target that keeps its window closed with nothing outstanding will never
// take the commands that wait. Returns when to look again.
absl::Time InitiatorImpl::CheckStall(absl::Time now) {
  if (!up_ || queue_.empty() || session_->outstanding() > 0 ||
      holding_commands() ||
      options_.timeouts.command_timeout <= absl::ZeroDuration()) {
    stalled_since_ = absl::InfiniteFuture();
    return absl::InfiniteFuture();
  }
  stalled_since_ = std::min(stalled_since_, now);
  const absl::Time deadline =
      stalled_since_ + options_.timeouts.command_timeout;
  if (now >= deadline) {
    session_->Terminate(absl::DeadlineExceededError(
        absl::StrCat("the target took no command for ",
                     absl::FormatDuration(options_.timeouts.command_timeout),
                     ": it keeps its command window closed")));
  }
  return deadline;
}

}  // namespace skiff::protocol
