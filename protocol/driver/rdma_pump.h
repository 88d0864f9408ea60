#ifndef SKIFF_PROTOCOL_DRIVER_RDMA_PUMP_H_
#define SKIFF_PROTOCOL_DRIVER_RDMA_PUMP_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/datamover/iser_datamover.h"
#include "protocol/driver/connection_pump.h"
#include "transport/reactor.h"

namespace skiff::protocol {

struct RdmaPumpOptions {
  // Most completions handled in one turn of the reactor before other
  // connections have theirs.
  int completions_per_turn = 256;
};

// Moves completions between the completion queue of an endpoint, which is its
// alone, and an IserDatamover that has the endpoint, both roles. A reactor that
// sleeps is woken by the queue's descriptor; one that spins polls.
class RdmaPump final : public ConnectionPump,
                       private transport::FdHandler,
                       private transport::TurnHook,
                       private transport::Poller {
 public:
  // `datamover`, which is connected, and `client` are not owned and outlive the
  // pump.
  RdmaPump(transport::Reactor* reactor, IserDatamover* datamover,
           const RdmaPumpOptions& options, PumpClient* client);
  // The endpoint stays with the datamover, whose ConnectionTerminate() ends it.
  ~RdmaPump() override;

  // The endpoint's on_disconnect ran: the connection has ended.
  void Disconnected();

  // ConnectionPump:
  void Kick() override;
  void CloseWhenSent() override;
  void SetReadThreshold(size_t /*bytes*/) override {}
  bool has_output() const override { return datamover_->has_output(); }
  absl::Time last_receive() const override { return last_receive_; }
  bool send_blocked() const override;
  absl::Time last_send_progress() const override { return last_send_progress_; }
  uint64_t bytes_received() const override;
  uint64_t bytes_sent() const override;

 private:
  enum class Closing : uint8_t { kNo, kSending, kWaiting };

  void OnFdReady(uint32_t events) override;
  void OnTurnEnd() override;
  int Poll() override;

  // Returns true if anything completed.
  bool Complete();
  void Send();
  void Sleep();
  void ContinueNextTurn();
  void SetPolling(bool polling);
  void Watch(bool watch);
  void ReportClosed(absl::Status why);

  transport::Reactor* const reactor_;
  IserDatamover* const datamover_;
  PumpClient* const client_;
  const RdmaPumpOptions options_;

  int fd_ = -1;  // Of the completion queue.
  bool watching_ = false;
  bool armed_ = false;
  bool polling_ = false;  // Registered as a poller.
  bool more_next_turn_ = false;
  bool in_pass_ = false;
  bool disconnected_ = false;
  bool closed_ = false;
  Closing closing_ = Closing::kNo;
  bool* gone_ = nullptr;  // Set while a pass runs: told by the destructor.

  absl::Time last_receive_;
  absl::Time last_send_progress_;
  uint64_t messages_received_ = 0;  // As of the last look.
  uint64_t completed_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DRIVER_RDMA_PUMP_H_
