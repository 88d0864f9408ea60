#include "testing/sim/sim_connect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "transport/annotate.h"

namespace skiff::testing {

using transport::AcceptOptions;
using transport::Annotate;
using transport::ConnectOptions;
using transport::Endpoint;

namespace {

// An error if the fabric has less room than the options want.
absl::Status CheckLimits(const transport::Capabilities& caps,
                         const ConnectOptions& options) {
  const struct {
    const char* name;
    uint64_t wanted;
    uint64_t limit;
  } limits[] = {
      {"bytes of private data", options.private_data.size(),
       caps.max_private_data_bytes},
      {"send queue entries", options.send_queue, caps.max_send_queue},
      {"receive queue entries", options.receive_queue, caps.max_receive_queue},
      {"scatter/gather entries", options.max_sges,
       std::min(caps.max_send_sges, caps.max_receive_sges)},
  };
  for (const auto& [name, wanted, limit] : limits) {
    if (wanted <= limit) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        wanted, " ", name, " exceed the limit of ", limit, " of sim0"));
  }
  return absl::OkStatus();
}

// The queues that were wished for, or new ones.
absl::StatusOr<SimRdmaWire::Resources> ChooseResources(
    SimReactor* reactor, const SimDomain& domain,
    const transport::EndpointResources& wanted, const ConnectOptions& options,
    SimDefect defect) {
  SimRdmaWire::Resources resources;
  resources.send_queue = options.send_queue;
  resources.receive_queue = options.receive_queue;
  resources.inline_bytes = std::min<size_t>(
      options.inline_bytes, domain.capabilities().max_inline_bytes);
  if (wanted.shared_receive_queue != nullptr) {
    auto* srq =
        dynamic_cast<SimSharedReceiveQueue*>(wanted.shared_receive_queue);
    if (srq == nullptr || srq->reactor() != reactor) {
      return absl::InvalidArgumentError(
          "the shared receive queue is not the sim transport's, or belongs to "
          "another reactor");
    }
    resources.srq = srq->shared_from_this();
    resources.receive_queue = 0;
  }
  const uint32_t entries = resources.send_queue + resources.receive_queue;
  if (wanted.completion_queue != nullptr) {
    auto* queue = dynamic_cast<SimCompletionQueue*>(wanted.completion_queue);
    if (queue == nullptr || queue->reactor() != reactor) {
      return absl::InvalidArgumentError(
          "the completion queue is not the sim transport's, or belongs to "
          "another reactor");
    }
    resources.cq = queue->shared_from_this();
  } else if (resources.srq != nullptr) {
    return absl::InvalidArgumentError(
        "a shared receive queue needs a completion queue that its endpoints "
        "share");
  } else {
    resources.cq = std::make_shared<SimCompletionQueue>(reactor, entries);
  }
  if (resources.srq != nullptr) {
    absl::Status status = resources.srq->Use(resources.cq);
    if (!status.ok()) return status;
  }
  absl::Status status = resources.cq->Reserve(entries);
  if (!status.ok() && defect != SimDefect::kOverflowingQueue) return status;
  return resources;
}

absl::StatusOr<std::unique_ptr<SimRdmaEndpoint>> MakeEndpoint(
    SimReactor* reactor, const std::shared_ptr<SimRdmaWire>& wire, int side,
    ConnectOptions options) {
  SimDomain& domain = *wire->side(side).domain;
  const auto wanted = transport::ResourcesOf(domain, &options);
  if (!wanted.ok()) return wanted.status();
  const absl::Status fits = CheckLimits(domain.capabilities(), options);
  if (!fits.ok()) return fits;
  auto resources =
      ChooseResources(reactor, domain, *wanted, options, wire->defect());
  if (!resources.ok()) return resources.status();
  auto endpoint = std::make_unique<SimRdmaEndpoint>(
      reactor, wire, side, *resources, options.on_disconnect);
  auto private_data = transport::PrepareEndpoint(*endpoint, options);
  if (!private_data.ok()) return private_data.status();
  wire->SetPrivateData(side, *std::move(private_data));
  return endpoint;
}

}  // namespace

SimConnectAttempt::SimConnectAttempt(SimReactor* reactor,
                                     const transport::Address& address,
                                     const ConnectOptions& options,
                                     std::shared_ptr<SimHandshake> handshake,
                                     absl::AnyInvocable<void()> send_request,
                                     transport::ConnectCallback done)
    : reactor_(reactor),
      address_(address),
      options_(options),
      handshake_(std::move(handshake)),
      send_request_(std::move(send_request)),
      done_(std::move(done)),
      start_(reactor, [this] { Start(); }),
      timer_(reactor, [this] { OnTimer(); }) {
  handshake_->attempt = this;
  if (handshake_->defect() != SimDefect::kIgnoredTimeout) {
    timer_.ScheduleAfter(options_.timeout);
  }
  if (handshake_->rdma == nullptr) {
    send_request_();
  } else {
    start_.ScheduleAt(absl::InfinitePast());
  }
}

