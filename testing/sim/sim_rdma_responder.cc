// The queue pair as the one that answers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/sim/sim_rdma.h"

namespace skiff::testing {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::Sge;

namespace {

// SimDefect::kLateWrite. A WRITE that tests leave under way is shorter: its
// memory may be gone by then.
constexpr size_t kLongWrite = size_t{64} << 10;
constexpr absl::Duration kLateBy = absl::Microseconds(50);

// Copies between a request's bytes and scattered memory.
std::string Gather(const SimRdmaWire::Request& request) {
  if (request.is_inline) return request.inline_data;
  std::string data;
  data.reserve(request.length);
  for (const Sge& sge : request.sges) {
    data.append(static_cast<const char*>(sge.data), sge.length);
  }
  return data;
}

void Scatter(const std::string& data, absl::Span<const Sge> to) {
  size_t offset = 0;
  for (const Sge& sge : to) {
    const size_t size = std::min(sge.length, data.size() - offset);
    if (size == 0) break;
    std::memcpy(sge.data, data.data() + offset, size);
    offset += size;
  }
}

size_t TotalLength(absl::Span<const Sge> sges) {
  size_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  return length;
}

}  // namespace

std::deque<SimReceive>& SimRdmaWire::ReceivesOf(int side) {
  QueuePair& qp = qps_[side];
  return qp.resources.srq != nullptr ? qp.resources.srq->receives()
                                     : qp.receives;
}

void SimRdmaWire::ScheduleInbound(int side) {
  world_->After(absl::ZeroDuration(), [self = shared_from_this(), side] {
    self->ProcessInbound(side);
  });
}

void SimRdmaWire::Arrive(int side, const std::shared_ptr<Request>& request) {
  if (request->cancelled) return;
  if (!qps_[side].connected) {
    // A broken queue pair answers nothing but that it is broken.
    pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side] {
      self->Break(peer, absl::UnavailableError(absl::StrCat(
                            "sim://", self->qps_[1 - peer].side.address,
                            " has no such connection any more")));
    });
    return;
  }
  qps_[side].inbound.push_back(request);
  ProcessInbound(side);
}

void SimRdmaWire::ProcessInbound(int side) {
  QueuePair& qp = qps_[side];
  // Until its user has the endpoint, what arrives waits.
  while (qp.connected && qp.cq != nullptr && !qp.inbound.empty()) {
    const auto request = qp.inbound.front();
    if (request->cancelled) {
      qp.inbound.pop_front();
      continue;
    }
    if (request->kind == OperationKind::kSend && ReceivesOf(side).empty()) {
      WaitForReceive(side, request);
      return;
    }
    qp.inbound.pop_front();
    if (Strikes(/*local=*/false)) {
      Refuse(side, request, options_.failure->status,
             absl::InternalError("a failure that a test asked for"));
      return;
    }
    if (request->kind != OperationKind::kSend && TransfersBreak()) {
      Refuse(side, request, CompletionStatus::kTransportError,
             absl::UnavailableError("WRITEs and READs do not get through"));
      return;
    }
    switch (request->kind) {
      case OperationKind::kSend:
        HandleSend(side, request);
        break;
      case OperationKind::kWrite:
        HandleWrite(side, request);
        break;
      case OperationKind::kRead:
        HandleRead(side, request);
        break;
      case OperationKind::kReceive:
      case OperationKind::kBind:
      case OperationKind::kInvalidate:
        break;
    }
  }
}

void SimRdmaWire::WaitForReceive(int side,
                                 const std::shared_ptr<Request>& request) {
  QueuePair& qp = qps_[side];
  const absl::Status why = absl::ResourceExhaustedError(
      absl::StrCat("a message from sim://", qps_[1 - side].side.address,
                   " met no posted RECEIVE"));
  const absl::Duration timeout = options_.receiver_not_ready_timeout;
  if (timeout <= absl::ZeroDuration()) {
    Refuse(side, request, CompletionStatus::kRemoteNotReady, why);
    return;
  }
  if (qp.resources.srq != nullptr) {
    qp.resources.srq->WaitForReceive(weak_from_this(), side);
  }
  if (qp.waiting_for_receive) return;
  qp.waiting_for_receive = true;
  if (timeout == absl::InfiniteDuration()) return;
  world_->After(timeout, [self = shared_from_this(), side, request, why,
                          epoch = ++qp.wait_epoch] {
    QueuePair& qp = self->qps_[side];
    if (qp.waiting_for_receive && qp.wait_epoch == epoch) {
      self->Refuse(side, request, CompletionStatus::kRemoteNotReady, why);
    }
  });
}

bool SimRdmaWire::TransfersBreak() const {
  return options_.transfers_break != nullptr && *options_.transfers_break;
}

bool SimRdmaWire::StrikesReceive() const {
  SimFailure* const failure = options_.failure.get();
  return failure != nullptr && failure->of_receives &&
         ++failure->seen == failure->nth;
}

