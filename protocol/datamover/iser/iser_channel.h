#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_CHANNEL_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_CHANNEL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protocol/codec/iser_header.h"
#include "protocol/datamover/datamover.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "protocol/datamover/iser/iser_memory.h"
#include "protocol/datamover/iser/iser_operation.h"
#include "protocol/datamover/iser/iser_trace.h"
#include "protocol/negotiation/parameters.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {

// A PDU to be sent. Everything but `payload` is copied by the call.
struct IserOutgoing {
  IserControlHeader header;
  // Its lengths are corrected. Not looked at where the PDU is an argument.
  const uint8_t* bhs = nullptr;
  absl::Span<const uint8_t> ahs;
  absl::Span<const uint8_t> data;
  // More of the data segment, a part of this list.
  const iovec* copied = nullptr;
  size_t copied_offset = 0;
  size_t copied_length = 0;
  // The rest of it, gathered from registered memory that stays until
  // the operation has ended.
  absl::Span<const transport::Sge> payload;
  // The peer's key that the message takes out of use.
  bool invalidates = false;
  uint32_t invalidated_stag = 0;
  // Keys of binds that were queued before, known when they are posted.
  const transport::MemoryWindow* write_window = nullptr;
  const transport::MemoryWindow* read_window = nullptr;
  bool* posted = nullptr;   // Becomes true when the device has it.
  TaskSlot task = kNoTask;  // Told of the end.
};

