#include "tools/library/disk.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/lun.h"
#include "scsi/sense.h"
#include "tools/library/error.h"
#include "tools/library/options.h"

namespace skiff::library {
namespace {

absl::Status Closed() { return absl::CancelledError("the disk was closed"); }

}  // namespace

Disk::Disk(std::shared_ptr<Context> context, std::shared_ptr<Session> session,
           const skiff_disk_options& options, uint32_t lun)
    : context_(std::move(context)),
      session_(std::move(session)),
      options_(options),
      lun_(lun),
      use_(std::make_unique<Context::Use>(context_, kKind)) {}

Disk::~Disk() = default;

int Disk::CheckReady(bool for_commands) const {
  const State state = state_.load();
  if (state == State::kOpening) {
    return Fail(ENOTCONN, "the disk is not open yet: wait for its done");
  }
  if (state == State::kFailed) {
    return Fail(ENOTCONN, "the disk could not be opened, as its done has told");
  }
  if (!for_commands && (options_.flags & SKIFF_DISK_COMMANDS_ONLY) != 0) {
    return Fail(EOPNOTSUPP,
                "the disk was opened for commands only: use "
                "skiff_disk_command()");
  }
  return 0;
}

int Disk::Reserve(size_t count) {
  const auto added = static_cast<uint32_t>(count);
  if (in_flight_.fetch_add(added) + added > kMaxInFlight) {
    in_flight_.fetch_sub(added);
    return Fail(ENOBUFS, absl::StrCat(count, " more would be over ",
                                      kMaxInFlight, " in flight"));
  }
  // Another thread closes it, and either sees those, or has been here before.
  if (state_.load() != State::kClosing) return 0;
  in_flight_.fetch_sub(added);
  return Fail(EBADF, "the skiff_disk is being closed by another thread");
}

bool Disk::GetInfo(skiff_disk_info* out) const {
  if (state_.load() != State::kOpen) return false;
  const std::lock_guard<std::mutex> lock(info_mutex_);
  const scsi::DiskInfo& info = info_;
  out->size_bytes = info.size_bytes;
  out->block_size = info.block_size;
  out->physical_block_size = info.physical_block_size;
  out->read_only = info.read_only;
  out->rotational = info.rotational;
  out->write_cache = info.volatile_write_cache;
  out->unmap = info.unmap;
  out->unmapped_reads_zeroes = info.unmapped_reads_zeroes;
  out->unmap_granularity = info.unmap_granularity_bytes;
  out->max_unmap_bytes = info.max_unmap_bytes;
  out->max_transfer_bytes = info.max_transfer_bytes;
  out->optimal_transfer_bytes = info.optimal_transfer_bytes;
  out->max_compare_and_write_bytes = info.max_compare_and_write_bytes;
  out->lun = lun_;
  CopyText(info.vendor, out->vendor);
  CopyText(info.product, out->product);
  CopyText(info.revision, out->revision);
  CopyText(info.serial, out->serial);
  CopyText(info.identifier, out->identifier);
  return true;
}

// --- Opening, and what the disk is.

void Disk::Open(std::optional<protocol::InitiatorOptions> login,
                Ending::Done done) {
  open_done_ = done;
  session_->Join(this);
  if (login.has_value()) {
    session_->Connect(*std::move(login), [this](absl::Status status) {
      OnLoggedIn(std::move(status));
    });
    return;
  }
  context_->Post(reactor(), [self = shared_from_this()] {
    self->OnLoggedIn(absl::OkStatus());
  });
}

void Disk::OnLoggedIn(absl::Status status) {
  if (state_.load() != State::kOpening) return;  // It is being closed.
  if (status.ok() && scsi::LunLookup::Needed(lun_) && !found_lun_.has_value() &&
      session_->initiator() != nullptr) {
    return LookUpLun();
  }
  if (status.ok()) status = Prepare();
  if (!status.ok()) {
    state_.store(State::kFailed);
    return FinishOpen(status);
  }
  if ((options_.flags & SKIFF_DISK_COMMANDS_ONLY) != 0) {
    state_.store(State::kOpen);
    return FinishOpen(status);
  }
  StartProbe();
}

void Disk::LookUpLun() {
  probing_ = true;
  lookup_ = std::make_unique<scsi::LunLookup>(
      session_->initiator(), context_->reactor(reactor()), MakeRetryOptions());
  lookup_->Start(lun_, [this](uint64_t lun) {
    probing_ = false;
    if (state_.load() == State::kClosing) return MaybeFinishClosing();
    found_lun_ = lun;
    OnLoggedIn(absl::OkStatus());
  });
}

absl::Status Disk::Prepare() {
  if (session_->initiator() == nullptr) {
    return absl::UnavailableError("there is no session: its login failed");
  }
  environment_.port = session_->initiator();
  environment_.reactor = context_->reactor(reactor());
  environment_.lun = found_lun_.value_or(scsi::EncodeLun(lun_));
  environment_.retry = MakeRetryOptions();
  environment_.on_unit_attention = [this](const scsi::SenseData& sense) {
    OnUnitAttention(sense);
  };
  once_environment_ = environment_;
  once_environment_.retry.max_retries = 0;
  once_environment_.retry.max_timeouts = 0;
  auto disk = scsi::Disk::Create(session_->initiator(), environment_.reactor,
                                 MakeDiskOptions());
  if (!disk.ok()) return disk.status();
  disk_ = *std::move(disk);
  return absl::OkStatus();
}

scsi::RetryOptions Disk::MakeRetryOptions() const {
  scsi::RetryOptions retry;
  if (options_.max_retries == SKIFF_NEVER) {
    retry.max_retries = 0;
    retry.max_timeouts = 0;
  } else if (options_.max_retries != 0) {
    retry.max_retries =
        static_cast<int>(std::min<uint32_t>(options_.max_retries, INT32_MAX));
  }
  return retry;
}

scsi::DiskOptions Disk::MakeDiskOptions() {
  scsi::DiskOptions options;
  options.lun = environment_.lun;
  options.retry = environment_.retry;
  if (options_.max_transfer_bytes != 0) {
    options.max_transfer_bytes = options_.max_transfer_bytes;
  }
  if (options_.max_commands != 0) options.max_commands = options_.max_commands;
  options.on_unit_attention = environment_.on_unit_attention;
  options.on_recovered_error = [this](const scsi::SenseData& sense) {
    // In a later turn: a callback may close the disk.
    context_->Post(reactor(), [self = shared_from_this(),
                               text = scsi::DescribeSense(sense)] {
      self->TellEvent(SKIFF_DISK_NOTICE, absl::OkStatus(), text);
    });
  };
  return options;
}

void Disk::FinishOpen(const absl::Status& status) {
  const Ending::Done done = std::exchange(open_done_, Ending::Done());
  if (done.function != nullptr) Tell(done, status);
}

void Disk::Refresh(Ending::Done done) {
  if (disk_ == nullptr || state_.load() == State::kClosing) {
    context_->Post(reactor(),
                   [done] { done(-ENOTCONN, "there is no session"); });
    return;
  }
  next_probe_dones_.push_back(done);
  if (!probing_) StartProbe();
}

void Disk::StartProbe() {
  probing_ = true;
  probe_dones_ = std::exchange(next_probe_dones_, {});
  disk_->Open([this](const absl::Status& status) { OnProbed(status); });
}

void Disk::OnProbed(const absl::Status& status) {
  probing_ = false;
  const State state = state_.load();
  if (state == State::kClosing) return MaybeFinishClosing();
  uint64_t old_size = 0;
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(info_mutex_);
    old_size = info_.size_bytes;
    info_ = disk_->info();
  }
  if (status.ok() || state == State::kOpening) {
    state_.store(status.ok() ? State::kOpen : State::kFailed);
  }
  const std::shared_ptr<Disk> self = shared_from_this();
  FinishOpen(status);
  for (const Ending::Done& done : std::exchange(probe_dones_, {})) {
    Tell(done, status);
  }
  if (status.ok() && state == State::kOpen &&
      old_size != disk_->info().size_bytes) {
    TellEvent(SKIFF_DISK_RESIZED, absl::OkStatus(),
              absl::StrCat("the disk has ", disk_->info().size_bytes,
                           " bytes now, not ", old_size));
  }
  if (!next_probe_dones_.empty() && !probing_) StartProbe();
}

