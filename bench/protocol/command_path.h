#ifndef SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_
#define SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "protocol/datamover/stream_datamover.h"
#include "protocol/session/completion_queue.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/target_session.h"
#include "scsi/initiator/command.h"
#include "scsi/target/target.h"
#include "transport/epoll_reactor.h"

namespace skiff::protocol {

// The whole path of a command without sockets: an initiator's session and
// datamover, a target's with a RAM disk, and memcpy for a network.
class CommandPath final : private TargetSessionHost {
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

  explicit CommandPath(const Options& options);
  ~CommandPath() override;

  // Runs `queue_depth` commands to their end. False if one failed.
  bool RunBatch(bool write);
  const Times& times() const { return times_; }
  const Parameters& parameters() const { return initiator_->parameters(); }
  const std::string& failure() const { return failure_; }

 private:
  struct Slot {
    CommandPath* path;
    scsi::Command command;
    std::string buffer;
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

  void LogIn();
  void Exchange();
  bool Carry(StreamDatamover* from, StreamDatamover* to,
             std::chrono::nanoseconds* sender,
             std::chrono::nanoseconds* receiver);
  void Charge(std::chrono::nanoseconds* whom);

  const Options options_;
  const absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<scsi::Worker> worker_;
  std::shared_ptr<scsi::Target> disk_;
  StreamBuffers initiator_buffers_;
  StreamBuffers target_buffers_;
  std::unique_ptr<StreamDatamover> target_mover_;
  std::unique_ptr<TargetSession> target_;
  CompletionQueue completions_;
  std::unique_ptr<StreamDatamover> initiator_mover_;
  std::unique_ptr<InitiatorSession> initiator_;

  std::deque<Slot> slots_;
  uint32_t finished_ = 0;
  bool ended_ = false;
  std::string failure_;
  Times times_;
  std::chrono::steady_clock::time_point mark_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_BENCH_PROTOCOL_COMMAND_PATH_H_
