#include "protocol/datamover/iser/iser_initiator_datamover.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

using transport::Access;

namespace {

// More than these take longer than an RDMA Read.
constexpr uint32_t kMaxSplitMessages = 3;

// Copies between [offset, offset + length) of a list and contiguous memory.
template <typename Copy>
void ForEachPiece(const iovec* iov, size_t offset, size_t length, Copy copy) {
  size_t done = 0;
  for (; done < length; ++iov) {
    if (offset >= iov->iov_len) {
      offset -= iov->iov_len;
      continue;
    }
    const size_t n = std::min(iov->iov_len - offset, length - done);
    copy(static_cast<uint8_t*>(iov->iov_base) + offset, done, n);
    offset = 0;
    done += n;
  }
}

// The list's memory, if its first `length` bytes are in one piece.
uint8_t* OnePiece(const iovec* iov, int count, size_t length) {
  while (count > 1 && iov->iov_len == 0) {
    ++iov;
    --count;
  }
  return iov->iov_len >= length ? static_cast<uint8_t*>(iov->iov_base)
                                : nullptr;
}

// Of the data segment of a message that does not cost a round trip.
size_t EagerDataBytes(const transport::MemoryDomain& domain) {
  const size_t message = domain.capabilities().eager_message_bytes;
  return message > kIserControlSize ? message - kIserControlSize : 0;
}

}  // namespace

IserInitiatorDatamover::IserInitiatorDatamover(
    IserMemory* memory, const IserDatamoverOptions& options)
    : channel_(memory, options, this),
      windows_(memory->domain()->capabilities().memory_windows),
      eager_data_bytes_(EagerDataBytes(*memory->domain())) {}

IserInitiatorDatamover::~IserInitiatorDatamover() { ConnectionTerminate(); }

absl::Status IserInitiatorDatamover::Prepare(
    transport::RdmaEndpoint* endpoint) {
  if (channel_.options().remote_invalidation && !windows_) {
    // The private data has promised keys that a peer can invalidate.
    return absl::FailedPreconditionError(absl::StrCat(
        endpoint->domain()->name(),
        " has no memory windows, so that its keys cannot be "
        "invalidated by the target; turn remote invalidation off"));
  }
  // All of them now: a target may send as soon as its last Login Response has
  // left, before we have seen it.
  return channel_.Prepare(endpoint, channel_.options().receives);
}

void IserInitiatorDatamover::SetClient(InitiatorDatamoverClient* client,
                                       uint32_t max_tasks) {
  assert(max_tasks <= kMaxTaskSlots);
  client_ = client;
  tasks_.resize(max_tasks);
}

void IserInitiatorDatamover::EnableDatamover(const Parameters& parameters) {
  parameters_ = parameters;
  channel_.LimitData("InitiatorRecvDataSegmentLength",
                     parameters.initiator_max_recv_data_segment_length);
  enabled_ = true;
  if (!parameters.iser.hello_required || channel_.terminated()) return;
  // RFC 7145 section 5.1.3: the first message, and commands wait for the
  // answer.
  IserHello hello;
  // Devices take in one at least. What they negotiated may be of ours only.
  hello.iser_ird = static_cast<uint16_t>(std::clamp<uint32_t>(
      endpoint()->capabilities().max_read_depth, 1, 0xffff));
  channel_.SendHello(hello);
  awaiting_hello_reply_ = true;
}

// --- Sending.

void IserInitiatorDatamover::SendControl(const uint8_t* bhs,
                                         absl::Span<const uint8_t> data) {
  IserOutgoing message;
  message.bhs = bhs;
  message.data = data;
  channel_.Send(message);
}

// RFC 7145 section 7.3.1: which memory gets a key.
absl::Status IserInitiatorDatamover::SendCommand(
    const OutgoingCommand& command) {
  if (channel_.terminated()) return absl::OkStatus();
  const TaskSlot slot = command.task;
  Task& task = tasks_[slot];
  Begin(command, &task);
  // Immediate and unsolicited data together are bounded by FirstBurstLength
  // (RFC 7143 sections 13.10, 13.11 and 13.14).
  const uint32_t most_immediate =
      parameters_.immediate_data ? MaxDataSegment() : 0;
  const uint32_t most_unsolicited =
      parameters_.initial_r2t
          ? std::min(parameters_.first_burst_length, most_immediate)
          : parameters_.first_burst_length;
  const uint32_t unsolicited = WorthSending(task.out.length, most_unsolicited);
  const uint32_t immediate = std::min(unsolicited, most_immediate);
  task.unsolicited = unsolicited;
  const bool exposes_out = unsolicited < task.out.length;
  const bool exposes_in = task.in.length > 0;
  absl::Status status;
  if (exposes_out) status = Register(&task.out, Access::kRemoteRead);
  if (status.ok() && exposes_in) {
    status = Register(&task.in, Access::kRemoteWrite);
  }
  if (!status.ok()) {
    Forget(&task);
    return status;
  }

  command.pdu->final = immediate == unsolicited;
  std::array<uint8_t, kMaxAhsBytes> ahs;
  IserOutgoing message;
  message.task = slot;
  message.posted = &task.posted;
  if (!command.ahs.extended_cdb.empty() || command.ahs.has_bidi_read_length) {
    message.ahs = {ahs.data(), EncodeAhs(command.ahs, ahs.data())};
  }
  if (exposes_out) AdvertiseOut(slot, &message);
  if (exposes_in) AdvertiseIn(slot, &message);
  transport::Sge place;
  AddData(task.out, 0, immediate, &message, &place);
  if (channel_.Send(*command.pdu, message)) ++task.references;
  if (exposes_out || exposes_in) ++channel_.counters().commands_by_rdma;
  if (immediate < unsolicited) SendUnsolicited(slot, immediate, unsolicited);
  return status;
}