// --- Events.

void Disk::OnUnitAttention(const scsi::SenseData& sense) {
  // In a later turn: this is inside a command, and a callback may close the
  // disk.
  context_->Post(reactor(), [self = shared_from_this(), sense] {
    if (self->state_.load() != State::kOpen || self->disk_ == nullptr) return;
    if (sense.code == scsi::AdditionalSense::kCapacityDataHasChanged &&
        (self->options_.flags & SKIFF_DISK_COMMANDS_ONLY) == 0) {
      self->Refresh({skiff_ignore, nullptr});
      return;
    }
    self->TellEvent(SKIFF_DISK_NOTICE, absl::OkStatus(),
                    scsi::DescribeSense(sense));
  });
}

void Disk::OnChange(protocol::SessionChange change, const absl::Status& why) {
  int event = SKIFF_DISK_LOST;
  switch (change) {
    case protocol::SessionChange::kLost:
      break;
    case protocol::SessionChange::kRestored:
      event = SKIFF_DISK_RESTORED;
      break;
    case protocol::SessionChange::kGivenUp:
      event = SKIFF_DISK_GIVEN_UP;
      break;
    case protocol::SessionChange::kClosed:
      event = SKIFF_DISK_ENDED;
      break;
  }
  TellEvent(event, why, MessageOf(why));
}

