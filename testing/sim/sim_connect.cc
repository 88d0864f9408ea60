#include "testing/sim/sim_connect.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace skiff::testing {

using transport::AcceptOptions;
using transport::ConnectOptions;
using transport::Endpoint;

absl::StatusOr<std::shared_ptr<SimCompletionQueue>> ChooseCompletionQueue(
    SimReactor* reactor, const ConnectOptions& options) {
  if (options.completion_queue == nullptr) {
    return std::make_shared<SimCompletionQueue>(reactor);
  }
  auto* queue = dynamic_cast<SimCompletionQueue*>(options.completion_queue);
  if (queue == nullptr || queue->reactor() != reactor) {
    return absl::InvalidArgumentError(
        "the completion queue is not the sim backend's, or belongs to another "
        "reactor");
  }
  return queue->shared_from_this();
}

SimConnectAttempt::SimConnectAttempt(SimReactor* reactor,
                                     const transport::Address& address,
                                     const ConnectOptions& options,
                                     std::shared_ptr<SimHandshake> handshake,
                                     std::shared_ptr<SimCompletionQueue> cq,
                                     transport::ConnectCallback done)
    : reactor_(reactor),
      address_(address),
      options_(options),
      handshake_(std::move(handshake)),
      cq_(std::move(cq)),
      done_(std::move(done)),
      timer_(reactor, [this] { OnTimer(); }) {
  handshake_->attempt = this;
  timer_.ScheduleAfter(options_.timeout);
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
    absl::Status status(outcome_->code(),
                        absl::StrCat("connect ", address_.ToString(), ": ",
                                     outcome_->message()));
    outcome_->ForEachPayload(
        [&status](absl::string_view name, const absl::Cord& payload) {
          status.SetPayload(name, payload);
        });
    done(std::move(status));
    return;
  }
  handshake_->attempt = nullptr;
  if (handshake_->stream != nullptr) {
    done(Endpoint(std::make_unique<SimStream>(reactor_, handshake_->stream, 0,
                                              options_)));
  } else {
    done(Endpoint(std::make_unique<SimRdmaEndpoint>(handshake_->rdma, 0, cq_)));
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
  const size_t limit = wire->options().capabilities.max_private_data_bytes;
  if (options.private_data.size() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot accept: ", options.private_data.size(),
                     " bytes of private data exceed the limit of ", limit));
  }
  auto cq = ChooseCompletionQueue(home, options);
  if (!cq.ok()) return cq.status();
  answered_ = true;
  wire->SetServer(domain_, options.private_data, options.read_depth);
  SendVerdict(handshake_, absl::OkStatus());
  return Endpoint(std::make_unique<SimRdmaEndpoint>(wire, 1, *std::move(cq)));
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
          "the sim backend accepts onto a SimReactor only"));
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
