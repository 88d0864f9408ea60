#include "bench/protocol/session_pair.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/initiator/cdb.h"

namespace skiff::protocol {
namespace {

constexpr char kTarget[] = "iqn.2001-04.com.example:disk";
constexpr uint32_t kBlock = 512;

}  // namespace

SessionPair::SessionPair(const Options& options)
    : options_(options),
      reactor_(transport::EpollReactor::Create().value()),
      worker_(
          scsi::Worker::Create(reactor_.get(), scsi::WorkerOptions()).value()),
      disk_(scsi::Target::Create(kTarget)),
      memory_(std::make_shared<std::vector<char>>(size_t{options.queue_depth} *
                                                  options.bytes)) {
  scsi::RamBackendOptions ram;
  ram.size_bytes = memory_->size();
  ram.thin = false;  // RDMA devices register it once.
  if (!disk_
           ->AddLogicalUnit(scsi::MakeRamBackend(ram).value(),
                            scsi::LogicalUnitOptions())
           .ok()) {
    failure_ = "no logical unit";
  }
}

SessionPair::~SessionPair() = default;

void SessionPair::Start(Datamover* initiator, Datamover* target) {
  target_mover_ = target;
  target_ = std::make_unique<TargetSession>(
      static_cast<TargetSessionHost*>(this), target, TargetSessionOptions());
  initiator_mover_ = initiator;
  InitiatorSessionOptions session;
  session.login.identity.initiator_name = "iqn.2001-04.com.example:host";
  session.login.identity.target_name = kTarget;
  session.login.offer = options_.offer;
  session.login.isid = {0x80, 0, 0, 0, 0, 1};
  initiator_ =
      std::make_unique<InitiatorSession>(session, initiator, &completions_);
  MakeSlots();
  LogIn();
}

void SessionPair::End() {
  if (initiator_ != nullptr) {
    initiator_->Terminate(absl::CancelledError("the end"));
  }
  if (target_ != nullptr) target_->Terminate();
  while (target_ != nullptr && !ended_) {
    target_->RunDeferred();
    reactor_->Poll();
  }
  initiator_.reset();
  target_.reset();
}

void SessionPair::MakeSlots() {
  for (uint32_t i = 0; i < options_.queue_depth; ++i) {
    const absl::Span<char> data = Data(i);
    Slot& slot = slots_.emplace_back();
    slot.pair = this;
    slot.iov = {data.data(), data.size()};
    slot.command.context = &slot;
    slot.command.done = [](scsi::Command* command) {
      SessionPair* const pair = static_cast<Slot*>(command->context)->pair;
      ++pair->finished_;
      if (command->outcome == scsi::Command::Outcome::kCompleted &&
          command->status == 0) {
        return;
      }
      pair->failure_ = absl::StrCat("status ", command->status, ", outcome ",
                                    static_cast<int>(command->outcome));
    };
  }
}

absl::Span<char> SessionPair::Data(uint32_t command) {
  return absl::MakeSpan(*memory_).subspan(size_t{command} * options_.bytes,
                                          options_.bytes);
}

LoginStatus SessionPair::Admit(const LoginRequestPdu&, LoginIdentity*,
                               Offer* offer, std::string*) {
  *offer = options_.offer;
  return LoginStatus::kSuccess;
}

LoginStatus SessionPair::Establish(const LoginRequestPdu&, const LoginIdentity&,
                                   const Parameters&, uint16_t* tsih) {
  *tsih = 1;
  return LoginStatus::kSuccess;
}

void SessionPair::LogIn() {
  initiator_->Start(now_);
  while (initiator_->state() == InitiatorSession::State::kLogin && Exchange()) {
  }
  if (initiator_->state() != InitiatorSession::State::kFullFeature) {
    failure_ = absl::StrCat("login: ", initiator_->failure().message());
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

void SessionPair::Charge(std::chrono::nanoseconds* whom) {
  const auto now = std::chrono::steady_clock::now();
  *whom += now - mark_;
  mark_ = now;
}

void SessionPair::SetTransfer(bool write, uint64_t lba, Slot* slot) const {
  scsi::Command& command = slot->command;
  const uint32_t blocks = options_.bytes / kBlock;
  SetCdb(write ? scsi::cdb::Write(lba, blocks) : scsi::cdb::Read(lba, blocks),
         &command);
  command.data_out = write ? &slot->iov : nullptr;
  command.data_out_count = write ? 1 : 0;
  command.data_out_length = write ? options_.bytes : 0;
  command.data_in = write ? nullptr : &slot->iov;
  command.data_in_count = write ? 0 : 1;
  command.data_in_length = write ? 0 : options_.bytes;
}

bool SessionPair::RunBatch(bool write) {
  if (!failure_.empty()) return false;
  finished_ = 0;
  StartClock();
  uint64_t lba = 0;
  for (Slot& slot : slots_) {
    SetTransfer(write, lba, &slot);
    lba += options_.bytes / kBlock;
    if (!initiator_->CanIssue()) {
      failure_ = "the window is closed";
      return false;
    }
    initiator_->Issue(&slot.command, now_);
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
