#include "bench/protocol/session_pair.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

SessionPair::SessionPair(const Options& options)
    : options_(options),
      reactor_(transport::EpollReactor::Create().value()),
      worker_(
          scsi::Worker::Create(reactor_.get(), scsi::WorkerOptions()).value()),
      disk_(MakeDisk(uint64_t{options.queue_depth} * options.bytes)),
      batch_(options.queue_depth, options.bytes) {}

SessionPair::~SessionPair() = default;

void SessionPair::Start(InitiatorDatamover* initiator,
                        TargetDatamover* target) {
  target_mover_ = target;
  target_ = std::make_unique<TargetSession>(
      static_cast<TargetSessionHost*>(this), target, TargetSessionOptions());
  initiator_mover_ = initiator;
  InitiatorSessionOptions session;
  session.login.identity.initiator_name = kHostName;
  session.login.identity.target_name = kDiskName;
  session.login.offer = options_.offer;
  session.login.isid = {0x80, 0, 0, 0, 0, 1};
  initiator_ =
      std::make_unique<InitiatorSession>(session, initiator, &completions_);
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
  batch_.PrepareGreeting();
  initiator_->Issue(batch_.command(0), now_);
  Exchange();
  completions_.Run();
}

void SessionPair::Charge(std::chrono::nanoseconds* whom) {
  const auto now = std::chrono::steady_clock::now();
  *whom += now - mark_;
  mark_ = now;
}

bool SessionPair::RunBatch(bool write) {
  if (!failure_.empty()) return false;
  StartClock();
  batch_.Prepare(write);
  for (uint32_t i = 0; i < batch_.depth(); ++i) {
    if (!initiator_->CanIssue()) {
      failure_ = "the window is closed";
      return false;
    }
    initiator_->Issue(batch_.command(i), now_);
  }
  Charge(&times_.initiator);
  Exchange();
  completions_.Run();
  Charge(&times_.initiator);
  // Whatever the logical unit puts off to a later turn.
  for (int i = 0; i < 100 && !batch_.done(); ++i) {
    reactor_->Poll();
    target_->RunDeferred();
    Exchange();
    completions_.Run();
  }
  if (failure_.empty()) {
    failure_ = batch_.done() ? batch_.failure() : "not every command ended";
  }
  return failure_.empty();
}

}  // namespace skiff::protocol
