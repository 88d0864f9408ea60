#ifndef SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_
#define SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/protocol/command_batch.h"
#include "protocol/datamover/initiator_datamover.h"
#include "protocol/datamover/target_datamover.h"
#include "protocol/session/callback_queue.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/target_session.h"
#include "scsi/target/target.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::protocol {

// An initiator's session and a target's with a RAM disk, in one thread. Their
// datamovers, and what is between these, are a subclass's.
class SessionPair : public CommandRunner, private TargetSessionHost {
 public:
  struct Options {
    uint32_t queue_depth = 32;
    uint32_t bytes = 4096;  // Of each command.
    Offer offer;
  };
  // How long each side worked. What the "network" copies is neither's.
  struct Times {
    std::chrono::nanoseconds initiator{0};
    std::chrono::nanoseconds target{0};
    std::chrono::nanoseconds network{0};
  };

  ~SessionPair() override;

  // CommandRunner:
  bool RunBatch(bool write) override;
  CommandBatch& batch() override { return batch_; }
  ConnectionCounters InitiatorCounters() override {
    return initiator_mover_->counters();
  }
  ConnectionCounters TargetCounters() override {
    return target_mover_->counters();
  }
  const std::string& failure() const override { return failure_; }

  const Times& times() const { return times_; }
  const Parameters& parameters() const { return initiator_->parameters(); }

 protected:
  explicit SessionPair(const Options& options);

  // Makes the sessions, and logs in. The datamovers live until End(), which a
  // subclass calls in its destructor.
  void Start(InitiatorDatamover* initiator, TargetDatamover* target);
  void End();

  // Carries what the datamovers have for one another, until there is nothing
  // more, and charges the time. False if there was nothing at all.
  virtual bool Exchange() = 0;
  // What sessions do in each turn.
  void RunTarget() { target_->RunDeferred(); }
  void RunInitiator() { initiator_->Advance(now_, now_); }
  // Charge() adds the time since the last of these calls to what `whom` took.
  void StartClock() { mark_ = std::chrono::steady_clock::now(); }
  void Charge(std::chrono::nanoseconds* whom);

  void Fail(std::string why) { failure_ = std::move(why); }
  scsi::Target* disk() const { return disk_.get(); }
  Times times_;

 private:
  // TargetSessionHost:
  LoginStatus Admit(const LoginRequestPdu&, LoginIdentity*, Offer* offer,
                    std::string*) override;
  std::vector<std::string> AuthMethods(const LoginIdentity&) override {
    return {"None"};
  }
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity&,
                                          absl::string_view) override {
    return nullptr;
  }
  LoginStatus Establish(const LoginRequestPdu&, const LoginIdentity&,
                        const Parameters&, uint16_t* tsih) override;
  std::shared_ptr<scsi::Target> FindTarget(const std::string&) override {
    return disk_;
  }
  scsi::Worker* worker() override { return worker_.get(); }
  bool MustWaitForReinstatement() override { return false; }
  std::vector<DiscoveredTarget> Discover(const LoginIdentity&,
                                         absl::string_view) override {
    return {};
  }
  void Wake() override {}
  void CloseConnection(const absl::Status& why, bool) override {
    failure_ = std::string(why.message());
  }
  void SessionEnded() override { ended_ = true; }
  absl::Time Now() override { return now_; }
  void OnWarning(LogLine, const transport::LogSite&) override {}

  void LogIn();

  const Options options_;
  const absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<scsi::Worker> worker_;
  std::shared_ptr<scsi::Target> disk_;
  CommandBatch batch_;
  TargetDatamover* target_mover_ = nullptr;
  std::unique_ptr<TargetSession> target_;
  CallbackQueue completions_;
  InitiatorDatamover* initiator_mover_ = nullptr;
  std::unique_ptr<InitiatorSession> initiator_;

  bool ended_ = false;
  std::string failure_;
  std::chrono::steady_clock::time_point mark_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_
