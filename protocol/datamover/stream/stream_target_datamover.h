#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_DATAMOVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protocol/datamover/data_out.h"
#include "protocol/datamover/stream/send_queue.h"
#include "protocol/datamover/stream/stream_counters.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/datamover/stream/stream_receiver.h"
#include "protocol/datamover/task_chunks.h"

namespace skiff::protocol {

// The target's half of the iSCSI data model: PutData becomes Data-In, GetData
// becomes immediate data, unsolicited Data-Out, and R2T with solicited
// Data-Out. `received` says where a task stands (DataOutState).
class StreamTargetDatamover final : public StreamDatamoverOf<TargetDatamover>,
                                    private StreamReceiver::Handler,
                                    private SendQueue::Listener {
 public:
  StreamTargetDatamover(StreamBuffers* buffers,
                        const StreamDatamoverOptions& options);
  ~StreamTargetDatamover() override;

  // TargetDatamover:
  void SetClient(TargetDatamoverClient* client, uint32_t max_tasks) override;
  void EnableDatamover(const Parameters& parameters) override;
  void SendControl(const uint8_t* bhs, absl::Span<const uint8_t> data) override;
  void PutData(TaskSlot slot, uint32_t offset, absl::Span<const uint8_t> from,
               bool notify) override;
  bool PutDataAndResponse(TaskSlot slot, uint32_t offset,
                          absl::Span<const uint8_t> from,
                          const ScsiResponsePdu& response,
                          absl::Span<const uint8_t> sense) override;
  Progress GetData(TaskSlot slot, uint32_t offset,
                   absl::Span<uint8_t> to) override;
  void CancelTransfers(TaskSlot slot) override;
  Progress DeallocateTaskResources(TaskSlot slot) override;
  void ConnectionTerminate() override;
  ConnectionCounters counters() const override {
    return StreamCounters(receiver_, send_queue_, copied_bytes_);
  }
  bool HoldCommands() override {
    holding_ = true;
    return true;
  }
  bool quiet() const override {
    return !HasTasks() && !receiver_.discarding() && send_queue_.empty();
  }
  absl::StatusOr<std::string> TakeUnread() override;
  bool congested() const override {
    return send_queue_.exceeds(options_.memory.max_send_queue_bytes);
  }

  // StreamDatamover:
  absl::Span<const iovec> ReceiveSpans() override;
  void BytesReceived(size_t n) override;
  absl::Span<const iovec> SendSpans() override {
    if (send_queue_.out_of_memory()) [[unlikely]] {
      SayOutOfMemory();
    }
    return send_queue_.Spans();
  }
  void BytesSent(size_t n) override { send_queue_.BytesSent(n); }
  bool has_output() const override {
    return !send_queue_.empty() && !send_queue_.out_of_memory();
  }
  bool mid_pdu() const override { return receiver_.mid_pdu(); }

 private:
  // One R2T whose data are still arriving.
  struct Burst {
    uint32_t target_transfer_tag;
    uint32_t end;
    uint32_t next_data_sn;
  };
  static constexpr uint32_t kMaxBursts = 16;

  struct Task : DataOutState {
    uint32_t initiator_task_tag = kReservedTag;
    Lun lun = 0;
    bool live = false;
    bool deallocated = false;  // TaskDone is due once `references` is zero.
    uint32_t references = 0;   // PDUs in the send queue that will give notice.

    // Of the next Data-In or R2T PDU: in a bidirectional command they share
    // the numbers (RFC 7143 section 4.2.2.4).
    uint32_t input_sn = 0;

    // Data-In.
    uint32_t burst_used = 0;
    // PutDatas that there was no memory for, and which this is still to be told
    // of. They count as references.
    uint32_t lost_puts = 0;

    // Data-Out.
    uint32_t requested = 0;  // R2Ts were sent up to here.
    uint16_t tag_generation = 0;
    uint32_t burst_head = 0;
    uint32_t burst_count = 0;
    std::array<Burst, kMaxBursts> bursts;
  };

  // The data segment that is being received or handled.
  struct Incoming {
    TaskSlot task = kNoTask;
    uint32_t offset = 0;
    uint32_t length = 0;
    bool direct = false;  // To the place that GetData named; else to staging.
  };

  void SayOutOfMemory();

  // StreamReceiver::Handler:
  void OnPdu(const StreamReceiver::Pdu& pdu, absl::Span<const uint8_t> data,
             StreamReceiver::DigestError error) override;
  StreamReceiver::Sink OnPduStart(const StreamReceiver::Pdu& pdu) override;
  void OnPlaced(const StreamReceiver::Pdu& pdu,
                StreamReceiver::DigestError error) override;
  void OnFramingError(const std::string& why) override;
  bool ReceivePaused() const override { return congested(); }
  // SendQueue::Listener:
  void OnSent(TaskSlot slot, SendQueue::Notice notice, uint32_t bytes,
              bool sent) override;

  // stream_target_held.cc:
  bool HasTasks() const;
  bool AwaitsData() const;
  bool BelongsToTask(const StreamReceiver::Pdu& pdu);
  bool Held(const StreamReceiver::Pdu& pdu) {
    return holding_ && !BelongsToTask(pdu);
  }
  void Hold(const StreamReceiver::Pdu& pdu, absl::Span<const uint8_t> data);

  void HandleControl(const StreamReceiver::Pdu& pdu,
                     absl::Span<const uint8_t> data,
                     StreamReceiver::DigestError error);
  TaskSlot OnCommand(const StreamReceiver::Pdu& pdu,
                     absl::Span<const uint8_t> here);
  bool BeginTask(TaskSlot slot, const StreamReceiver::Pdu& pdu,
                 const CommandLengths& lengths);
  bool MatchDataOut(const StreamReceiver::Pdu& pdu, Incoming* in);
  bool MatchUnsolicited(const ScsiDataOutPdu& data_out, Incoming* in);
  bool MatchSolicited(const StreamReceiver::Pdu& pdu,
                      const ScsiDataOutPdu& data_out, Incoming* in);
  void DataError(TaskSlot slot, const DataFault& fault);
  bool WantsData(TaskSlot slot) {
    return Live(slot) && !At(slot).deallocated && !At(slot).data_failed;
  }
  uint8_t* PlaceOf(Incoming* in);
  void Landed(const Incoming& in);
  void DeliverStaged(TaskSlot slot);
  void RequestMore(TaskSlot slot);
  void SendR2t(TaskSlot slot, Task* task, uint32_t length);
  void CompleteGet(TaskSlot slot, DataOutcome outcome);
  bool MayCopy(size_t bytes);
  void AppendDataIn(TaskSlot slot, uint32_t offset,
                    absl::Span<const uint8_t> from, SendQueue::Notice notice,
                    const ScsiResponsePdu* response);
  void AppendResponse(TaskSlot slot, const ScsiResponsePdu& response,
                      absl::Span<const uint8_t> sense);
  void TellLostPuts(TaskSlot slot);
  void Unreference(TaskSlot slot);

  Task& At(TaskSlot slot) { return tasks_[slot]; }
  bool Live(TaskSlot slot) {
    return slot < max_tasks_ && tasks_.Has(slot) && At(slot).live;
  }

  const StreamDatamoverOptions options_;
  TargetDatamoverClient* client_ = nullptr;
  uint32_t max_tasks_ = 0;
  TaskChunks<Task, 16> tasks_;
  Parameters parameters_;
  bool terminated_ = false;
  bool said_out_of_memory_ = false;
  bool holding_ = false;
  bool held_too_much_ = false;
  std::string held_;  // PDUs, as they came.

  StreamReceiver receiver_;
  SendQueue send_queue_;
  Staging staging_;
  uint64_t copied_bytes_ = 0;  // Here, besides those two.

  Incoming incoming_;  // The data segment that is being received.
  iovec place_ = {};
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_TARGET_DATAMOVER_H_
