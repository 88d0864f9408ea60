#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_HARNESS_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "protocol/codec/wire_test_util.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/session/target_session.h"
#include "scsi/target/target.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::protocol {

// A whole target connection without a network, for tests and fuzzing: bytes in,
// bytes out, with a real SCSI target (LUN 0 is a RAM disk) behind it.
class TargetSessionHarness final : private TargetSessionHost {
 public:
  static constexpr char kTargetName[] = "iqn.2026-11.org.example:disk";
  static constexpr char kInitiatorName[] = "iqn.2026-11.org.example:host";
  static constexpr uint64_t kDiskBytes = 1 << 20;

  struct Options {
    TargetSessionOptions session;
    StreamDatamoverOptions datamover;
    Offer offer;
    MemoryBudget* budget = nullptr;
    std::shared_ptr<scsi::Backend> backend;      // Null: memory of kDiskBytes.
    std::shared_ptr<scsi::AccessPolicy> access;  // Null: all is allowed.
    absl::Duration data_patience = scsi::WorkerOptions().data_patience;
  };
  explicit TargetSessionHarness(const Options& options);
  ~TargetSessionHarness() override;

  // What arrives, in reads of at most `step` bytes. Ignored once closed.
  void Receive(absl::string_view bytes, size_t step = ~size_t{0});
  // What was sent since the last call. At most `limit` bytes leave.
  std::string TakeBytes(size_t limit = ~size_t{0});
  // The same as PDUs (sessions without digests only).
  std::vector<WirePdu> TakePdus();
  // Runs what was posted and deferred.
  void Settle();

  // Logs in with these operational keys ("A=1|B=2|"), in one exchange;
  // `discovery` or to the target. Returns whether full feature phase was
  // reached.
  bool Login(absl::string_view keys = "", bool discovery = false);
  static std::string LoginRequest(absl::string_view keys, bool discovery);

  TargetSession* session() { return session_.get(); }
  scsi::Target* target() { return target_.get(); }
  bool closed() const { return closed_; }
  const std::string& close_reason() const { return close_reason_; }
  const std::vector<std::string>& log() const { return log_; }
  // For other nexuses of the target.
  scsi::Worker* worker() override { return worker_.get(); }
  void set_now(absl::Time now) { now_ = now; }
  // What comes of using the target's memory, and how often it was.
  void set_memory_use(const absl::Status& use) { memory_use_ = use; }
  int memory_uses() const { return memory_uses_; }

 private:
  LoginStatus Admit(const LoginRequestPdu& first, LoginIdentity* identity,
                    Offer* offer, std::string* target_address) override;
  std::vector<std::string> AuthMethods(const LoginIdentity&) override {
    return {"None"};
  }
  std::unique_ptr<AuthExchange> StartAuth(const LoginIdentity&,
                                          absl::string_view) override {
    return nullptr;
  }
  LoginStatus Establish(const LoginRequestPdu& last,
                        const LoginIdentity& identity,
                        const Parameters& parameters, uint16_t* tsih) override;
  std::shared_ptr<scsi::Target> FindTarget(const std::string& name) override;
  absl::Status UseMemoryOf(const scsi::Target& /*target*/) override {
    ++memory_uses_;
    return memory_use_;
  }
  bool MustWaitForReinstatement() override { return false; }
  std::vector<DiscoveredTarget> Discover(const LoginIdentity& identity,
                                         absl::string_view what) override;
  void Wake() override {}
  void CloseConnection(const absl::Status& why, bool after_sending) override;
  void SessionEnded() override { ended_ = true; }
  absl::Time Now() override { return now_; }
  MemoryBudget* budget() override { return budget_; }
  void OnWarning(LogLine line, const transport::LogSite& site) override;

  const Offer offer_;
  MemoryBudget* const budget_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Status memory_use_;
  int memory_uses_ = 0;
  bool closed_ = false;
  bool ended_ = false;
  std::string close_reason_;
  std::vector<std::string> log_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<scsi::Worker> worker_;
  std::shared_ptr<scsi::Target> target_;
  StreamBuffers buffers_{64 * 1024};
  std::unique_ptr<StreamDatamoverOf<TargetDatamover>> datamover_;
  std::unique_ptr<TargetSession> session_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_HARNESS_H_
