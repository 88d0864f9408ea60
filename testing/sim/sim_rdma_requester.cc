// The queue pair as the one that posts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/sim/sim_rdma.h"

namespace skiff::testing {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::DamageScope;
using transport::OperationId;
using transport::OperationKind;
using transport::PostResult;
using transport::Sge;

std::shared_ptr<SimRdmaWire> SimRdmaWire::Create(SimWorld* world, Side client,
                                                 Side server,
                                                 const SimRdmaOptions& options,
                                                 SimDefect defect) {
  return std::shared_ptr<SimRdmaWire>(new SimRdmaWire(
      world, std::move(client), std::move(server), options, defect));
}

SimRdmaWire::SimRdmaWire(SimWorld* world, Side client, Side server,
                         const SimRdmaOptions& options, SimDefect defect)
    : world_(world),
      options_(options),
      defect_(defect),
      pipes_{{world, client.host, server.host, this},
             {world, server.host, client.host, this}},
      bytes_left_(
          world->network().link(client.host, server.host).reset_after_bytes),
      entry_(&world->network(), client.host, server.host, this) {
  qps_[0].side = std::move(client);
  qps_[1].side = std::move(server);
}

uint32_t SimRdmaWire::read_depth() const {
  return std::min({options_.capabilities.max_read_depth,
                   qps_[0].side.read_depth, qps_[1].side.read_depth});
}

void SimRdmaWire::Attach(int side, SimRdmaEndpoint* endpoint,
                         const Resources& resources) {
  QueuePair& qp = qps_[side];
  qp.endpoint = endpoint;
  qp.resources = resources;
  qp.shared_slots = resources.srq;
  qp.cq = resources.cq;
  qp.cq->set_deaf(defect_ == SimDefect::kMissedArm);
  ScheduleInbound(side);
}

void SimRdmaWire::Detach(int side) {
  QueuePair& qp = qps_[side];
  if (qp.cq != nullptr) {
    qp.cq->Release(this, side,
                   qp.resources.send_queue + qp.resources.receive_queue);
  }
  if (qp.side.domain != nullptr) qp.side.domain->RemoveQueuePair(IdOf(side));
  qp.endpoint = nullptr;
  qp.cq = nullptr;
  qp.resources.cq = nullptr;  // Its entries keep this alive.
  qp.resources.srq = nullptr;
}

void SimRdmaWire::SetServer(std::shared_ptr<SimDomain> domain,
                            uint32_t read_depth) {
  Side& server = qps_[1].side;
  server.domain = std::move(domain);
  server.read_depth = read_depth;
}

transport::RdmaEndpoint* SimRdmaWire::endpoint_of(int side) const {
  return qps_[side].endpoint;
}

void SimRdmaWire::OnPolled(int side, OperationKind kind) {
  QueuePair& qp = qps_[side];
  const auto shared = qp.shared_slots.lock();
  if (kind == OperationKind::kReceive && shared != nullptr) {
    shared->OnPolled();
    return;
  }
  if (kind == OperationKind::kReceive) {
    if (qp.used_receives > 0) --qp.used_receives;
    return;
  }
  const bool leak = defect_ == SimDefect::kCreditLeak && ++qp.polled % 16 == 0;
  if (qp.used_requests > 0 && !leak) --qp.used_requests;
  if (kind == OperationKind::kRead && qp.used_reads > 0) --qp.used_reads;
}

PostResult SimRdmaWire::PostReceive(int side, OperationId id,
                                    absl::Span<const Sge> to) {
  QueuePair& qp = qps_[side];
  if (!qp.connected || qp.resources.srq != nullptr) return PostResult::kClosed;
  if (qp.used_receives >= qp.resources.receive_queue) {
    return PostResult::kWouldBlock;
  }
  ++qp.used_receives;
  qp.receives.push_back({id, {to.begin(), to.end()}});
  if (qp.waiting_for_receive) ScheduleInbound(side);
  return PostResult::kAccepted;
}

PostResult SimRdmaWire::PostRequest(int side,
                                    std::shared_ptr<Request> request) {
  QueuePair& qp = qps_[side];
  if (!qp.connected) return PostResult::kClosed;
  if (qp.used_requests >= qp.resources.send_queue) {
    return PostResult::kWouldBlock;
  }
  const bool is_read = request->kind == OperationKind::kRead;
  if (is_read && qp.used_reads >= read_depth() &&
      defect_ != SimDefect::kUnboundedReadDepth) {
    return PostResult::kWouldBlock;
  }
  ++qp.used_requests;
  if (is_read) ++qp.used_reads;
  if (!is_read && request->length <= qp.resources.inline_bytes) {
    request->is_inline = true;
    for (const Sge& sge : request->sges) {
      request->inline_data.append(static_cast<const char*>(sge.data),
                                  sge.length);
    }
  }
  request->number = next_number_++;
  qp.requests.push_back(std::move(request));
  ++qp.held;
  if (!options_.hold_until_flush) Flush(side);
  return PostResult::kAccepted;
}

void SimRdmaWire::Flush(int side) {
  QueuePair& qp = qps_[side];
  while (qp.connected && qp.held > 0) {
    const auto request = qp.requests[qp.requests.size() - qp.held];
    --qp.held;
    if (!qp.stopped) Transmit(side, request);
  }
}

bool SimRdmaWire::RunLocally(int side, const Request& request) {
  SimDomain& domain = *qps_[side].side.domain;
  if (request.kind == OperationKind::kInvalidate) {
    return domain.InvalidateWindow(IdOf(side), request.remote.key);
  }
  const bool bound =
      request.region != nullptr &&
      domain.Bind(IdOf(side), *request.window, request.remote.key,
                  *request.region, request.offset, request.bind_length,
                  request.access);
  if (bound && defect_ == SimDefect::kLastingWindow) {
    domain.Outlast(request.remote.key);
  }
  return bound;
}

// Whether this is the operation that is to fail.
bool SimRdmaWire::Strikes(bool local) const {
  SimFailure* const failure = options_.failure.get();
  return failure != nullptr && !failure->of_receives &&
         (failure->status == CompletionStatus::kLocalError) == local &&
         ++failure->seen == failure->nth;
}

void SimRdmaWire::Transmit(int side, const std::shared_ptr<Request>& request) {
  const bool local = request->kind == OperationKind::kBind ||
                     request->kind == OperationKind::kInvalidate;
  const bool strikes = Strikes(/*local=*/true);
  if (local && !strikes && RunLocally(side, *request)) {
    world_->After(absl::ZeroDuration(),
                  [self = shared_from_this(), side, request] {
                    self->Finish(side, request, CompletionStatus::kOk);
                  });
    return;
  }
  if (local || strikes || !LocallyValid(side, *request)) {
    qps_[side].stopped = true;
    // Completed by the device some time later, never within the post.
    world_->After(absl::ZeroDuration(),
                  [self = shared_from_this(), side, request] {
                    self->Finish(side, request, CompletionStatus::kLocalError);
                  });
    return;
  }
  const size_t on_the_way =
      request->kind == OperationKind::kRead ? 0 : request->length;
  pipes_[side].Send(on_the_way, [self = shared_from_this(), peer = 1 - side,
                                 request] { self->Arrive(peer, request); });
  const bool early = (defect_ == SimDefect::kEarlySendCompletion &&
                      request->kind == OperationKind::kSend) ||
                     (defect_ == SimDefect::kEarlyWriteCompletion &&
                      request->kind == OperationKind::kWrite);
  if (early && !request->is_inline) {
    Finish(side, request, CompletionStatus::kOk);
  }
}

bool SimRdmaWire::CoversSges(int side, absl::Span<const Sge> sges) const {
  for (const Sge& sge : sges) {
    if (sge.length == 0) continue;
    const auto* region = dynamic_cast<const SimRegion*>(sge.region);
    if (region == nullptr || region->domain() != qps_[side].side.domain.get()) {
      return false;
    }
    const auto begin = reinterpret_cast<uintptr_t>(sge.data);
    const auto base = reinterpret_cast<uintptr_t>(region->data());
    if (begin < base || begin - base > region->size() ||
        sge.length > region->size() - (begin - base)) {
      return false;
    }
  }
  return true;
}

bool SimRdmaWire::LocallyValid(int side, const Request& request) const {
  const transport::Capabilities& caps = options_.capabilities;
  switch (request.kind) {
    case OperationKind::kSend:
      if (request.length > caps.max_message_bytes) return false;
      if (request.invalidate && !caps.send_with_invalidate) return false;
      break;
    case OperationKind::kRead:
      if (request.length > caps.max_transfer_bytes) return false;
      if (request.sges.size() > caps.max_read_sges) return false;
      if (!caps.read_sink_needs_remote_write) break;
      for (const Sge& sge : request.sges) {
        if (sge.region == nullptr ||
            !Has(sge.region->access(), Access::kRemoteWrite)) {
          return false;
        }
      }
      break;
    case OperationKind::kWrite:
      if (request.length > caps.max_transfer_bytes) return false;
      break;
    case OperationKind::kReceive:
    case OperationKind::kBind:
    case OperationKind::kInvalidate:
      return false;
  }
  if (request.kind != OperationKind::kRead &&
      request.sges.size() > caps.max_send_sges) {
    return false;
  }
  return request.is_inline || CoversSges(side, request.sges);
}

void SimRdmaWire::FinishRead(int side, const std::shared_ptr<Request>& request,
                             const std::string& data) {
  if (request->cancelled) return;
  size_t offset = 0;
  for (const Sge& sge : request->sges) {
    std::memcpy(sge.data, data.data() + offset, sge.length);
    offset += sge.length;
  }
  CountBytes(data.size());
  Finish(side, request, CompletionStatus::kOk);
}

void SimRdmaWire::Finish(int side, const std::shared_ptr<Request>& request,
                         CompletionStatus status) {
  if (request->cancelled || request->done) return;
  request->done = true;
  request->status = status;
  RetireDone(side);
}

// Completions come in posting order, whatever was done first.
void SimRdmaWire::RetireDone(int side) {
  QueuePair& qp = qps_[side];
  while (qp.connected && !qp.requests.empty() && qp.requests.front()->done) {
    const auto request = qp.requests.front();
    qp.requests.pop_front();
    CompleteRequest(side, *request, request->status);
    if (request->status != CompletionStatus::kOk) {
      Disconnect(side,
                 absl::InternalError(absl::StrCat(
                     "an operation towards sim://", qps_[1 - side].side.address,
                     " failed with completion status ",
                     static_cast<int>(request->status))));
    }
  }
}

void SimRdmaWire::CompleteRequest(int side, const Request& request,
                                  CompletionStatus status) {
  const bool chosen =
      request.kind == OperationKind::kSend && request.number % 8 == 7;
  if (defect_ == SimDefect::kLostCompletion && chosen) return;
  Completion completion;
  completion.id = request.id;
  completion.kind = request.kind;
  completion.status = status;
  Complete(side, completion);
  if (defect_ == SimDefect::kDoubleCompletion && chosen) {
    Complete(side, completion);
  }
}

void SimRdmaWire::Complete(int side, Completion completion) {
  QueuePair& qp = qps_[side];
  if (qp.cq == nullptr) return;  // Never attached: nothing was posted.
  if (completion.status != CompletionStatus::kOk) {
    completion.scope = DamageScope::kConnection;
    completion.provider_code = static_cast<int32_t>(completion.status);
  }
  SimCompletionQueue::Entry entry;
  entry.completion = completion;
  entry.completion.endpoint = qp.endpoint;
  entry.owner = shared_from_this();
  entry.side = side;
  entry.shared =
      qp.resources.srq != nullptr && completion.kind == OperationKind::kReceive;
  entry.keep_endpoint = defect_ == SimDefect::kDanglingEndpoint;
  qp.cq->Push(std::move(entry));
  if (defect_ == SimDefect::kReorderedCompletions) qp.cq->SwapNewest();
}

void SimRdmaWire::Disconnect(int side, absl::Status why) {
  if (!qps_[side].connected) return;
  Break(side, std::move(why));
  pipes_[side].Send(0, [self = shared_from_this(), peer = 1 - side] {
    self->Break(peer, absl::UnavailableError(absl::StrCat(
                          "sim://", self->qps_[1 - peer].side.address,
                          " ended the connection")));
  });
}

void SimRdmaWire::Break(int side, absl::Status why, CompletionStatus first) {
  QueuePair& qp = qps_[side];
  if (!qp.connected) return;
  world_->Trace("break", side);
  qp.connected = false;
  qp.error = std::move(why);
  ++qp.wait_epoch;
  qp.inbound.clear();
  auto requests = std::exchange(qp.requests, {});
  auto receives = std::exchange(qp.receives, {});
  for (const auto& request : requests) request->cancelled = true;
  if (qp.endpoint != nullptr) qp.endpoint->OnEnded();
  if (defect_ == SimDefect::kNoFlush) return;
  for (const auto& request : requests) {
    CompleteRequest(side, *request, request->done ? request->status : first);
    first = CompletionStatus::kFlushed;
  }
  for (const SimReceive& receive : receives) {
    Completion completion;
    completion.id = receive.id;
    completion.kind = OperationKind::kReceive;
    completion.status = CompletionStatus::kFlushed;
    Complete(side, completion);
  }
}

void SimRdmaWire::FaultReset() {
  auto self = shared_from_this();
  for (int side : {0, 1}) {
    pipes_[side].Clear();
    Break(side, absl::UnavailableError(absl::StrCat("connection to sim://",
                                                    qps_[1 - side].side.address,
                                                    " was lost")));
  }
}

void SimRdmaWire::OnStalled(SimPipe* pipe) {
  if (options_.retry_timeout == absl::InfiniteDuration()) return;
  const int stalled = pipe == &pipes_[0] ? 0 : 1;
  world_->After(options_.retry_timeout, [weak = weak_from_this(), stalled,
                                         since = pipe->stalled_since()] {
    auto self = weak.lock();
    if (self == nullptr || self->pipes_[stalled].stalled_since() != since) {
      return;
    }
    // Whoever waits for an answer gives up; a side that only listens cannot
    // know.
    for (int side : {0, 1}) {
      if (self->qps_[side].requests.empty()) continue;
      self->Break(side,
                  absl::DeadlineExceededError(
                      absl::StrCat("sim://", self->qps_[1 - side].side.address,
                                   " did not answer; retries ran out")),
                  CompletionStatus::kTransportError);
    }
  });
}

}  // namespace skiff::testing
