#ifndef SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_H_
#define SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/connection/connection_pump.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "transport/byte_stream.h"
#include "transport/reactor/newcomers.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::protocol {

struct StreamPumpOptions {
  // Most bytes moved in one turn of the reactor before other connections have
  // theirs.
  size_t receive_bytes_per_turn = 1u << 20;
  size_t send_bytes_per_turn = 4u << 20;
};

// Moves bytes between a ByteStream and a StreamDatamover, both roles. All
// input and output happens at the end of the reactor's turn: first everything
// that can be received (within the budget), then one send for all that this and
// the rest of the turn queued.
//
// What it may take of a turn is also a matter of time (TurnShares), as a PDU of
// 48 bytes may cost more than a megabyte of data. Where it uses more than its
// part, it comes after the others and does little at once.
//
// CloseWhenSent() discards what still comes, so that what was sent is not lost
// to a reset.
class StreamPump final : public ConnectionPump,
                         private transport::StreamObserver,
                         private transport::TurnHook,
                         private transport::Newcomers::Work,
                         private transport::Poller {
 public:
  // `datamover` and `client` are not owned and outlive the pump.
  StreamPump(transport::Reactor* reactor,
             std::unique_ptr<transport::ByteStream> stream,
             StreamDatamover* datamover, const StreamPumpOptions& options,
             PumpClient* client);
  // Closes the stream at once; the client is not told.
  ~StreamPump() override;

  // ConnectionPump:
  void Kick() override;
  void SetReadThreshold(size_t bytes) override;
  bool has_read_threshold() const override { return true; }
  void CloseWhenSent() override;
  void StopReceiving() override { stopped_ = true; }
  int ReleaseDescriptor(std::string* unread) override;
  void SetNewcomer(bool newcomer) override { newcomer_ = newcomer; }
  bool has_output() const override { return datamover_->has_output(); }
  absl::Time last_receive() const override { return last_receive_; }
  bool send_blocked() const override { return send_blocked_; }
  absl::Time last_send_progress() const override { return last_send_progress_; }
  uint64_t bytes_received() const override { return bytes_received_; }
  uint64_t bytes_sent() const override { return bytes_sent_; }
  size_t unacknowledged() const override { return stream_->unacknowledged(); }

  bool closed() const { return closed_; }
  const transport::ByteStream& stream() const { return *stream_; }

 private:
  enum class Closing : uint8_t { kNo, kSending, kDiscarding };

  void OnReadable() override;
  void OnWritable() override;
  void OnTurnEnd() override;
  bool RunAsNewcomer() override;
  int Poll() override;

  // A pass that begins now. False if the pump was destroyed meanwhile.
  bool RunPass(absl::Time began);
  void Pass(const bool& gone);
  void PassUnlessNoMemory(const bool& gone);
  // Returns true if anything was received.
  bool Receive();
  // As much of what the datamover wants to receive as goes without a look at
  // the clock. `memory`: for the answer.
  using SomeSpans = std::array<iovec, 64>;
  absl::Span<const iovec> SomeOf(absl::Span<const iovec> spans,
                                 SomeSpans* memory) const;
  // Whether the pass has taken the time that it may, after it has moved so many
  // bytes more.
  uint64_t BytesMoved() const {
    return bytes_received_ + bytes_sent_ + bytes_discarded_;
  }
  bool OutOfTime(size_t bytes);
  void Send();
  void Discard();
  void ReadFailed(transport::StreamStatus status);
  void WriteFailed();
  void ContinueNextTurn();
  void SetPolling(bool polling);
  void ReportClosed();

  transport::Reactor* const reactor_;
  std::unique_ptr<transport::ByteStream> stream_;
  StreamDatamover* const datamover_;
  PumpClient* const client_;
  const StreamPumpOptions options_;

  bool readable_ = false;      // Not known to be empty.
  bool send_blocked_ = false;  // Waiting for OnWritable.
  bool send_idle_ = true;      // Nothing waited to be sent.
  bool more_next_turn_ = false;
  bool polling_ = false;  // Registered as a poller.
  bool in_pass_ = false;
  bool failed_ = false;  // `failure_` waits to be reported.
  bool closed_ = false;
  bool newcomer_ = false;
  bool stopped_ = false;  // Receives nothing more.
  Closing closing_ = Closing::kNo;
  absl::Status failure_;
  bool* gone_ = nullptr;  // Set while a pass runs: told by the destructor.

  transport::TurnShares::Member member_;
  transport::TurnShares::Grant grant_;  // Of this pass.
  absl::Time pass_began_ = absl::InfinitePast();
  absl::Time looked_ = absl::InfinitePast();  // At the clock.
  size_t not_looked_ = 0;                     // Bytes moved since then.
  // To be parsed without a look at the clock, by one who is alone.
  size_t lone_bytes_ = transport::TurnShares::kMostBytes;
  transport::PutOff put_off_;
  transport::Debt debt_;

  size_t receive_budget_;
  size_t send_budget_;
  absl::Time turn_ = absl::InfinitePast();  // Whose budgets these are.

  absl::Time last_receive_;
  absl::Time last_send_progress_;
  size_t read_threshold_ = 1;
  uint64_t bytes_received_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_discarded_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_STREAM_PUMP_H_
