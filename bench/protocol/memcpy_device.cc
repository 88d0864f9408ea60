#include "bench/protocol/memcpy_device.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace skiff::protocol {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::OperationId;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteBuffer;
using transport::RemoteKey;
using transport::Sge;

namespace {

// As those of NICs, whose keys have 24 bits of an index and 8 of a generation.
constexpr uint32_t kGenerationBits = 8;
constexpr uint32_t kMaxSges = 4;
constexpr uint32_t kMaxReadDepth = 16;
constexpr uint32_t kMaxSendQueue = 512;
constexpr uint32_t kMaxReceiveQueue = 1024;

transport::Capabilities MakeCapabilities() {
  transport::Capabilities can;
  can.rdma = true;
  can.max_message_bytes = can.max_transfer_bytes = size_t{1} << 30;
  can.max_send_sges = can.max_receive_sges = can.max_read_sges = kMaxSges;
  can.max_read_depth = kMaxReadDepth;
  can.max_send_queue = kMaxSendQueue;
  can.max_receive_queue = kMaxReceiveQueue;
  can.remote_key_bits = 32;
  can.send_with_invalidate = true;
  can.memory_windows = true;
  return can;
}

class Region final : public transport::MemoryRegion {
 public:
  Region(MemcpyDevice* device, void* data, size_t size, Access access)
      : MemoryRegion(device),
        device_(device),
        data_(data),
        size_(size),
        access_(access),
        key_(device->NewKey()) {
    device->Allow(key_, data, size, access);
  }
  ~Region() override { device_->FreeKey(key_); }

  void* data() const override { return data_; }
  size_t size() const override { return size_; }
  Access access() const override { return access_; }
  RemoteKey remote_key() const override { return {key_}; }
  uint64_t remote_base() const override {
    return reinterpret_cast<uintptr_t>(data_);
  }

 private:
  MemcpyDevice* const device_;
  void* const data_;
  const size_t size_;
  const Access access_;
  const uint32_t key_;
};

class Window final : public transport::MemoryWindow {
 public:
  explicit Window(MemcpyDevice* device)
      : device_(device), key_(device->NewKey()) {}
  ~Window() override { device_->FreeKey(key_); }

  RemoteKey remote_key() const override { return {key_}; }
  void Bind(const transport::MemoryRegion& region, size_t offset, size_t length,
            Access access) {
    key_ = device_->RenewKey(key_);
    device_->Allow(key_, static_cast<char*>(region.data()) + offset, length,
                   access);
  }

 private:
  MemcpyDevice* const device_;
  uint32_t key_;
};

}  // namespace

// One end. Its completion queue is its alone.
class MemcpyEndpoint final : public transport::RdmaEndpoint,
                             private transport::CompletionQueue {
 public:
  MemcpyEndpoint(MemcpyDevice* device, int side)
      : device_(device), side_(side), receives_(kMaxReceiveQueue) {
    posted_.reserve(kMaxSendQueue);
  }
  ~MemcpyEndpoint() override { device_->EndIsGone(side_); }

  // Does what was posted. False if there was nothing.
  bool Carry();

  // transport::RdmaEndpoint:
  const transport::Capabilities& capabilities() const override {
    return device_->capabilities();
  }
  transport::MemoryDomain* domain() override { return device_; }
  transport::CompletionQueue* completion_queue() override { return this; }
  PostResult PostReceive(OperationId id, absl::Span<const Sge> to) override;
  PostResult PostSend(OperationId id, absl::Span<const Sge> from) override {
    return Post(id, OperationKind::kSend, {}, from);
  }
  PostResult PostSendWithInvalidate(OperationId id, absl::Span<const Sge> from,
                                    RemoteKey key) override {
    return Post(id, OperationKind::kSend, {0, key}, from, true);
  }
  PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                      RemoteBuffer from) override {
    if (reads_ == kMaxReadDepth) return PostResult::kWouldBlock;
    const PostResult result = Post(id, OperationKind::kRead, from, to);
    if (result == PostResult::kAccepted) ++reads_;
    return result;
  }
  PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                       RemoteBuffer to) override {
    return Post(id, OperationKind::kWrite, to, from);
  }
  PostResult PostBind(OperationId id, transport::MemoryWindow* window,
                      const transport::MemoryRegion* region, size_t offset,
                      size_t length, Access access) override;
  PostResult PostInvalidate(OperationId id, RemoteKey key) override {
    return Post(id, OperationKind::kInvalidate, {0, key}, {});
  }
  void Flush() override {}
  void Disconnect() override {}
  bool connected() const override { return device_->end(1 - side_) != nullptr; }
  absl::Status error() const override { return absl::OkStatus(); }
  absl::string_view scheme() const override { return "memcpy"; }
  std::string local_address() const override { return "here"; }
  std::string peer_address() const override { return "there"; }

 private:
  struct Request {
    OperationId id;
    OperationKind kind = OperationKind::kSend;
    RemoteBuffer remote;
    bool invalidates = false;
    uint32_t pieces = 0;
    size_t length = 0;
    std::array<Sge, kMaxSges> sges;
  };
  struct Receive {
    OperationId id;
    Sge to;
  };

  PostResult Post(OperationId id, OperationKind kind, RemoteBuffer remote,
                  absl::Span<const Sge> sges, bool invalidates = false);
  CompletionStatus Do(const Request& request);
  CompletionStatus Deliver(const Request& request, MemcpyEndpoint* to);

  // transport::CompletionQueue:
  int Poll(absl::Span<Completion> out) override;
  bool Arm() override { return completions_.empty(); }
  void Disarm() override {}
  int fd() const override { return -1; }

  MemcpyDevice* const device_;
  const int side_;
  std::vector<Request> posted_;
  uint32_t reads_ = 0;             // Of those.
  std::vector<Receive> receives_;  // A ring.
  size_t first_receive_ = 0;
  size_t receive_count_ = 0;
  std::vector<Completion> completions_;
  size_t polled_ = 0;  // Of those.
};