inline void IserInitiatorDatamover::Begin(const OutgoingCommand& command,
                                          Task* task) {
  assert(!task->live);
  task->initiator_task_tag = command.pdu->initiator_task_tag;
  task->live = true;
  task->posted = task->answered = false;
  task->deallocated = task->keys_may_last = false;
  task->references = 0;
  task->out.Reset(command.data_out, command.data_out_count,
                  command.data_out_length);
  task->in.Reset(command.data_in, command.data_in_count,
                 command.data_in_length);
}

// The key for what the target reads.
inline void IserInitiatorDatamover::AdvertiseOut(TaskSlot slot,
                                                 IserOutgoing* message) {
  Task& task = tasks_[slot];
  Bind(slot, &task.out, Access::kRemoteRead);
  const transport::RemoteBuffer at = RemoteOf(task.out);
  message->header.write_stag_valid = true;
  message->header.write_stag = static_cast<uint32_t>(at.key.value);
  // Nothing is sent besides: what the offset counts from is the same for all
  // (docs/iser.md).
  message->header.write_base_offset = at.address;
  message->write_window = task.out.bound ? task.out.window.get() : nullptr;
}

// The key for what the target writes.
inline void IserInitiatorDatamover::AdvertiseIn(TaskSlot slot,
                                                IserOutgoing* message) {
  Task& task = tasks_[slot];
  Bind(slot, &task.in, Access::kRemoteWrite);
  const transport::RemoteBuffer at = RemoteOf(task.in);
  message->header.read_stag_valid = true;
  message->header.read_stag = static_cast<uint32_t>(at.key.value);
  message->header.read_base_offset = at.address;
  message->read_window = task.in.bound ? task.in.window.get() : nullptr;
}

// The longest data segment of a message that is sent.
uint32_t IserInitiatorDatamover::MaxDataSegment() const {
  return static_cast<uint32_t>(std::min<size_t>(
      {parameters_.target_max_recv_data_segment_length,
       channel_.options().max_copied_immediate_bytes, eager_data_bytes_}));
}

// How much of the data is sent unsolicited, of what may be: all or nothing. If
// the target has to read the rest, it can as well read all, where it belongs
// and in the same time. Where data have to be split, because a message of full
// length would cost a round trip, many messages take longer than that.
uint32_t IserInitiatorDatamover::WorthSending(uint32_t length,
                                              uint32_t most) const {
  const uint64_t segment = MaxDataSegment();
  if (segment == 0 || length > most) return 0;
  const bool split = segment == eager_data_bytes_;
  return split && length > kMaxSplitMessages * segment ? 0 : length;
}

// Lets `message` carry a part of data that have no key: from where it is if
// that is registered, else copied.
void IserInitiatorDatamover::AddData(const Data& data, uint32_t offset,
                                     uint32_t length, IserOutgoing* message,
                                     transport::Sge* place) const {
  if (length == 0) return;
  uint8_t* const memory = OnePiece(data.iov, data.count, data.length);
  const transport::MemoryRegion* const region =
      memory != nullptr ? channel_.memory()->ArenaOf(memory, data.length)
                        : nullptr;
  if (region != nullptr) {
    *place = {memory + offset, length, region};
    message->payload = {place, 1};
    return;
  }
  message->copied = data.iov;
  message->copied_offset = offset;
  message->copied_length = length;
}

void IserInitiatorDatamover::SendUnsolicited(TaskSlot slot, uint32_t offset,
                                             uint32_t end) {
  Task& task = tasks_[slot];
  const uint32_t limit = MaxDataSegment();
  ScsiDataOutPdu pdu;
  pdu.initiator_task_tag = task.initiator_task_tag;
  pdu.target_transfer_tag = kReservedTag;
  while (offset < end) {
    const uint32_t length = std::min(end - offset, limit);
    pdu.final = offset + length == end;
    pdu.exp_stat_sn = client_->CurrentExpStatSn();
    pdu.buffer_offset = offset;
    Bhs bhs;
    Encode(pdu, bhs.data());
    ++pdu.data_sn;
    IserOutgoing message;
    message.bhs = bhs.data();
    message.task = slot;
    transport::Sge place;
    AddData(task.out, offset, length, &message, &place);
    if (channel_.Send(message)) ++task.references;
    offset += length;
  }
}

// --- Keys.

