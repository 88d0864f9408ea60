#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_DATAMOVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/datamover/stream/send_queue.h"
#include "protocol/datamover/stream/stream_counters.h"
#include "protocol/datamover/stream/stream_datamover.h"
#include "protocol/datamover/stream/stream_receiver.h"

namespace skiff::protocol {

// The initiator's half of the iSCSI data model: commands go out with immediate
// and unsolicited data, R2T is answered with Data-Out, Data-In lands in the
// command's own memory.
//
// Data-Out PDUs are made only when the stream is about to take them, one per
// task in turn, and never more than the quantum at once: a small command does
// not wait behind the rest of a big write.
//
// It never stops receiving: a target that is itself stopped by what it has to
// send would wait for us, and we for it.
class StreamInitiatorDatamover final
    : public StreamDatamoverOf<InitiatorDatamover>,
      private StreamReceiver::Handler,
      private SendQueue::Listener {
 public:
  // What may be offered as MaxOutstandingR2T.
  static constexpr uint32_t kMaxOutstandingR2t = 16;

  StreamInitiatorDatamover(StreamBuffers* buffers,
                           const StreamDatamoverOptions& options);

  // InitiatorDatamover:
  void SetClient(InitiatorDatamoverClient* client, uint32_t max_tasks) override;
  void EnableDatamover(const Parameters& parameters) override;
  void SendControl(const uint8_t* bhs, absl::Span<const uint8_t> data) override;
  absl::Status SendCommand(const OutgoingCommand& command) override;
  Progress DeallocateTaskResources(TaskSlot slot) override;
  void ConnectionTerminate() override;
  ConnectionCounters counters() const override {
    return StreamCounters(receiver_, send_queue_, copied_bytes_);
  }
  bool congested() const override {
    return send_queue_.exceeds(options_.memory.max_send_queue_bytes);
  }

  // StreamDatamover:
  absl::Span<const iovec> ReceiveSpans() override { return receiver_.Spans(); }
  void BytesReceived(size_t n) override { receiver_.BytesReceived(n); }
  absl::Span<const iovec> SendSpans() override;
  void BytesSent(size_t n) override { send_queue_.BytesSent(n); }
  bool has_output() const override {
    return (!send_queue_.empty() || sending_head_ != kNoTask) &&
           !send_queue_.out_of_memory();
  }
  bool mid_pdu() const override { return receiver_.mid_pdu(); }

 private:
  // Data that may go out for a task: unsolicited, or what one R2T asked for.
  struct Sequence {
    uint32_t target_transfer_tag;
    uint32_t offset;  // Of the next PDU.
    uint32_t end;
    uint32_t data_sn;
  };
  // The unsolicited one does not count as outstanding R2T.
  static constexpr uint32_t kMaxSequences = kMaxOutstandingR2t + 1;

  // A place in a list of iovecs, so that going on does not start over.
  struct Cursor {
    const iovec* iov = nullptr;
    int count = 0;
    size_t begin = 0;  // Offset in the whole buffer at which `iov` begins.

    void Reset(const iovec* list, int entries) {
      iov = list;
      count = entries;
      begin = 0;
    }
    void Seek(const iovec* list, int entries, size_t offset);
  };

  struct Task {
    uint32_t initiator_task_tag = kReservedTag;
    Lun lun = 0;
    bool live = false;
    bool command_sent = false;  // To the last byte of its immediate data.
    bool sending = false;       // In the list of those with sequences to send.
    uint32_t references = 0;  // PDUs of the send queue with this task's memory.

    // Data-In.
    const iovec* data_in = nullptr;
    int data_in_count = 0;
    uint32_t data_in_length = 0;
    uint32_t received = 0;
    uint32_t data_sn = 0;  // The next DataSN.
    Cursor in;

    // Data-Out.
    const iovec* data_out = nullptr;
    int data_out_count = 0;
    uint32_t data_out_length = 0;
    uint32_t r2t_sn = 0;  // The next R2TSN.
    uint32_t outstanding_r2ts = 0;
    uint32_t data_out_asked = 0;     // Up to here, or sent unasked.
    uint64_t data_out_sent = 0;      // Bytes that have left.
    uint64_t data_out_repeated = 0;  // Bytes that were asked for once more.
    Cursor out;
    TaskSlot next_sending = kNoTask;
    uint32_t sequence_head = 0;
    uint32_t sequence_count = 0;
    std::array<Sequence, kMaxSequences> sequences;
  };

  // The Data-In PDU that is being received.
  struct Incoming {
    TaskSlot task = kNoTask;  // kNoTask: nothing to do at its end.
    bool duplicate = false;
    ScsiDataInPdu pdu;
  };

  void SayOutOfMemory();

  // StreamReceiver::Handler:
  void OnPdu(const StreamReceiver::Pdu& pdu, absl::Span<const uint8_t> data,
             StreamReceiver::DigestError error) override;
  StreamReceiver::Sink OnPduStart(const StreamReceiver::Pdu& pdu) override;
  void OnPlaced(const StreamReceiver::Pdu& pdu,
                StreamReceiver::DigestError error) override;
  void OnFramingError(const std::string& why) override;
  // SendQueue::Listener:
  void OnSent(TaskSlot slot, SendQueue::Notice notice, uint32_t bytes,
              bool sent) override;

  TaskSlot Find(uint32_t tag) const;
  // The target can know of the command: its header has left, though perhaps
  // not all of its immediate data.
  bool Known(TaskSlot slot) const {
    return tasks_[slot].command_sent || send_queue_.HeaderSent(slot);
  }
  void Refuse(const uint8_t* bhs, const char* why);
  bool BeginDataIn(const StreamReceiver::Pdu& pdu);
  void FinishDataIn(uint32_t length);
  void OnResponse(const StreamReceiver::Pdu& pdu,
                  absl::Span<const uint8_t> data);
  void Respond(TaskSlot slot, ScsiResponsePdu* response,
               absl::Span<const uint8_t> data);
  void OnR2t(const StreamReceiver::Pdu& pdu);
  const char* CheckR2t(TaskSlot slot, const R2tPdu& r2t) const;
  void NoteAsked(const R2tPdu& r2t, Task* task) const;
  static uint32_t Unwritten(const Task& task);
  uint32_t* NextR2tSn(Task* task);
  void Begin(const OutgoingCommand& command, Task* task);
  void PushSequence(TaskSlot slot, const Sequence& sequence);
  void SendDataOut(TaskSlot slot);
  void StopSending(TaskSlot slot);

  const StreamDatamoverOptions options_;
  InitiatorDatamoverClient* client_ = nullptr;
  StreamReceiver receiver_;
  SendQueue send_queue_;
  uint64_t copied_bytes_ = 0;  // Here, besides those two.
  Parameters parameters_;
  bool enabled_ = false;
  bool terminated_ = false;
  bool said_out_of_memory_ = false;
  std::vector<Task> tasks_;
  Incoming incoming_;
  TaskSlot sending_head_ = kNoTask;
  TaskSlot sending_tail_ = kNoTask;
  size_t data_out_queued_ = 0;  // Data-Out payload in the send queue.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_INITIATOR_DATAMOVER_H_