PostResult MemcpyEndpoint::PostReceive(OperationId id,
                                       absl::Span<const Sge> to) {
  assert(to.size() == 1);
  if (receive_count_ == receives_.size()) return PostResult::kWouldBlock;
  receives_[(first_receive_ + receive_count_++) % receives_.size()] = {id,
                                                                       to[0]};
  return PostResult::kAccepted;
}

PostResult MemcpyEndpoint::PostBind(OperationId id,
                                    transport::MemoryWindow* window,
                                    const transport::MemoryRegion* region,
                                    size_t offset, size_t length,
                                    Access access) {
  const PostResult result = Post(id, OperationKind::kBind, {}, {});
  if (result == PostResult::kAccepted) {
    static_cast<Window*>(window)->Bind(*region, offset, length, access);
  }
  return result;
}

PostResult MemcpyEndpoint::Post(OperationId id, OperationKind kind,
                                RemoteBuffer remote, absl::Span<const Sge> sges,
                                bool invalidates) {
  assert(sges.size() <= kMaxSges);
  if (posted_.size() == kMaxSendQueue) return PostResult::kWouldBlock;
  Request& request = posted_.emplace_back();
  request.id = id;
  request.kind = kind;
  request.remote = remote;
  request.invalidates = invalidates;
  for (const Sge& sge : sges) {
    request.sges[request.pieces++] = sge;
    request.length += sge.length;
  }
  return PostResult::kAccepted;
}

bool MemcpyEndpoint::Carry() {
  if (posted_.empty()) return false;
  for (const Request& request : posted_) {
    Completion completion;
    completion.endpoint = this;
    completion.id = request.id;
    completion.kind = request.kind;
    completion.status = connected() ? Do(request) : CompletionStatus::kFlushed;
    completions_.push_back(completion);
  }
  posted_.clear();
  reads_ = 0;
  return true;
}

CompletionStatus MemcpyEndpoint::Do(const Request& request) {
  if (request.kind == OperationKind::kSend) {
    return Deliver(request, device_->end(1 - side_));
  }
  if (request.kind == OperationKind::kBind) return CompletionStatus::kOk;
  if (request.kind == OperationKind::kInvalidate) {
    return device_->Invalidate(static_cast<uint32_t>(request.remote.key.value))
               ? CompletionStatus::kOk
               : CompletionStatus::kLocalError;
  }
  const bool reads = request.kind == OperationKind::kRead;
  char* there =
      device_->Find(request.remote, request.length,
                    reads ? Access::kRemoteRead : Access::kRemoteWrite);
  if (there == nullptr) return CompletionStatus::kRemoteAccess;
  for (uint32_t i = 0; i < request.pieces; ++i) {
    const Sge& here = request.sges[i];
    std::memcpy(reads ? here.data : there, reads ? there : here.data,
                here.length);
    there += here.length;
  }
  return CompletionStatus::kOk;
}

