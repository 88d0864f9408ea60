#ifndef SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_
#define SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_

#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "protocol/datamover/datamover.h"
#include "protocol/session/completion_queue.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/target_session.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"
#include "transport/epoll_reactor.h"

namespace skiff::protocol {

// An initiator's session and a target's with a RAM disk, in one thread. Their
// datamovers, and what is between these, are a subclass's.
class SessionPair : private TargetSessionHost {
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

  // Runs `queue_depth` commands to their end. False if one failed.
  bool RunBatch(bool write);
  // The data of the command of this number in each batch: what a write takes,
  // and where a read puts it. They are the same blocks in every batch.
  absl::Span<char> Data(uint32_t command);

  const Times& times() const { return times_; }
  const Options& options() const { return options_; }
  const Parameters& parameters() const { return initiator_->parameters(); }
  ConnectionCounters initiator_counters() const {
    return initiator_mover_->counters();
  }
  ConnectionCounters target_counters() const {
    return target_mover_->counters();
  }
  const std::string& failure() const { return failure_; }

 protected:
  explicit SessionPair(const Options& options);
  ~SessionPair() override;

  // Makes the sessions, and logs in. The datamovers live until End(), which a
  // subclass calls in its destructor.
  void Start(Datamover* initiator, Datamover* target);
  void End();

  // Carries what the datamovers have for one another, until there is nothing
  // more, and charges the time. False if there was nothing at all.
  virtual bool Exchange() = 0;
  // What sessions do in each turn.
  void RunTarget() { target_->RunDeferred(); }
  void RunInitiator() { initiator_->Advance(now_, now_); }
  // The clock starts; what it showed since then, or since the last call, is
  // this side's.
  void StartClock() { mark_ = std::chrono::steady_clock::now(); }
  void Charge(std::chrono::nanoseconds* whom);

  void Fail(std::string why) { failure_ = std::move(why); }
  scsi::Target* disk() const { return disk_.get(); }
  // All of Data().
  const std::shared_ptr<std::vector<char>>& memory() const { return memory_; }
  Times times_;

 private:
  struct Slot {
    SessionPair* pair;
    scsi::Command command;
    iovec iov;
  };

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
  void Log(bool, absl::string_view) override {}

  void MakeSlots();
  void LogIn();
  void SetTransfer(bool write, uint64_t lba, Slot* slot) const;

  const Options options_;
  const absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<scsi::Worker> worker_;
  std::shared_ptr<scsi::Target> disk_;
  const std::shared_ptr<std::vector<char>> memory_;
  Datamover* target_mover_ = nullptr;
  std::unique_ptr<TargetSession> target_;
  CompletionQueue completions_;
  Datamover* initiator_mover_ = nullptr;
  std::unique_ptr<InitiatorSession> initiator_;

  std::deque<Slot> slots_;
  uint32_t finished_ = 0;
  bool ended_ = false;
  std::string failure_;
  std::chrono::steady_clock::time_point mark_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_SESSION_PAIR_H_
