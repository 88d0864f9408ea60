#include "protocol/datamover/iser/iser_channel.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/endian.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {

using transport::Completion;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteKey;

static_assert(kIserControlSize + kMaxIserAhs + kMaxIserDataSegment <=
              kIserMessageBytes);

namespace {

// Where the STags are in a message (RFC 7145 section 9.2).
constexpr size_t kWriteStagOffset = 4;
constexpr size_t kReadStagOffset = 16;

const char* NameOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::kSend:
      return "Send";
    case OperationKind::kReceive:
      return "receive";
    case OperationKind::kRead:
      return "RDMA Read";
    case OperationKind::kWrite:
      return "RDMA Write";
    case OperationKind::kBind:
      return "window bind";
    case OperationKind::kInvalidate:
      return "invalidation";
  }
  return "operation";
}

const char* NameOf(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kOk:
    case CompletionStatus::kFlushed:
      break;
    case CompletionStatus::kLocalError:
      return "the device refused our own buffer or key";
    case CompletionStatus::kRemoteAccess:
      return "the peer's device refused the STag, its bounds or permission";
    case CompletionStatus::kRemoteNotReady:
      return "the peer had no receive posted";
    case CompletionStatus::kTooLong:
      return "the message was longer than the receive";
    case CompletionStatus::kTransportError:
      return "the connection was lost";
  }
  return "the connection ended";
}

void CopyPieces(const IserOutgoing& message, uint8_t* to) {
  size_t offset = message.copied_offset;
  size_t left = message.copied_length;
  for (const iovec* piece = message.copied; left > 0; ++piece) {
    const size_t skipped = std::min(offset, piece->iov_len);
    const size_t n = std::min(piece->iov_len - skipped, left);
    const auto* from = static_cast<const uint8_t*>(piece->iov_base) + skipped;
    to = std::copy(from, from + n, to);
    offset -= skipped;
    left -= n;
  }
}

absl::Status NoMessage(size_t size, const IserDecodeResult& decoded) {
  return absl::InvalidArgumentError(
      absl::StrCat("iSER message of ", size, " bytes: ", decoded.problem));
}

// Of a message: the headers, and what was copied behind them.
uint8_t* BytesOf(const IserOperation& message) {
  return static_cast<uint8_t*>(message.sges[0].data);
}

absl::Status TooLong(size_t size) {
  return absl::InternalError(
      absl::StrCat("a message of ", size, " bytes fits no buffer"));
}

absl::Status NoBuffer() {
  return absl::ResourceExhaustedError(
      "no buffer is left for a message (message_memory, or locked memory)");
}

}  // namespace

IserChannel::IserChannel(IserMemory* memory,
                         const IserDatamoverOptions& options, Handler* handler)
    : memory_(memory), options_(options), handler_(handler), share_(memory) {}

IserChannel::~IserChannel() {
  // Without Terminate() nothing was told: the endpoint goes before the buffers.
  endpoint_.reset();
}

absl::Status IserChannel::Reserve(uint32_t receives, uint32_t sends) {
  absl::Status grown = share_.Grow(receives + sends);
  if (!grown.ok()) return grown;
  large_buffers_.limit = sends;
  small_buffers_.limit = receives + sends;
  return grown;
}

absl::Status IserChannel::Prepare(transport::RdmaEndpoint* endpoint,
                                  uint32_t receives) {
  preparing_ = endpoint;
  const transport::Capabilities& can = endpoint->capabilities();
  max_rdma_bytes_ =
      std::min(can.serial_transfers ? options_.max_serial_rdma_bytes
                                    : options_.max_rdma_bytes,
               can.max_transfer_bytes);
  return PostReceives(receives);
}

void IserChannel::Connected(std::unique_ptr<transport::RdmaEndpoint> endpoint) {
  assert(endpoint.get() == preparing_);
  preparing_ = nullptr;
  endpoint_ = std::move(endpoint);
}

// --- Receiving.