// The messages and operations of one iSER connection, either role: encodes and
// decodes messages, keeps receives posted, and queues what the device has no
// room for. Messages, writes and binds leave in the order of the calls, reads
// on their own, as the read depth allows.
//
// Nothing is posted but by Flush(), and receives.
class IserChannel {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // A message that was understood; valid during the call. `invalidated`: it
    // took this key of ours out of use.
    virtual void OnMessage(const IserMessage& message,
                           const transport::RemoteKey* invalidated) = 0;
    // One that was not: the connection is of no more use.
    virtual void OnBadMessage(const absl::Status& why) = 0;
    // An operation of a task has ended; exactly once for each. From inside
    // OnCompletion(), Drop() and Terminate().
    virtual void OnDone(TaskSlot task, IserWork work, bool ok) = 0;
    // An operation failed, and with it the connection. At most once.
    virtual void OnBroken(const absl::Status& why) = 0;
    // Of a connection that is traced: how the initiator calls the task, and
    // the time to tell what came before this message unseen.
    virtual uint32_t TagOf(TaskSlot task) const = 0;
    virtual void BeforeTraced(const IserMessage& /*message*/,
                              IserTrace* /*trace*/) {}
  };
  // Before the endpoint of a connection that ends is destroyed.
  using EndpointObserver = IserDatamover::EndpointObserver;

  static constexpr size_t kMaxPayloadPieces = IserOperation::kMaxPieces - 1;

  IserChannel(IserMemory* memory, const IserDatamoverOptions& options,
              Handler* handler);
  ~IserChannel();
  IserChannel(const IserChannel&) = delete;
  IserChannel& operator=(const IserChannel&) = delete;

  // Sets buffers apart for so many receives, and for messages: of those that
  // are longer than a small buffer no more than `sends` have one, and the rest
  // waits for theirs. Without it, there is no bound but that of all.
  absl::Status Reserve(uint32_t receives, uint32_t sends);
  // Sets them apart for a Reserve() that comes when other channels are gone,
  // whose buffers these may be: so many of this channel's memory.
  absl::Status ReserveAfter(uint32_t receives, uint32_t sends, size_t leaving) {
    return share_.Grow(receives + sends, leaving);
  }
  size_t BuffersOf(const IserMemory* memory) const {
    return memory == memory_ ? share_.buffers() : 0;
  }
  absl::Status Prepare(transport::RdmaEndpoint* endpoint, uint32_t receives);
  void Connected(std::unique_ptr<transport::RdmaEndpoint> endpoint);
  transport::RdmaEndpoint* endpoint() const { return endpoint_.get(); }
  void set_observer(EndpointObserver* observer) { observer_ = observer; }
  void SetTrace(std::unique_ptr<IserTrace> trace) { trace_ = std::move(trace); }
  // So many reads may be posted at once, if the device allows for more.
  void LimitReads(uint32_t limit) { max_posted_reads_ = limit; }
  // PDUs that come may have so many bytes of data, as `key` says. Until it is
  // called, what login allows.
  void LimitData(const char* key, uint32_t bytes) {
    data_limit_key_ = key;
    data_limit_ = bytes;
  }
  // Posts receives until there are so many.
  absl::Status PostReceives(uint32_t count);

  // False if the connection is of no more use; the task is told nothing then.
  bool Send(const IserOutgoing& message);
  // As above, of a struct of protocol/codec/pdu.h, which is encoded where it
  // leaves from.
  template <typename Pdu>
  bool Send(const Pdu& pdu, const IserOutgoing& message) {
    const Draft draft = Begin(message);
    if (draft.bhs == nullptr) return false;
    Encode(pdu, draft.bhs);
    EncodeLengths(draft.bhs, message.ahs.size(), draft.data_size);
    return true;
  }
  // The whole message is the header.
  void SendHello(const IserHello& hello);
  void SendHelloReply(const IserHelloReply& reply);
  // A SCSI Response without data, as most are: nothing but headers. The key, if
  // there is one, is the peer's that the message takes out of use.
  bool SendResponse(const ScsiResponsePdu& response, TaskSlot task,
                    const uint32_t* invalidated_stag);
  // `offset` is where in the task's data. At most max_rdma_bytes(). An error
  // says why our memory cannot be registered, and nothing was queued.
  absl::Status Write(TaskSlot task, IserWork work, uint32_t offset,
                     absl::Span<const uint8_t> from,
                     transport::RemoteBuffer to) {
    Operation* const operation =
        operations_.Take(transport::OperationKind::kWrite, work, task);
    if (operation == nullptr) return NoMemory();
    operation->offset = offset;
    operation->remote = to;
    return Transfer(operation, from, transport::Access::kLocal, &ordered_);
  }
  // `access`: of the registration of `to`.
  absl::Status Read(TaskSlot task, uint32_t offset, absl::Span<uint8_t> to,
                    transport::Access access, transport::RemoteBuffer from) {
    Operation* const operation =
        operations_.Take(transport::OperationKind::kRead, IserWork::kGet, task);
    if (operation == nullptr) return NoMemory();
    operation->offset = offset;
    operation->remote = from;
    return Transfer(operation, to, access, &reads_);
  }
  // `window` and `region` stay until the operation has ended.
  void Bind(TaskSlot task, transport::MemoryWindow* window,
            const transport::MemoryRegion* region, size_t offset, size_t length,
            transport::Access access);
  // The key that `window` has when it is posted; the window stays, too.
  void Invalidate(TaskSlot task, transport::MemoryWindow* window);
  // Ends the reads and writes of the task that were not posted yet.
  void Drop(TaskSlot task);

  void OnCompletion(const transport::Completion& completion);
  void Flush();
  // Nothing is posted any more; the handler is told why, once.
  void Break(const absl::Status& why);
  // Messages are not handled any more.
  void StopReceiving() { deaf_ = true; }
  // Destroys the endpoint, then ends every operation. Called again, it goes on
  // where what it tells has thrown.
  void Terminate();

  bool terminated() const { return terminated_; }
  bool broken() const { return broken_; }
  bool has_output() const {
    return !broken_ && (!ordered_.empty() || !reads_.empty());
  }
  bool in_flight() const { return posted_ > 0; }
  bool congested() const {
    return queued_messages_ > options_.max_queued_messages;
  }
  size_t max_rdma_bytes() const { return max_rdma_bytes_; }
  const IserDatamoverOptions& options() const { return options_; }
  IserMemory* memory() const { return memory_; }
  ConnectionCounters& counters() { return counters_; }
  const ConnectionCounters& counters() const { return counters_; }

 private:
  using Operation = IserOperation;
  // A message that was queued, but for its BHS; without one if there was no
  // buffer for it.
  struct Draft {
    uint8_t* bhs = nullptr;
    uint32_t data_size = 0;
  };
  struct Receive {
    IserMemory::Buffer buffer;
    uint32_t generation = 0;
  };
  // Of one size, for messages. Those that wait are behind all that have one:
  // the first of them gets there.
  struct SendBuffers {
    uint32_t used = 0;
    uint32_t limit = ~0u;
    uint32_t waiting = 0;

    bool left() const { return used < limit; }
  };

  Draft Begin(const IserOutgoing& message);
  // A message of which `size` bytes are in its buffer; null without a buffer.
  Operation* QueueMessage(size_t size, TaskSlot task);
  // Gives a write or read its memory, and queues it.
  absl::Status Transfer(Operation* operation, absl::Span<const uint8_t> memory,
                        transport::Access access, IserOperationQueue* queue);
  SendBuffers* BuffersFor(size_t size) {
    return size <= IserMemory::kSmallBytes ? &small_buffers_ : &large_buffers_;
  }
  // Out of those that are left.
  bool TakeBuffer(Operation* operation, size_t size);
  // A message that waits has its buffer now.
  bool LeaveWaiting(Operation* operation);
  void End(Operation* operation, bool ok);
  transport::PostResult Post(Operation* operation);
  // Posts as much as there is room for.
  void PostQueue(IserOperationQueue* queue);
  void CountPosted(const Operation& operation);
  static void FillInKeys(const Operation& operation);
  bool PostReceive(uint32_t index);
  void OnReceived(const transport::Completion& completion);
  absl::Status TooMuchData(const IserMessage& message) const;
  // Whether somebody wants to see what happens.
  bool Traced() const { return trace_ != nullptr && trace_->wanted(); }
  void TraceReceived(absl::Span<const uint8_t> bytes,
                     const IserMessage& message,
                     const transport::RemoteKey* invalidated);
  void TracePosted(const Operation& operation);
  void TraceRead(const Operation& operation);
  void SendBare(const IserHeaderBytes& header);
  static absl::Status NoMemory();
  void OnEnded(const transport::Completion& completion);
  void BreakBy(const Operation* operation,
               const transport::Completion& completion);

  IserMemory* const memory_;
  const IserDatamoverOptions options_;
  Handler* const handler_;
  EndpointObserver* observer_ = nullptr;
  std::unique_ptr<IserTrace> trace_;  // Null unless somebody may want to.
  std::unique_ptr<transport::RdmaEndpoint> endpoint_;
  transport::RdmaEndpoint* preparing_ = nullptr;  // Until Connected().
  size_t max_rdma_bytes_ = 0;
  bool deaf_ = false;
  bool broken_ = false;
  bool terminated_ = false;

  IserMemory::Share share_;  // Goes after the buffers.
  SendBuffers small_buffers_;
  SendBuffers large_buffers_;
  IserOperationPool operations_;
  IserOperationQueue ordered_;
  IserOperationQueue reads_;
  uint32_t queued_messages_ = 0;  // Of `ordered_`.
  uint32_t posted_ = 0;
  uint32_t posted_reads_ = 0;
  uint32_t max_posted_reads_ = ~0u;

  const char* data_limit_key_ = "MaxRecvDataSegmentLength";
  uint32_t data_limit_ = kLoginDataSegmentLength;

  std::vector<Receive> receives_;
  // Handled, but not posted again while too much waits to be sent.
  std::vector<uint32_t> held_receives_;
  ConnectionCounters counters_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_CHANNEL_H_