void SimConnectAttempt::Start() {
  auto endpoint = MakeEndpoint(reactor_, handshake_->rdma, 0, options_);
  if (!endpoint.ok()) {
    Conclude(endpoint.status());
    return;
  }
  endpoint_ = *std::move(endpoint);
  send_request_();
}

SimConnectAttempt::~SimConnectAttempt() { GiveUp(); }

void SimConnectAttempt::GiveUp() {
  if (handshake_->attempt == nullptr) return;
  handshake_->attempt = nullptr;
  const absl::Status why = absl::CancelledError("the connect was given up");
  if (handshake_->stream != nullptr) {
    handshake_->stream->Reset(0, why);
    handshake_->stream->Close(0);
  } else {
    handshake_->rdma->Disconnect(0, why);
  }
}

void SimConnectAttempt::Conclude(absl::Status why) {
  if (outcome_.has_value()) return;
  outcome_ = std::move(why);
  timer_.ScheduleAt(absl::InfinitePast());
}

void SimConnectAttempt::OnTimer() {
  if (!outcome_.has_value()) {
    outcome_ = absl::DeadlineExceededError(absl::StrCat(
        "no answer within ", absl::FormatDuration(options_.timeout)));
  }
  // The callback may destroy this attempt.
  transport::ConnectCallback done = std::move(done_);
  if (!outcome_->ok()) {
    GiveUp();
    endpoint_.reset();
    done(Annotate(*outcome_, absl::StrCat("connect ", address_.ToString())));
    return;
  }
  handshake_->attempt = nullptr;
  if (handshake_->stream != nullptr) {
    done(Endpoint(std::make_unique<SimStream>(reactor_, handshake_->stream, 0,
                                              options_)));
  } else {
    endpoint_->Announce();
    done(Endpoint(std::move(endpoint_)));
  }
}

void SendVerdict(const std::shared_ptr<SimHandshake>& handshake,
                 absl::Status verdict) {
  handshake->pipe(1).Send(0, [handshake, verdict = std::move(verdict)] {
    if (handshake->attempt != nullptr) handshake->attempt->Conclude(verdict);
  });
}

SimPending::SimPending(std::shared_ptr<SimHandshake> handshake,
                       std::shared_ptr<SimDomain> domain,
                       std::shared_ptr<int> pending)
    : handshake_(std::move(handshake)),
      domain_(std::move(domain)),
      pending_(std::move(pending)) {
  ++*pending_;
}

SimPending::~SimPending() {
  Reject({});
  --*pending_;
}

void SimPending::Reject(absl::Span<const uint8_t> private_data) {
  if (std::exchange(answered_, true)) return;
  if (handshake_->stream != nullptr) {
    handshake_->stream->Reset(1, absl::CancelledError("rejected"));
    handshake_->stream->Close(1);
    return;
  }
  absl::Status verdict =
      absl::UnavailableError("the peer rejected the connection");
  if (!private_data.empty()) {
    verdict.SetPayload(transport::kRejectPrivateData,
                       absl::Cord(absl::string_view(
                           reinterpret_cast<const char*>(private_data.data()),
                           private_data.size())));
  }
  SendVerdict(handshake_, std::move(verdict));
}

absl::StatusOr<Endpoint> SimPending::Take(SimReactor* home,
                                          const AcceptOptions& options) {
  if (handshake_->rdma != nullptr) return TakeRdma(home, options);
  answered_ = true;
  return Endpoint(
      std::make_unique<SimStream>(home, handshake_->stream, 1, options));
}

absl::StatusOr<Endpoint> SimPending::TakeRdma(SimReactor* home,
                                              const AcceptOptions& options) {
  const std::shared_ptr<SimRdmaWire>& wire = handshake_->rdma;
  if (!wire->connected(1)) return wire->error(1);
  wire->SetServer(domain_, options.read_depth);
  auto endpoint = MakeEndpoint(home, wire, 1, options);
  if (!endpoint.ok()) return Annotate(endpoint.status(), "cannot accept");
  answered_ = true;
  SendVerdict(handshake_, absl::OkStatus());
  (*endpoint)->Announce();
  return Endpoint(*std::move(endpoint));
}

absl::Span<const uint8_t> SimRequest::private_data() const {
  if (handshake_.rdma == nullptr) return {};
  return handshake_.rdma->side(0).private_data;
}

void SimRequest::Accept(
    transport::Reactor* home, const AcceptOptions& options,
    absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) {
  auto* reactor = dynamic_cast<SimReactor*>(home);
  home->Post([reactor, options, pending = std::move(pending_),
              done = std::move(done)]() mutable {
    if (reactor == nullptr) {
      done(absl::InvalidArgumentError(
          "the sim transport accepts onto a SimReactor only"));
      return;
    }
    absl::StatusOr<Endpoint> endpoint = pending->Take(reactor, options);
    pending.reset();
    done(std::move(endpoint));
  });
}

void SimRequest::Reject(absl::Span<const uint8_t> private_data) {
  if (pending_ == nullptr) return;
  pending_->Reject(private_data);
  pending_.reset();
}

}  // namespace skiff::testing