void SimRdmaWire::HandleSend(int side,
                             const std::shared_ptr<Request>& request) {
  QueuePair& qp = qps_[side];
  qp.waiting_for_receive = false;
  std::deque<SimReceive>& receives = ReceivesOf(side);
  const SimReceive receive = std::move(receives.front());
  receives.pop_front();
  Completion completion;
  completion.id = receive.id;
  completion.kind = OperationKind::kReceive;
  if (StrikesReceive()) {
    completion.status = options_.failure->status;
    Complete(side, completion);
    Refuse(side, request, CompletionStatus::kTransportError,
           absl::InternalError("a failure that a test asked for"));
    return;
  }
  if (receive.sges.size() > options_.capabilities.max_receive_sges ||
      !CoversSges(side, receive.sges)) {
    completion.status = CompletionStatus::kLocalError;
    Complete(side, completion);
    Refuse(side, request, CompletionStatus::kTransportError,
           absl::InvalidArgumentError(
               "a RECEIVE names memory that is not registered here"));
    return;
  }
  if (request->length > TotalLength(receive.sges)) {
    completion.status = CompletionStatus::kTooLong;
    Complete(side, completion);
    Refuse(side, request, CompletionStatus::kTooLong,
           absl::OutOfRangeError(absl::StrCat(
               "a message of ", request->length, " bytes from sim://",
               qps_[1 - side].side.address, " met a RECEIVE of ",
               TotalLength(receive.sges), " bytes")));
    return;
  }
  if (request->invalidate && defect_ != SimDefect::kIgnoredInvalidate) {
    if (!qp.side.domain->Invalidate(IdOf(side), request->invalidate_key)) {
      receives.push_front(receive);
      Refuse(side, request, CompletionStatus::kRemoteAccess,
             absl::PermissionDeniedError(
                 absl::StrCat("sim://", qps_[1 - side].side.address,
                              " invalidates a key that is not in use")));
      return;
    }
    completion.invalidated = true;
    completion.invalidated_key = request->invalidate_key;
  }
  if (defect_ != SimDefect::kStaleBuffer || request->number % 8 != 7) {
    Scatter(Gather(*request), receive.sges);
  }
  completion.bytes = static_cast<uint32_t>(
      request->length + (defect_ == SimDefect::kWrongByteCount ? 1 : 0));
  Complete(side, completion);
  Acknowledge(side, request, CompletionStatus::kOk);
  CountBytes(request->length);
}

void SimRdmaWire::HandleWrite(int side,
                              const std::shared_ptr<Request>& request) {
  const std::string data = Gather(*request);
  if (!data.empty()) {
    char* target = qps_[side].side.domain->Find(
        IdOf(side), request->remote, data.size(), Access::kRemoteWrite,
        defect_ != SimDefect::kUncheckedBounds);
    if (target != nullptr) {
      Place(data, target);
    } else if (defect_ != SimDefect::kUncheckedRemoteAccess) {
      Refuse(side, request, CompletionStatus::kRemoteAccess,
             absl::PermissionDeniedError(
                 absl::StrCat("sim://", qps_[1 - side].side.address,
                              " writes where it may not")));
      return;
    }
  }
  Acknowledge(side, request, CompletionStatus::kOk);
  CountBytes(data.size());
}

void SimRdmaWire::Place(const std::string& data, char* target) {
  size_t now = data.size();
  if (defect_ == SimDefect::kLateWrite && now > kLongWrite) {
    now /= 2;
    world_->After(kLateBy, [late = data.substr(now), target = target + now] {
      std::memcpy(target, late.data(), late.size());
    });
  }
  std::memcpy(target, data.data(), now);
}

void SimRdmaWire::HandleRead(int side,
                             const std::shared_ptr<Request>& request) {
  ShowSinks(*request);
  std::string data(request->length, '\0');
  if (!data.empty()) {
    const char* source = qps_[side].side.domain->Find(
        IdOf(side), request->remote, data.size(), Access::kRemoteRead,
        defect_ != SimDefect::kUncheckedBounds);
    if (source != nullptr) {
      std::memcpy(data.data(), source, data.size());
    } else if (defect_ != SimDefect::kUncheckedRemoteAccess) {
      Refuse(side, request, CompletionStatus::kRemoteAccess,
             absl::PermissionDeniedError(
                 absl::StrCat("sim://", qps_[1 - side].side.address,
                              " reads where it may not")));
      return;
    }
  }
  if (defect_ == SimDefect::kEarlyReadCompletion) {
    Finish(1 - side, request, CompletionStatus::kOk);
  }
  const size_t size = data.size();
  pipes_[side].Send(size, [self = shared_from_this(), peer = 1 - side, request,
                           data = std::move(data)] {
    self->FinishRead(peer, request, data);
  });
}

void SimRdmaWire::ShowSinks(const Request& request) const {
  if (options_.shown_sinks == nullptr ||
      !options_.capabilities.read_sink_needs_remote_write) {
    return;
  }
  for (const transport::Sge& sge : request.sges) {
    if (sge.region == nullptr) continue;
    const auto offset = static_cast<const char*>(sge.data) -
                        static_cast<const char*>(sge.region->data());
    options_.shown_sinks->push_back(
        {sge.region->remote_base() + static_cast<uint64_t>(offset),
         sge.region->remote_key()});
  }
}

void SimRdmaWire::Acknowledge(int side, const std::shared_ptr<Request>& request,
                              CompletionStatus status) {
  pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side, request,
                        status] { self->Finish(peer, request, status); });
}

void SimRdmaWire::Refuse(int side, const std::shared_ptr<Request>& request,
                         CompletionStatus status, absl::Status why) {
  Break(side, std::move(why));
  Acknowledge(side, request, status);
}

// For LinkOptions::reset_after_bytes.
void SimRdmaWire::CountBytes(size_t bytes) {
  if (bytes_left_ == 0) return;
  if (bytes < bytes_left_) {
    bytes_left_ -= bytes;
    return;
  }
  bytes_left_ = 0;
  FaultReset();
}

}  // namespace skiff::testing