absl::Status IserChannel::PostReceives(uint32_t count) {
  while (receives_.size() < count) {
    Receive receive;
    receive.buffer = memory_->GetMessageBuffer();
    if (!receive.buffer) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no buffers are left for ", count,
                       " receives (message_memory, or locked memory)"));
    }
    receives_.push_back(std::move(receive));
    if (!PostReceive(static_cast<uint32_t>(receives_.size()) - 1)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot post ", count, " receives: the endpoint took ",
                       receives_.size() - 1));
    }
  }
  return absl::OkStatus();
}

bool IserChannel::PostReceive(uint32_t index) {
  transport::RdmaEndpoint* const endpoint =
      preparing_ != nullptr ? preparing_ : endpoint_.get();
  Receive& receive = receives_[index];
  const transport::Sge all = receive.buffer.All();
  return endpoint->PostReceive({index, ++receive.generation}, {&all, 1}) ==
         PostResult::kAccepted;
}

void IserChannel::OnReceived(const Completion& completion) {
  const uint32_t index = completion.id.index;
  if (index >= receives_.size() ||
      receives_[index].generation != completion.id.generation) {
    return;
  }
  if (completion.status != CompletionStatus::kOk) {
    if (completion.status != CompletionStatus::kFlushed) {
      BreakBy(nullptr, completion);
    }
    return;
  }
  if (deaf_ || broken_) return;
  ++counters_.pdus_in;
  counters_.bytes_in += completion.bytes;
  const absl::Span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(receives_[index].buffer.data()),
      std::min<size_t>(completion.bytes, receives_[index].buffer.size()));
  IserMessage message;
  const IserDecodeResult decoded = DecodeIserMessage(bytes, &message);
  if (!decoded.ok()) {
    deaf_ = true;
    return handler_->OnBadMessage(NoMessage(bytes.size(), decoded));
  }
  const RemoteKey* const invalidated =
      completion.invalidated ? &completion.invalidated_key : nullptr;
  if (Traced()) TraceReceived(bytes, message, invalidated);
  if (message.opcode == IserOpcode::kControl &&
      message.data.size() > data_limit_) {
    deaf_ = true;
    return handler_->OnBadMessage(TooMuchData(message));
  }
  handler_->OnMessage(message, invalidated);
  if (terminated_ || deaf_) return;
  // Who does not take our answers gets no room for more requests.
  if (congested()) {
    held_receives_.push_back(index);
  } else {
    PostReceive(index);
  }
}

// Of a PDU that the receive had room for, which may be more than was promised.
absl::Status IserChannel::TooMuchData(const IserMessage& message) const {
  return absl::InvalidArgumentError(absl::StrCat(
      OpcodeName(message.frame.opcode), " with a data segment of ",
      message.data.size(), " bytes; ", data_limit_key_, "=", data_limit_));
}

// --- Operations.

// Its user is told last: he may do anything.
inline void IserChannel::End(Operation* operation, bool ok) {
  const TaskSlot task = operation->task;
  const IserWork work = operation->work;
  if (operation->buffer) --BuffersFor(operation->sges[0].length)->used;
  const bool told = operation->state == Operation::State::kDropped;
  operations_.GiveBack(operation);
  if (task != kNoTask && !told) handler_->OnDone(task, work, ok);
}

bool IserChannel::Send(const IserOutgoing& message) {
  const Draft draft = Begin(message);
  if (draft.bhs == nullptr) return false;
  std::memcpy(draft.bhs, message.bhs, kBhsSize);
  EncodeLengths(draft.bhs, message.ahs.size(), draft.data_size);
  return true;
}

