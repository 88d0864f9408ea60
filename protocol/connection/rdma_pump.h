#ifndef SKIFF_PROTOCOL_CONNECTION_RDMA_PUMP_H_
#define SKIFF_PROTOCOL_CONNECTION_RDMA_PUMP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "transport/reactor/newcomers.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::protocol {

class RdmaPump;

// What an endpoint's on_disconnect and the pump, which comes later, share.
struct RdmaLink {
  bool ended = false;
  RdmaPump* pump = nullptr;

  inline void OnDisconnect();
};

struct RdmaPumpOptions {
  // Most completions handled in one turn of the reactor before other
  // connections have theirs.
  int completions_per_turn = 256;
};

// Moves completions between the completion queue of an endpoint, which is its
// alone, and an IserDatamover that has the endpoint, both roles. A reactor that
// sleeps is woken by the queue's descriptor. One that spins before it does
// polls for as long once nothing is asked for or completes here: arming the
// queue and being woken takes up to three system calls. So it does as long as
// the queue keeps awake.
//
// As in a StreamPump, what it may do in a turn is a matter of time, too. Beside
// others who keep the reactor awake it looks in each turn, as being woken by
// the queue's descriptor takes a turn more, of which such others make long
// ones.
//
// CloseWhenSent() ends the connection once the peer has what was sent.
class RdmaPump final : public ConnectionPump,
                       private IserDatamover::EndpointObserver,
                       private transport::FdHandler,
                       private transport::TurnHook,
                       private transport::Newcomers::Work,
                       private transport::Poller {
 public:
  // `datamover`, which is connected, and `client` are not owned and outlive the
  // pump.
  RdmaPump(transport::Reactor* reactor, IserDatamover* datamover,
           std::shared_ptr<RdmaLink> link, const RdmaPumpOptions& options,
           PumpClient* client);
  // The endpoint stays with the datamover, whose ConnectionTerminate() ends it.
  ~RdmaPump() override;

  // ConnectionPump:
  void Kick() override;
  void CloseWhenSent() override;
  void StopReceiving() override { datamover_->StopReceiving(); }
  void SetNewcomer(bool newcomer) override { newcomer_ = newcomer; }
  void SetReadThreshold(size_t /*bytes*/) override {}
  bool has_read_threshold() const override { return false; }
  // Also what the device has, and the peer does not.
  bool has_output() const override {
    return !idle_ || datamover_->has_output();
  }
  absl::Time last_receive() const override { return last_receive_; }
  bool send_blocked() const override { return !idle_; }
  absl::Time last_send_progress() const override { return last_send_progress_; }
  uint64_t bytes_received() const override;
  uint64_t bytes_sent() const override;
  size_t unacknowledged() const override { return 0; }

 private:
  enum class Closing : uint8_t { kNo, kSending, kDisconnecting };
  // Along: as long as others keep the reactor awake, the queue being armed.
  enum class Polling : uint8_t { kNo, kAlong, kBusy };

  void BeforeEndpointEnds() override;
  void OnFdReady(uint32_t events) override;
  void OnTurnEnd() override;
  bool RunAsNewcomer() override;
  int Poll() override;

  // The turn's share of time begins, and has ended.
  void BeginShare();
  void EndShare();
  bool OutOfTime() const;
  // The same for one who is not alone: nothing to look at the clock for if he
  // is.
  bool OutOfShare() const { return !grant_.alone && OutOfTime(); }
  // Nothing completed, and yet it was work.
  bool TookLong() const;
  // False if the pump was destroyed meanwhile.
  bool RunPasses();
  void RunPassesUntil(const bool& gone);
  void RunPassesUnlessNoMemory(const bool& gone);
  // As above, for completions alone.
  bool CompleteUnlessNoMemory();
  // Handles what has completed and sends what there is. True if more has
  // completed meanwhile; otherwise the descriptor tells when something does.
  bool Pass(const bool& gone);
  // Returns true if anything completed.
  bool Complete();
  void Send();
  void Schedule();
  int Linger();
  int LookAlong();
  // Before the end of the turn. False if that finds nothing to do.
  bool LookEarly();
  bool MayLinger() const;
  bool MayLookAlong() const;
  void SetPolling(Polling polling);
  void ReportEnded();
  void ReportClosed(absl::Status why);

  transport::Reactor* const reactor_;
  IserDatamover* const datamover_;
  const std::shared_ptr<RdmaLink> link_;
  PumpClient* const client_;
  const RdmaPumpOptions options_;
  transport::CompletionQueue* queue_;  // Null once the endpoint is gone.

  int left_ = 0;            // Completions that this turn may still handle.
  int early_ = 0;           // Those that it handled before its end.
  bool watching_ = false;   // The queue's descriptor.
  bool lingering_ = false;  // Polls for completions and has nothing to do.
  bool more_ = false;       // The queue may have more.
  bool later_ = false;      // The turn after this one goes on.
  bool idle_ = true;        // Nothing is to be sent, or on its way.
  bool kicked_ = false;     // Somebody asked for this turn.
  bool worked_ = false;     // This turn, something was asked for or completed.
  bool in_pass_ = false;
  bool closed_ = false;
  bool no_memory_ = false;  // Ends for the lack of it.
  bool newcomer_ = false;
  Closing closing_ = Closing::kNo;
  Polling polling_ = Polling::kNo;  // Registered as a poller.
  bool* gone_ = nullptr;  // Set while a pass runs: told by the destructor.

  std::array<transport::Completion, 32> completions_;  // Of one look.

  transport::TurnShares::Member member_;
  transport::TurnShares::Grant grant_;  // Of this pass.
  absl::Time pass_began_ = absl::InfinitePast();
  transport::PutOff put_off_;
  transport::Debt debt_;

  absl::Time last_receive_;
  absl::Time last_send_progress_;
  // The first look in vain since something was asked for, or completed.
  absl::Time idle_since_;
};

void RdmaLink::OnDisconnect() {
  ended = true;
  if (pump != nullptr) pump->Kick();
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_RDMA_PUMP_H_