CompletionStatus MemcpyEndpoint::Deliver(const Request& request,
                                         MemcpyEndpoint* to) {
  if (to->receive_count_ == 0) return CompletionStatus::kRemoteNotReady;
  const Receive& receive = to->receives_[to->first_receive_];
  if (request.length > receive.to.length) return CompletionStatus::kTooLong;
  Completion completion;
  completion.endpoint = to;
  completion.id = receive.id;
  completion.kind = OperationKind::kReceive;
  completion.bytes = static_cast<uint32_t>(request.length);
  completion.invalidated = request.invalidates;
  completion.invalidated_key = request.remote.key;
  if (request.invalidates &&
      !device_->Invalidate(static_cast<uint32_t>(request.remote.key.value))) {
    return CompletionStatus::kRemoteAccess;
  }
  auto* at = static_cast<char*>(receive.to.data);
  for (uint32_t i = 0; i < request.pieces; ++i) {
    std::memcpy(at, request.sges[i].data, request.sges[i].length);
    at += request.sges[i].length;
  }
  to->first_receive_ = (to->first_receive_ + 1) % to->receives_.size();
  --to->receive_count_;
  to->completions_.push_back(completion);
  return CompletionStatus::kOk;
}

int MemcpyEndpoint::Poll(absl::Span<Completion> out) {
  const size_t count = std::min(out.size(), completions_.size() - polled_);
  std::copy_n(completions_.begin() + static_cast<ptrdiff_t>(polled_), count,
              out.begin());
  polled_ += count;
  if (polled_ == completions_.size()) {
    completions_.clear();
    polled_ = 0;
  }
  return static_cast<int>(count);
}

MemcpyDevice::MemcpyDevice() : capabilities_(MakeCapabilities()) {}

std::unique_ptr<transport::RdmaEndpoint> MemcpyDevice::MakeEnd() {
  const int side = ends_[0] == nullptr ? 0 : 1;
  auto made = std::make_unique<MemcpyEndpoint>(this, side);
  ends_[side] = made.get();
  return made;
}

bool MemcpyDevice::Carry() {
  bool any = false;
  for (MemcpyEndpoint* const end : ends_) {
    if (end != nullptr) any |= end->Carry();
  }
  return any;
}

absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> MemcpyDevice::Register(
    void* data, size_t size, Access access) {
  return std::make_unique<Region>(this, data, size, access);
}

absl::StatusOr<std::unique_ptr<transport::MemoryWindow>>
MemcpyDevice::AllocateWindow() {
  return std::make_unique<Window>(this);
}

uint32_t MemcpyDevice::NewKey() {
  if (free_keys_.empty()) {
    const auto index = static_cast<uint32_t>(grants_.size());
    grants_.emplace_back().key = index << kGenerationBits;
    return grants_.back().key;
  }
  const uint32_t key = free_keys_.back();
  free_keys_.pop_back();
  return RenewKey(key);
}

uint32_t MemcpyDevice::RenewKey(uint32_t key) {
  constexpr uint32_t kGeneration = (1u << kGenerationBits) - 1;
  const uint32_t renewed = (key & ~kGeneration) | ((key + 1) & kGeneration);
  Grant& grant = grants_[key >> kGenerationBits];
  grant = Grant();
  grant.key = renewed;
  return renewed;
}

void MemcpyDevice::FreeKey(uint32_t key) {
  grants_[key >> kGenerationBits].size = 0;
  free_keys_.push_back(key);
}

void MemcpyDevice::Allow(uint32_t key, void* data, size_t size, Access access) {
  grants_[key >> kGenerationBits] = {key, static_cast<char*>(data), size,
                                     access};
}

bool MemcpyDevice::Invalidate(uint32_t key) {
  const uint32_t index = key >> kGenerationBits;
  if (index >= grants_.size() || grants_[index].key != key) return false;
  return std::exchange(grants_[index].size, 0) > 0;
}

char* MemcpyDevice::Find(RemoteBuffer buffer, size_t size, Access need) const {
  const auto key = static_cast<uint32_t>(buffer.key.value);
  const uint32_t index = key >> kGenerationBits;
  if (index >= grants_.size() || grants_[index].key != key) return nullptr;
  const Grant& grant = grants_[index];
  const uint64_t offset =
      buffer.address - reinterpret_cast<uintptr_t>(grant.data);
  if (offset > grant.size || size > grant.size - offset ||
      !transport::Has(grant.access, need)) {
    return nullptr;
  }
  return grant.data + offset;
}

}  // namespace skiff::protocol