IserChannel::Draft IserChannel::Begin(const IserOutgoing& message) {
  assert(message.payload.size() <= kMaxPayloadPieces);
  if (terminated_) return {};
  const size_t copied = message.data.size() + message.copied_length;
  const size_t size = kIserControlSize + message.ahs.size() + copied;
  Operation* const operation = QueueMessage(size, message.task);
  if (operation == nullptr) return {};
  operation->tell_posted = message.posted;
  operation->invalidates = message.invalidates;
  operation->remote.key.value = message.invalidated_stag;
  operation->write_window = message.write_window;
  operation->read_window = message.read_window;
  operation->has_windows =
      message.write_window != nullptr || message.read_window != nullptr;

  auto* const bytes = BytesOf(*operation);
  Encode(message.header, bytes);
  size_t data_size = copied;
  if (message.ahs.size() + copied > 0) {
    uint8_t* to = bytes + kIserControlSize;
    to = std::copy(message.ahs.begin(), message.ahs.end(), to);
    to = std::copy(message.data.begin(), message.data.end(), to);
    CopyPieces(message, to);
    counters_.copied_bytes += message.copied_length;
  }
  for (const transport::Sge& piece : message.payload) {
    operation->sges[operation->sge_count++] = piece;
    operation->length += piece.length;
    data_size += piece.length;
  }
  return {bytes + kIserHeaderSize, static_cast<uint32_t>(data_size)};
}

inline bool IserChannel::TakeBuffer(Operation* operation, size_t size) {
  operation->buffer = size <= IserMemory::kSmallBytes
                          ? memory_->GetSmallBuffer()
                          : memory_->GetMessageBuffer();
  if (!operation->buffer) return false;
  ++BuffersFor(size)->used;
  operation->sges[0] = operation->buffer.Part(0, size);
  return true;
}