// All that may fail of giving the target a key to the data.
absl::Status IserInitiatorDatamover::Register(Data* data, Access access) {
  IserMemory* const memory = channel_.memory();
  data->memory = OnePiece(data->iov, data->count, data->length);
  if (data->memory == nullptr) {
    // One key names one piece of memory.
    data->copy = std::make_unique<uint8_t[]>(data->length);
    data->memory = data->copy.get();
    ++channel_.counters().gathered_buffers;
    if (access == Access::kRemoteRead) {
      ForEachPiece(data->iov, 0, data->length,
                   [data](const uint8_t* from, size_t at, size_t n) {
                     std::memcpy(data->memory + at, from, n);
                   });
      channel_.counters().copied_bytes += data->length;
    }
  }
  const bool must_bind = channel_.options().remote_invalidation;
  // A key of its own ends with the command; others need a window that does.
  const bool own = data->copy != nullptr ||
                   (!windows_ && !memory->options().rdma.lasting_keys);
  absl::Status status =
      memory->Get(data->memory, data->length, access, own, &data->pin);
  if (!status.ok()) return status;
  if (data->pin.fresh()) ++channel_.counters().registrations;
  data->needs_window = windows_ && (!data->pin.exclusive() || must_bind);
  if (!data->needs_window || data->window != nullptr) return status;
  auto window = memory->domain()->AllocateWindow();
  if (!window.ok()) return window.status();
  data->window = *std::move(window);
  return status;
}

void IserInitiatorDatamover::Bind(TaskSlot slot, Data* data, Access access) {
  if (!data->needs_window) return;
  const transport::MemoryRegion* const region = data->pin.region();
  const auto offset =
      static_cast<size_t>(data->memory - static_cast<uint8_t*>(region->data()));
  ++tasks_[slot].references;
  channel_.Bind(slot, data->window.get(), region, offset, data->length, access);
  data->bound = true;
}

// Of a task of which nothing was sent.
void IserInitiatorDatamover::Forget(Task* task) {
  for (Data* data : {&task->in, &task->out}) {
    data->pin.Release();
    data->copy.reset();
  }
  task->live = false;
}

// The key of a window is filled in when the message is posted.
transport::RemoteBuffer IserInitiatorDatamover::RemoteOf(
    const Data& data) const {
  return data.pin.Remote(data.memory);
}

// The target may not use the key any more. Before its response, it may be about
// to take the key out of use itself: then the window goes, in Finish().
void IserInitiatorDatamover::Withdraw(TaskSlot slot, Data* data) {
  if (!data->bound || channel_.terminated()) return;
  if (channel_.options().remote_invalidation && !tasks_[slot].answered) return;
  data->bound = false;
  ++tasks_[slot].references;
  channel_.Invalidate(slot, data->window.get());
}

// --- The end of tasks and connections.

void IserInitiatorDatamover::OnDone(TaskSlot slot, IserWork work, bool ok) {
  Task& task = tasks_[slot];
  if (work == IserWork::kInvalidate && !ok) task.keys_may_last = true;
  assert(task.references > 0);
  if (--task.references > 0 || !task.deallocated) return;
  Finish(&task);
  client_->TaskDone(slot);
}

Progress IserInitiatorDatamover::DeallocateTaskResources(TaskSlot slot) {
  Task& task = tasks_[slot];
  assert(task.live && !task.deallocated);
  task.deallocated = true;
  Withdraw(slot, &task.in);
  Withdraw(slot, &task.out);
  if (task.references > 0) return Progress::kPending;
  Finish(&task);
  return Progress::kDone;
}

// Nobody uses the memory any more, once the registrations are gone, but for
// what docs/iser.md says of Capabilities::deregistration_ends_access.
void IserInitiatorDatamover::Finish(Task* task) {
  for (Data* data : {&task->in, &task->out}) {
    // Memory cannot be deregistered while a window is bound to it, as one is
    // that was not invalidated, or whose invalidation was flushed.
    if (data->bound || task->keys_may_last) data->window.reset();
    data->bound = false;
    data->pin.Release();
  }
  if (task->in.copy != nullptr) {
    ForEachPiece(task->in.iov, 0, task->in.length,
                 [task](uint8_t* to, size_t at, size_t n) {
                   std::memcpy(to, task->in.copy.get() + at, n);
                 });
    channel_.counters().copied_bytes += task->in.length;
  }
  task->in.copy.reset();
  task->out.copy.reset();
  task->live = false;
}

void IserInitiatorDatamover::ConnectionTerminate() {
  channel_.Terminate();
  for (Task& task : tasks_) {
    task.live = false;
    for (Data* data : {&task.in, &task.out}) {
      data->window.reset();  // First, as in Finish().
      data->bound = false;
      data->pin.Release();
      data->copy.reset();
    }
  }
}

std::unique_ptr<IserDatamoverOf<InitiatorDatamover>> MakeInitiatorIserDatamover(
    IserMemory* memory, const IserDatamoverOptions& options) {
  return std::make_unique<IserInitiatorDatamover>(memory, options);
}

}  // namespace skiff::protocol