void Disk::TellEvent(int event, const absl::Status& why,
                     const std::string& message) {
  if (options_.on_event == nullptr || !told_.load()) return;
  options_.on_event(options_.event_user, handle_, event, ErrorOf(why),
                    message.c_str());
}

// --- I/O.

Io* Disk::NewIo() {
  Io* const io = OnReactor() ? free_ios_.Get() : new Io;
  io->disk = this;
  return io;
}

void Disk::Start(Io* io) {
  io->begun = context_->reactor(reactor())->Now();
  io->io.done = OnIoDone;
  io->io.context = io;
  pending_.Add(io);
  disk_->Submit(&io->io);
}

void Disk::OnIoDone(scsi::DiskIo* ended) {
  auto* const io = static_cast<Io*>(ended->context);
  Disk* const self = io->disk;
  self->pending_.Remove(io);
  self->CountIo(*ended, self->Count(*io, ended->status.ok()));
  const Ending::Done done = io->done;
  absl::Status status = std::move(ended->status);
  const uint64_t id = io->id;
  self->free_ios_.Put(io);
  self->in_flight_.fetch_sub(1);
  if (status.ok()) {
    done(0, "");
  } else {
    self->Tell(done, status);
  }
  if (!self->aborts_.empty()) self->TellAborts(id, status);
  if (self->state_.load(std::memory_order_relaxed) == State::kClosing) {
    self->MaybeFinishClosing();
  }
}

std::unique_ptr<RawCommand> Disk::NewCommand(const skiff_command& given,
                                             skiff_command_result* result) {
  const scsi::RetryingCommand::Environment* const environment =
      (given.flags & SKIFF_COMMAND_ONCE) != 0 ? &once_environment_
                                              : &environment_;
  std::unique_ptr<RawCommand> command;
  if (OnReactor() && !free_commands_.empty()) {
    command = std::move(free_commands_.back());
    free_commands_.pop_back();
  } else {
    command = std::make_unique<RawCommand>(this, environment);
  }
  command->Fill(environment, given, result);
  return command;
}

void Disk::Start(std::unique_ptr<RawCommand> command) {
  RawCommand* const started = command.release();
  started->begun = context_->reactor(reactor())->Now();
  pending_.Add(started);
  started->Start();
  if (state_.load() == State::kClosing) started->Stop();
}

void Disk::OnRawCommandDone(RawCommand* command) {
  pending_.Remove(command);
  Count(*command, command->status().ok());
  in_flight_.fetch_sub(1);
  command->FillResult();
  Tell(command->done, command->status());
  if (!aborts_.empty()) TellAborts(command->id, command->status());
  std::unique_ptr<RawCommand> ended(command);
  if (free_commands_.size() < kMaxFreeCommands) {
    free_commands_.push_back(std::move(ended));
  } else {
    // It is in a callback of its own.
    context_->Post(reactor(), [ended = std::move(ended)] {});
  }
  if (state_.load() == State::kClosing) MaybeFinishClosing();
}

absl::Duration Disk::Count(const Pending& pending, bool ok) {
  const absl::Duration latency =
      context_->reactor(reactor())->Now() - pending.begun;
  ++ios_;
  if (!ok) ++failed_ios_;
  latency_sum_ += latency;
  latency_max_ = std::max(latency_max_, latency);
  return latency;
}

void Disk::CountIo(const scsi::DiskIo& io, absl::Duration latency) {
  const bool reads = io.op == scsi::DiskIo::Op::kRead;
  if (!reads && io.op != scsi::DiskIo::Op::kWrite) return;
  Transfers& transfers = reads ? reads_ : writes_;
  ++transfers.count;
  if (io.status.ok()) transfers.bytes += io.length;
  const uint64_t nanos =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(latency));
  skiff_latency& counted = transfers.latency;
  counted.sum_ns += nanos;
  counted.max_ns = std::max(counted.max_ns, nanos);
  const int width = std::bit_width(nanos >> 10);  // 1024 ns is in the second.
  ++counted.counts[std::min(width, SKIFF_LATENCY_COUNTS - 1)];
}