bool IserChannel::LeaveWaiting(Operation* operation) {
  const size_t size = operation->sges[0].length;
  SendBuffers* const buffers = BuffersFor(size);
  if (!buffers->left() || !TakeBuffer(operation, size)) return false;
  --buffers->waiting;
  std::memcpy(operation->buffer.data(), operation->waiting.get(), size);
  operation->waiting.reset();
  return true;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline IserChannel::Operation*
IserChannel::QueueMessage(size_t size, TaskSlot task) {
  Operation* const operation =
      operations_.Take(OperationKind::kSend, IserWork::kMessage, task);
  if (operation == nullptr) {
    Break(NoMemory());
    return nullptr;
  }
  SendBuffers* const buffers = BuffersFor(size);
  const bool waits = !buffers->left() || buffers->waiting > 0;
  if (size > kIserMessageBytes || (!waits && !TakeBuffer(operation, size))) {
    operations_.GiveBack(operation);
    Break(size > kIserMessageBytes ? TooLong(size) : NoBuffer());
    return nullptr;
  }
  if (waits) {
    const transport::SpareMemory::NotForThis not_for_this;
    operation->waiting.reset(new (std::nothrow) char[size]);
    if (operation->waiting == nullptr) {
      operations_.GiveBack(operation);
      Break(NoMemory());
      return nullptr;
    }
    operation->sges[0] = {operation->waiting.get(), size, nullptr};
    ++buffers->waiting;
  }
  operation->sge_count = 1;
  operation->length = size;
  ++queued_messages_;
  ordered_.PushBack(operation);
  return operation;
}

bool IserChannel::SendResponse(const ScsiResponsePdu& response, TaskSlot task,
                               const uint32_t* invalidated_stag) {
  if (terminated_) return false;
  Operation* const operation = QueueMessage(kIserControlSize, task);
  if (operation == nullptr) return false;
  operation->tell_posted = nullptr;
  operation->has_windows = false;
  operation->invalidates = invalidated_stag != nullptr;
  if (operation->invalidates) operation->remote.key.value = *invalidated_stag;
  auto* const bytes = BytesOf(*operation);
  Encode(IserControlHeader(), bytes);
  Encode(response, bytes + kIserHeaderSize);
  return true;
}

void IserChannel::SendHello(const IserHello& hello) {
  IserHeaderBytes header;
  Encode(hello, header.data());
  SendBare(header);
}

void IserChannel::SendHelloReply(const IserHelloReply& reply) {
  IserHeaderBytes header;
  Encode(reply, header.data());
  SendBare(header);
}

absl::Status IserChannel::NoMemory() {
  return absl::ResourceExhaustedError("there is no memory for an operation");
}

void IserChannel::SendBare(const IserHeaderBytes& header) {
  if (terminated_) return;
  Operation* const operation = QueueMessage(header.size(), kNoTask);
  if (operation == nullptr) return;
  operation->invalidates = operation->has_windows = false;
  operation->tell_posted = nullptr;
  std::memcpy(BytesOf(*operation), header.data(), header.size());
}

absl::Status IserChannel::Transfer(Operation* operation,
                                   absl::Span<const uint8_t> memory,
                                   transport::Access access,
                                   IserOperationQueue* queue) {
  assert(!terminated_ && memory.size() <= max_rdma_bytes_);
  absl::Status status = memory_->Get(memory.data(), memory.size(), access,
                                     /*exclusive=*/false, &operation->pin);
  if (!status.ok()) {
    operations_.GiveBack(operation);
    return status;
  }
  if (operation->pin.exclusive()) ++counters_.registrations;
  operation->sges[0] = operation->pin.Part(memory.data(), memory.size());
  operation->sge_count = 1;
  operation->length = memory.size();
  queue->PushBack(operation);
  return status;
}

void IserChannel::Bind(TaskSlot task, transport::MemoryWindow* window,
                       const transport::MemoryRegion* region, size_t offset,
                       size_t length, transport::Access access) {
  assert(!terminated_);
  Operation* const operation =
      operations_.Take(OperationKind::kBind, IserWork::kBind, task);
  if (operation == nullptr) return Break(NoMemory());
  operation->window = window;
  operation->region = region;
  operation->offset = offset;
  operation->length = length;
  operation->access = access;
  ordered_.PushBack(operation);
}

void IserChannel::Invalidate(TaskSlot task, transport::MemoryWindow* window) {
  assert(!terminated_);
  Operation* const operation =
      operations_.Take(OperationKind::kInvalidate, IserWork::kInvalidate, task);
  if (operation == nullptr) return Break(NoMemory());
  operation->length = 0;
  operation->window = window;
  ++counters_.local_invalidations;
  ordered_.PushBack(operation);
}

void IserChannel::Drop(TaskSlot task) {
  // Their places in the queues stay, so that telling may queue more.
  for (const IserOperationQueue* queue : {&reads_, &ordered_}) {
    for (Operation* operation = queue->front(); operation != nullptr;
         operation = operation->next) {
      const bool moves_data = operation->kind == OperationKind::kRead ||
                              operation->kind == OperationKind::kWrite;
      if (operation->task != task || !moves_data ||
          operation->state == Operation::State::kDropped) {
        continue;
      }
      operation->state = Operation::State::kDropped;
      operation->pin.Release();
      handler_->OnDone(task, operation->work, false);
      if (terminated_) return;
    }
  }
}

// --- Posting.

void IserChannel::FillInKeys(const Operation& operation) {
  auto* bytes = BytesOf(operation);
  const auto fill_in = [bytes](const transport::MemoryWindow* window,
                               size_t offset) {
    if (window == nullptr) return;
    Store32(static_cast<uint32_t>(window->remote_key().value), bytes + offset);
  };
  fill_in(operation.write_window, kWriteStagOffset);
  fill_in(operation.read_window, kReadStagOffset);
}

inline PostResult IserChannel::Post(Operation* operation) {
  if (operation->waiting != nullptr && !LeaveWaiting(operation)) {
    return PostResult::kWouldBlock;
  }
  const transport::OperationId id = operation->id;
  const absl::Span<const transport::Sge> sges(operation->sges.data(),
                                              operation->sge_count);
  switch (operation->kind) {
    case OperationKind::kSend:
      // The key of a bind is known once it is posted.
      if (operation->has_windows) FillInKeys(*operation);
      return operation->invalidates ? endpoint_->PostSendWithInvalidate(
                                          id, sges, operation->remote.key)
                                    : endpoint_->PostSend(id, sges);
    case OperationKind::kWrite:
      return endpoint_->PostWrite(id, sges, operation->remote);
    case OperationKind::kRead:
      if (posted_reads_ >= max_posted_reads_) return PostResult::kWouldBlock;
      return endpoint_->PostRead(id, sges, operation->remote);
    case OperationKind::kBind:
      return endpoint_->PostBind(id, operation->window, operation->region,
                                 operation->offset, operation->length,
                                 operation->access);
    case OperationKind::kInvalidate:
      // A bind before it may have been posted later than this was queued.
      return endpoint_->PostInvalidate(id, operation->window->remote_key());
    case OperationKind::kReceive:
      break;
  }
  return PostResult::kClosed;
}

inline void IserChannel::CountPosted(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kSend:
      --queued_messages_;
      ++counters_.pdus_out;
      counters_.bytes_out += operation.length;
      if (operation.invalidates) ++counters_.invalidations_sent;
      if (operation.tell_posted != nullptr) *operation.tell_posted = true;
      break;
    case OperationKind::kRead:
      ++posted_reads_;
      ++counters_.rdma_reads;
      counters_.rdma_read_bytes += operation.length;
      counters_.bytes_in += operation.length;
      break;
    case OperationKind::kWrite:
      ++counters_.rdma_writes;
      counters_.rdma_write_bytes += operation.length;
      counters_.bytes_out += operation.length;
      break;
    default:
      break;
  }
}

