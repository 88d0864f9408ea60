// A local host's memory, operations and completions.
#include "testing/transport_conformance/local_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/local_host_parts.h"

namespace skiff::testing {

using transport::Completion;
using transport::CompletionStatus;
using transport::DamageScope;
using transport::OperationId;
using transport::OperationKind;
using transport::PostResult;

namespace {

// An id names its end, or its shared queue, so that every completion can be
// traced back whatever else is wrong with it.
constexpr uint32_t kGenerationBase = 0x5afe0000;
constexpr uint32_t kSharedBit = 0x80000000;

OperationId MakeId(uint32_t id, int owner, bool shared) {
  return {shared ? id | kSharedBit : id,
          kGenerationBase + static_cast<uint32_t>(owner)};
}

bool IsReceive(OperationKind kind) { return kind == OperationKind::kReceive; }

}  // namespace

void LocalHost::Violation(const std::string& text) {
  violations_.push_back(
      absl::StrCat(side_ == Side::kConnecting ? "connecting" : "listening",
                   " side: ", text));
}

void LocalHost::CheckNotNested(const char* callback) {
  if (calls_ > 0) {
    Violation(absl::StrCat(callback, " ran from inside a call"));
  }
}

std::string LocalHost::Name(const End& end) const {
  return absl::StrCat("end ", end.number);
}

int LocalHost::AddBuffer(const BufferSpec& spec) {
  buffers_.push_back(std::make_unique<Buffer>(spec.size, spec.misalignment));
  return static_cast<int>(buffers_.size()) - 1;
}

absl::Status LocalHost::RegisterBuffer(int buffer,
                                       transport::MemoryDomain* domain,
                                       transport::Access access) {
  GuardedBuffer& memory = buffers_[buffer]->memory;
  auto region = domain->Register(memory.data(), memory.size(), access);
  if (!region.ok()) return region.status();
  buffers_[buffer]->region = *std::move(region);
  return absl::OkStatus();
}

absl::StatusOr<int> LocalHost::NewBuffer(int end, const BufferSpec& spec) {
  const int buffer = AddBuffer(spec);
  if (!spec.registered) return buffer;
  if (ends_[end]->raw == nullptr) {
    return absl::FailedPreconditionError("the end has no endpoint");
  }
  absl::Status status =
      RegisterBuffer(buffer, ends_[end]->raw->domain(), spec.access);
  if (!status.ok()) return status;
  return buffer;
}

transport::RemoteBuffer LocalHost::Remote(int buffer) {
  const transport::MemoryRegion* region = buffers_[buffer]->region.get();
  if (region == nullptr) return {};
  return {region->remote_base(), region->remote_key()};
}

void LocalHost::Deregister(int buffer) { buffers_[buffer]->region.reset(); }

transport::MemoryRegion* LocalHost::region(int buffer) {
  return buffers_[buffer]->region.get();
}

transport::ByteStream* LocalHost::stream(int end) {
  return ends_[end]->stream.get();
}

transport::RdmaEndpoint* LocalHost::endpoint(int end) {
  return ends_[end]->raw;
}

char* LocalHost::data(int buffer) { return buffers_[buffer]->memory.data(); }

void LocalHost::Fill(int buffer, size_t offset, size_t length, uint64_t seed) {
  buffers_[buffer]->memory.Fill(offset, length, seed);
}

int64_t LocalHost::Mismatch(int buffer, size_t offset, size_t length,
                            uint64_t seed, size_t skip) {
  return buffers_[buffer]->memory.Mismatch(offset, length, seed, skip);
}

absl::StatusOr<int> LocalHost::NewWindow(int end) {
  auto window = ends_[end]->raw->domain()->AllocateWindow();
  if (!window.ok()) return window.status();
  windows_.push_back(*std::move(window));
  return static_cast<int>(windows_.size()) - 1;
}

transport::RemoteKey LocalHost::KeyOfWindow(int window) {
  return windows_[window]->remote_key();
}

void LocalHost::DestroyWindow(int window) { windows_[window].reset(); }

std::vector<transport::Sge> LocalHost::Sges(const std::vector<Piece>& pieces) {
  std::vector<transport::Sge> sges;
  for (const Piece& piece : pieces) {
    Buffer& buffer = *buffers_[piece.buffer];
    sges.push_back({buffer.memory.data() + piece.offset, piece.length,
                    piece.unregistered ? nullptr : buffer.region.get()});
  }
  return sges;
}

PostResult LocalHost::PostKind(End* end, OperationId id,
                               const Operation& operation) {
  transport::RdmaEndpoint* endpoint = end->raw;
  const std::vector<transport::Sge> sges = Sges(operation.pieces);
  switch (operation.kind) {
    case OperationKind::kSend:
      if (operation.invalidate) {
        return endpoint->PostSendWithInvalidate(id, sges, operation.key);
      }
      return endpoint->PostSend(id, sges);
    case OperationKind::kReceive:
      return endpoint->PostReceive(id, sges);
    case OperationKind::kRead:
      return endpoint->PostRead(id, sges, operation.remote);
    case OperationKind::kWrite:
      return endpoint->PostWrite(id, sges, operation.remote);
    case OperationKind::kBind: {
      const Piece& piece = operation.pieces.at(0);
      transport::MemoryWindow* window =
          operation.window < 0 ? nullptr : windows_[operation.window].get();
      return endpoint->PostBind(id, window,
                                buffers_[piece.buffer]->region.get(),
                                piece.offset, piece.length, operation.access);
    }
    case OperationKind::kInvalidate:
      return endpoint->PostInvalidate(id, operation.key);
  }
  return PostResult::kClosed;
}

Posted LocalHost::Post(int number, const Operation& operation) {
  End* end = ends_[number].get();
  Posted posted;
  if (end->raw == nullptr) return posted;
  Ledger& ledger = end->ledger;
  posted.id = ledger.next_id;
  ++calls_;
  posted.result = PostKind(end, MakeId(posted.id, number, false), operation);
  --calls_;
  if (posted.result != PostResult::kAccepted) return posted;
  ++ledger.next_id;
  ledger.outstanding[posted.id] = operation.kind;
  (IsReceive(operation.kind) ? ledger.receives : ledger.sends)
      .push_back(posted.id);
  return posted;
}

Posted LocalHost::PostShared(int number, const Operation& receive) {
  Queue& queue = *queues_[number];
  Posted posted;
  if (queue.shared == nullptr) return posted;
  posted.id = queue.ledger.next_id;
  posted.result = queue.shared->PostReceive(MakeId(posted.id, number, true),
                                            Sges(receive.pieces));
  if (posted.result != PostResult::kAccepted) return posted;
  queue.shared->Flush();
  ++queue.ledger.next_id;
  queue.ledger.outstanding[posted.id] = OperationKind::kReceive;
  return posted;
}

void LocalHost::Flush(int end) {
  if (ends_[end]->raw == nullptr) return;
  ++calls_;
  ends_[end]->raw->Flush();
  --calls_;
}

transport::CompletionQueue* LocalHost::QueueOf(const End& end) {
  if (end.plan.queue >= 0) return queues_[end.plan.queue]->completions.get();
  return end.endpoint == nullptr ? nullptr : end.endpoint->completion_queue();
}

std::vector<Arrived> LocalHost::Poll(int number) {
  End& end = *ends_[number];
  Drain(QueueOf(end));
  return std::exchange(end.ledger.arrived, {});
}

std::vector<Arrived> LocalHost::PollShared(int queue) {
  Drain(queues_[queue]->completions.get());
  return std::exchange(queues_[queue]->ledger.arrived, {});
}

void LocalHost::DropSharedReceives(int queue) {
  queues_[queue]->shared.reset();
}

void LocalHost::Drain(transport::CompletionQueue* queue) {
  if (queue == nullptr) return;
  Completion completions[16];
  while (true) {
    const int count = queue->Poll(absl::MakeSpan(completions));
    if (count < 0 || count > 16) {
      Violation(absl::StrCat("Poll() of 16 completions returned ", count));
      return;
    }
    for (int i = 0; i < count; ++i) Check(completions[i]);
    if (count == 0) return;
  }
}

void LocalHost::Check(const Completion& completion) {
  const bool shared = (completion.id.index & kSharedBit) != 0;
  const uint32_t owner = completion.id.generation - kGenerationBase;
  if (owner >= (shared ? queues_.size() : ends_.size())) {
    Violation(absl::StrCat("a completion has an id that was never posted: ",
                           completion.id.index, "/", completion.id.generation));
    return;
  }
  Arrived arrived;
  arrived.id = completion.id.index & ~kSharedBit;
  arrived.kind = completion.kind;
  arrived.status = completion.status;
  arrived.scope = completion.scope;
  arrived.bytes = completion.bytes;
  arrived.invalidated = completion.invalidated;
  arrived.invalidated_key = completion.invalidated_key.value;
  arrived.orphan = completion.endpoint == nullptr;
  arrived.shared = shared;
  const std::string who = absl::StrCat(shared ? "shared queue " : "end ", owner,
                                       ", operation ", arrived.id);
  CheckStatus(completion, who);
  if (!shared) {
    const End& end = *ends_[owner];
    if (completion.endpoint != (end.exists ? end.raw : nullptr)) {
      Violation(absl::StrCat(
          who, end.exists ? ": the completion names another endpoint"
                          : ": the endpoint is gone, and its completion still "
                            "names one"));
    }
    CheckOrder(&ends_[owner]->ledger, arrived, who);
    ends_[owner]->ledger.arrived.push_back(arrived);
    return;
  }
  CheckOrder(&queues_[owner]->ledger, arrived, who);
  for (const auto& end : ends_) {
    if (!arrived.orphan && end->exists && end->raw == completion.endpoint) {
      end->ledger.arrived.push_back(arrived);
      return;
    }
  }
  if (!arrived.orphan) {
    Violation(absl::StrCat(who, ": the completion names no endpoint of ours"));
  }
  queues_[owner]->ledger.arrived.push_back(arrived);
}

void LocalHost::CheckStatus(const Completion& completion,
                            const std::string& who) {
  const bool ok = completion.status == CompletionStatus::kOk;
  if (ok != (completion.scope == DamageScope::kNone)) {
    Violation(
        absl::StrCat(who, ok ? ": a good completion has a scope of damage"
                             : ": a failed completion has no scope of damage"));
  }
}

void LocalHost::CheckOrder(Ledger* ledger, const Arrived& arrived,
                           const std::string& who) {
  auto found = ledger->outstanding.find(arrived.id);
  if (found == ledger->outstanding.end()) {
    Violation(absl::StrCat(who, arrived.id < ledger->next_id
                                    ? " completed twice"
                                    : " completed and was never posted"));
    return;
  }
  if (found->second != arrived.kind) {
    Violation(absl::StrCat(
        who, " completed as another kind: ", static_cast<int>(arrived.kind),
        " instead of ", static_cast<int>(found->second)));
  }
  const bool receive = IsReceive(found->second);
  ledger->outstanding.erase(found);
  if (arrived.shared) return;  // Endpoints of a shared queue overtake.
  std::deque<uint32_t>& order = receive ? ledger->receives : ledger->sends;
  if (!order.empty() && order.front() != arrived.id) {
    Violation(absl::StrCat(who, " completed before operation ", order.front(),
                           ", which was posted earlier to the same queue"));
  }
  order.erase(std::find(order.begin(), order.end(), arrived.id));
}

bool LocalHost::Arm(int number) {
  End& end = *ends_[number];
  transport::CompletionQueue* queue = QueueOf(end);
  if (end.waker == nullptr) {
    end.waker = std::make_unique<Waker>(end.reactor, queue);
    const absl::Status status = end.waker->Watch();
    if (!status.ok()) Violation(status.ToString());
  }
  end.waker->TakeWoken();
  return queue->Arm();
}

bool LocalHost::Woken(int number) {
  End& end = *ends_[number];
  return end.waker != nullptr && end.waker->TakeWoken();
}

std::vector<std::string> LocalHost::Violations() {
  return std::exchange(violations_, {});
}

size_t LocalHost::Outstanding() const {
  size_t outstanding = 0;
  for (const auto& end : ends_) outstanding += end->ledger.outstanding.size();
  return outstanding;
}

void LocalHost::Finish() {
  for (const auto& end : ends_) {
    end->waker.reset();
    if (end->state.phase == EndPhase::kConnecting) CancelConnect(end->number);
    Disconnect(end->number);
  }
  world_->RunUntil(
      [this] {
        for (const auto& end : ends_) Drain(QueueOf(*end));
        return Outstanding() == 0;
      },
      scale_.patience);
  for (const auto& end : ends_) {
    for (const auto& [id, kind] : end->ledger.outstanding) {
      Violation(absl::StrCat(Name(*end), ", operation ", id, " of kind ",
                             static_cast<int>(kind),
                             " never completed, although the connection "
                             "ended"));
    }
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const std::string broken = buffers_[i]->memory.BrokenGuard();
    if (!broken.empty()) {
      Violation(absl::StrCat("buffer ", i, " was overwritten ", broken));
    }
  }
}

}  // namespace skiff::testing
