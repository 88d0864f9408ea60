#include "bench/protocol/command_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/initiator/cdb.h"

namespace skiff::protocol {
namespace {

constexpr char kTarget[] = "iqn.2001-04.com.example:disk";
constexpr uint32_t kBlock = 512;

}  // namespace

CommandPath::CommandPath(const Options& options)
    : options_(options),
      reactor_(transport::EpollReactor::Create().value()),
      worker_(
          scsi::Worker::Create(reactor_.get(), scsi::WorkerOptions()).value()),
      disk_(scsi::Target::Create(kTarget)) {
  scsi::RamBackendOptions ram;
  ram.size_bytes = uint64_t{options.queue_depth} * options.bytes;
  if (!disk_
           ->AddLogicalUnit(scsi::MakeRamBackend(ram).value(),
                            scsi::LogicalUnitOptions())
           .ok()) {
    failure_ = "no logical unit";
    return;
  }
  target_mover_ =
      MakeTargetStreamDatamover(&target_buffers_, StreamDatamoverOptions());
  target_ = std::make_unique<TargetSession>(
      static_cast<TargetSessionHost*>(this), target_mover_.get(),
      TargetSessionOptions());
  initiator_mover_ = MakeInitiatorStreamDatamover(&initiator_buffers_,
                                                  StreamDatamoverOptions());
  InitiatorSessionOptions session;
  session.login.identity.initiator_name = "iqn.2001-04.com.example:host";
  session.login.identity.target_name = kTarget;
  session.login.offer = options.offer;
  session.login.isid = {0x80, 0, 0, 0, 0, 1};
  initiator_ = std::make_unique<InitiatorSession>(
      session, initiator_mover_.get(), &completions_);
  for (uint32_t i = 0; i < options.queue_depth; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.path = this;
    slot.buffer.assign(options.bytes, static_cast<char>(i));
    slot.iov = {slot.buffer.data(), slot.buffer.size()};
    slot.command.context = &slot;
    slot.command.done = [](scsi::Command* command) {
      auto* done = static_cast<Slot*>(command->context);
      ++done->path->finished_;
      if (command->outcome == scsi::Command::Outcome::kCompleted &&
          command->status == 0) {
        return;
      }
      done->path->failure_ =
          absl::StrCat("status ", command->status, ", outcome ",
                       static_cast<int>(command->outcome));
    };
  }
  LogIn();
}

CommandPath::~CommandPath() {
  if (initiator_ != nullptr) {
    initiator_->Terminate(absl::CancelledError("the end"));
  }
  if (target_ == nullptr) return;
  target_->Terminate();
  while (!ended_) {
    target_->RunDeferred();
    reactor_->Poll();
  }
}

LoginStatus CommandPath::Admit(const LoginRequestPdu&, LoginIdentity*,
                               Offer* offer, std::string*) {
  *offer = options_.offer;
  return LoginStatus::kSuccess;
}

LoginStatus CommandPath::Establish(const LoginRequestPdu&, const LoginIdentity&,
                                   const Parameters&, uint16_t* tsih) {
  *tsih = 1;
  return LoginStatus::kSuccess;
}

void CommandPath::LogIn() {
  initiator_->Start(now_);
  while (initiator_->state() == InitiatorSession::State::kLogin &&
         initiator_mover_->has_output()) {
    Exchange();
  }
  if (initiator_->state() != InitiatorSession::State::kFullFeature) {
    failure_ = std::string(initiator_->failure().message());
    return;
  }
  // The unit attention that greets a new nexus.
  Slot& slot = slots_.front();
  SetCdb(scsi::cdb::TestUnitReady(), &slot.command);
  initiator_->Issue(&slot.command, now_);
  Exchange();
  completions_.Run();
  failure_.clear();
}

// Charges the time since the last mark.
void CommandPath::Charge(std::chrono::nanoseconds* whom) {
  const auto now = std::chrono::steady_clock::now();
  *whom += now - mark_;
  mark_ = now;
}

// Carries what `from` has to send, as far as one receive goes. False if there
// was nothing.
bool CommandPath::Carry(StreamDatamover* from, StreamDatamover* to,
                        std::chrono::nanoseconds* sender,
                        std::chrono::nanoseconds* receiver) {
  absl::Span<const iovec> source = from->SendSpans();
  Charge(sender);
  if (source.empty()) return false;
  const absl::Span<const iovec> sink = to->ReceiveSpans();
  Charge(receiver);
  size_t moved = 0;
  size_t at = 0;
  for (const iovec& into : sink) {
    size_t filled = 0;
    while (filled < into.iov_len && !source.empty()) {
      const size_t n =
          std::min(into.iov_len - filled, source.front().iov_len - at);
      std::memcpy(static_cast<char*>(into.iov_base) + filled,
                  static_cast<const char*>(source.front().iov_base) + at, n);
      filled += n;
      at += n;
      moved += n;
      if (at < source.front().iov_len) continue;
      source.remove_prefix(1);
      at = 0;
    }
  }
  Charge(&times_.network);
  from->BytesSent(moved);
  Charge(sender);
  to->BytesReceived(moved);
  Charge(receiver);
  return true;
}

void CommandPath::Exchange() {
  bool moved = true;
  mark_ = std::chrono::steady_clock::now();
  while (moved) {
    moved = Carry(initiator_mover_.get(), target_mover_.get(),
                  &times_.initiator, &times_.target);
    // What waited for its send queue to drain goes on in here.
    target_mover_->ReceiveSpans();
    target_->RunDeferred();
    Charge(&times_.target);
    moved |= Carry(target_mover_.get(), initiator_mover_.get(), &times_.target,
                   &times_.initiator);
    initiator_->Advance(now_, now_);
    Charge(&times_.initiator);
  }
}

bool CommandPath::RunBatch(bool write) {
  finished_ = 0;
  mark_ = std::chrono::steady_clock::now();
  uint64_t lba = 0;
  for (Slot& slot : slots_) {
    scsi::Command& command = slot.command;
    const uint32_t blocks = options_.bytes / kBlock;
    SetCdb(write ? scsi::cdb::Write(lba, blocks) : scsi::cdb::Read(lba, blocks),
           &command);
    lba += blocks;
    command.data_out = write ? &slot.iov : nullptr;
    command.data_out_count = write ? 1 : 0;
    command.data_out_length = write ? options_.bytes : 0;
    command.data_in = write ? nullptr : &slot.iov;
    command.data_in_count = write ? 0 : 1;
    command.data_in_length = write ? 0 : options_.bytes;
    if (!initiator_->CanIssue()) {
      failure_ = "the window is closed";
      return false;
    }
    initiator_->Issue(&command, now_);
  }
  Charge(&times_.initiator);
  Exchange();
  completions_.Run();
  Charge(&times_.initiator);
  // Whatever the logical unit puts off to a later turn.
  for (int i = 0; i < 100 && finished_ < options_.queue_depth; ++i) {
    reactor_->Poll();
    target_->RunDeferred();
    Exchange();
    completions_.Run();
  }
  if (finished_ != options_.queue_depth && failure_.empty()) {
    failure_ = "not every command ended";
  }
  return failure_.empty();
}

}  // namespace skiff::protocol