void IserChannel::PostQueue(IserOperationQueue* queue) {
  while (!queue->empty()) {
    Operation* const operation = queue->front();
    if (operation->state == Operation::State::kDropped) {
      queue->PopFront();
      operations_.GiveBack(operation);
      continue;
    }
    if (Post(operation) != PostResult::kAccepted) return;
    queue->PopFront();
    operation->state = Operation::State::kPosted;
    if (Traced()) TracePosted(*operation);
    ++posted_;
    CountPosted(*operation);
  }
}

void IserChannel::Flush() {
  if (endpoint_ == nullptr || broken_) return;
  PostQueue(&reads_);
  PostQueue(&ordered_);
  if (!held_receives_.empty() && !congested()) {
    for (const uint32_t index : std::exchange(held_receives_, {})) {
      PostReceive(index);
    }
  }
  endpoint_->Flush();
}

// --- Ends.

void IserChannel::OnCompletion(const Completion& completion) {
  if (terminated_) return;
  if (completion.kind == OperationKind::kReceive) return OnReceived(completion);
  OnEnded(completion);
}

void IserChannel::OnEnded(const Completion& completion) {
  Operation* const operation = operations_.FindPosted(completion.id);
  if (operation == nullptr) return;
  --posted_;
  if (operation->kind == OperationKind::kRead) --posted_reads_;
  const bool ok = completion.status == CompletionStatus::kOk;
  if (!ok && completion.status != CompletionStatus::kFlushed) {
    BreakBy(operation, completion);
  }
  if (ok && Traced()) TraceRead(*operation);
  if (ok && (operation->kind == OperationKind::kWrite ||
             operation->kind == OperationKind::kSend)) {
    counters_.bytes_taken += operation->length;
  }
  End(operation, ok);
}

void IserChannel::BreakBy(const Operation* operation,
                          const Completion& completion) {
  ++counters_.rdma_errors;
  Break(absl::UnavailableError(
      absl::StrCat(NameOf(completion.kind),
                   operation != nullptr && operation->length > 0
                       ? absl::StrCat(" of ", operation->length, " bytes")
                       : "",
                   " failed: ", NameOf(completion.status), " (provider code ",
                   completion.provider_code, ")")));
}

void IserChannel::Break(const absl::Status& why) {
  if (broken_ || terminated_) return;
  broken_ = true;
  handler_->OnBroken(why);
}

void IserChannel::Terminate() {
  if (!std::exchange(terminated_, true) && observer_ != nullptr) {
    observer_->BeforeEndpointEnds();
  }
  endpoint_.reset();
  receives_.clear();
  ordered_.Clear();
  reads_.Clear();
  queued_messages_ = posted_ = posted_reads_ = 0;
  operations_.EndAll(
      [this](Operation* operation) { End(operation, /*ok=*/false); });
  share_.Release();
}

}  // namespace skiff::protocol