void Disk::Tell(Ending::Done done, const absl::Status& status) {
  done(IoErrorOf(status), MessageOf(status).c_str());
}

void Disk::Cancel(uint64_t id) {
  Pending* const pending = pending_.Find(id);
  if (pending == nullptr) return;
  if (pending->what == Pending::What::kIo) {
    disk_->Cancel(&static_cast<Io*>(pending)->io);
  } else {
    static_cast<RawCommand*>(pending)->Stop();
  }
}

void Disk::Abort(uint64_t id, Ending::Done done) {
  if (pending_.Find(id) == nullptr) {
    return done(-EALREADY, "it had ended before it was to be aborted");
  }
  aborts_.emplace(id, done);
  Cancel(id);
}

void Disk::TellAborts(uint64_t id, const absl::Status& end) {
  const auto [first, last] = aborts_.equal_range(id);
  std::vector<Ending::Done> told;
  for (auto at = first; at != last; ++at) told.push_back(at->second);
  aborts_.erase(first, last);
  for (const Ending::Done& done : told) {
    if (absl::IsCancelled(end)) {
      done(0, "");
    } else {
      done(-EALREADY, "it ended by itself");
    }
  }
}

void Disk::Reset(Ending::Done done) {
  protocol::Initiator* const initiator = session_->initiator();
  if (initiator == nullptr) {
    context_->Post(reactor(),
                   [done] { done(-ENOTCONN, "there is no session"); });
    return;
  }
  initiator->Manage(protocol::TaskManagementFunction::kLogicalUnitReset,
                    environment_.lun, nullptr,
                    [done](const absl::Status& status) { done(status); });
}

void Disk::Reconnect() {
  if (session_->initiator() != nullptr) session_->initiator()->Reconnect();
}

void Disk::GetStats(skiff_disk_stats* stats) const {
  stats->ios = ios_;
  stats->failed_ios = failed_ios_;
  stats->latency_ns_sum =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(latency_sum_));
  stats->latency_ns_max =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(latency_max_));
  stats->reads = reads_.count;
  stats->read_bytes = reads_.bytes;
  stats->read_latency = reads_.latency;
  stats->writes = writes_.count;
  stats->written_bytes = writes_.bytes;
  stats->write_latency = writes_.latency;
  const protocol::Initiator* const initiator = session_->initiator();
  if (initiator == nullptr) return;
  const protocol::ConnectionInfo connection = initiator->connection();
  const protocol::InitiatorStats& session = initiator->stats();
  stats->connected = initiator->connected() ? 1 : 0;
  stats->commands = session.commands;
  stats->retries = session.retries;
  stats->reconnects = session.reconnects;
  stats->bytes_in = session.bytes_in;
  stats->bytes_out = session.bytes_out;
  stats->copied_bytes = connection.counters.copied_bytes;
  stats->rdma_commands = connection.counters.commands_moved;
  stats->registrations = connection.counters.registrations;
  CopyText(initiator->transport_name(), stats->transport);
  CopyText(connection.data_model, stats->data_model);
  CopyText(connection.device, stats->device);
  CopyText(initiator->peer_address(), stats->peer);
  CopyText(initiator->identity().target_name, stats->target);
}

// --- The end.

void Disk::Close(Ending::Done done) {
  self_ = shared_from_this();
  close_done_ = done;
  state_.store(State::kClosing);
  FinishOpen(Closed());
  for (auto* dones : {&probe_dones_, &next_probe_dones_}) {
    for (const Ending::Done& refreshed : std::exchange(*dones, {})) {
      Tell(refreshed, Closed());
    }
  }
  if (lookup_ != nullptr) lookup_->Stop();
  if (disk_ != nullptr) disk_->Close();
  std::vector<uint64_t> left;
  for (Pending* at = pending_.first(); at != nullptr; at = at->next) {
    if (at->what == Pending::What::kRawCommand) left.push_back(at->id);
  }
  for (const uint64_t id : left) Cancel(id);
  MaybeFinishClosing();
}

void Disk::MaybeFinishClosing() {
  if (finishing_ || in_flight_.load() != 0 || probing_) return;
  finishing_ = true;
  // Not from inside a callback of the disk.
  context_->Post(reactor(), [this] {
    disk_.reset();
    session_->Leave(this, [this] {
      const std::shared_ptr<Disk> self = std::move(self_);
      use_.reset();
      close_done_(0, "");
    });
  });
}

}  // namespace skiff::library
