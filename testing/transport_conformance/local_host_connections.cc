// A local host's connections.
#include <sys/epoll.h>

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/local_host.h"
#include "testing/transport_conformance/local_host_parts.h"

namespace skiff::testing {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Text(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::Status LocalHost::Waker::Watch() {
  if (fd_ >= 0) return absl::OkStatus();
  absl::Status status = reactor_->WatchFd(queue_->fd(), EPOLLIN, this);
  if (status.ok()) fd_ = queue_->fd();
  return status;
}

LocalHost::LocalHost(TransportWorld* world, Side side,
                     const ConformanceScale& scale)
    : world_(world), side_(side), scale_(scale) {}

LocalHost::~LocalHost() {
  listeners_.clear();
  for (const auto& end : ends_) end->waker.reset();
}

LocalHost::End* LocalHost::NewEnd(const EndPlan& plan,
                                  transport::Reactor* reactor) {
  ends_.push_back(std::make_unique<End>());
  End* end = ends_.back().get();
  end->number = static_cast<int>(ends_.size()) - 1;
  end->plan = plan;
  end->reactor = reactor;
  return end;
}

void LocalHost::FillOptions(End* end, transport::ConnectOptions* options) {
  const EndPlan& plan = end->plan;
  const auto bytes = Bytes(plan.private_data);
  options->timeout = plan.timeout;
  options->private_data.assign(bytes.begin(), bytes.end());
  options->read_depth = plan.read_depth;
  options->send_queue = plan.send_queue;
  options->receive_queue = plan.receive_queue;
  options->max_sges = plan.max_sges;
  options->inline_bytes = plan.inline_bytes;
  if (plan.queue >= 0 || plan.receive_queue_of_device != 0) {
    options->resources = [this, end](transport::MemoryDomain& domain) {
      CheckNotNested("resources");
      return MakeResources(end, domain);
    };
  }
  options->prepare = [this, end](transport::RdmaEndpoint& endpoint) {
    CheckNotNested("prepare");
    return Prepare(end, endpoint);
  };
  if (!plan.private_data_when_prepared.empty()) {
    options->private_data_of = [this, end](transport::RdmaEndpoint& endpoint) {
      CheckNotNested("private_data_of");
      return PrivateDataOf(end, endpoint);
    };
  }
  options->on_disconnect = [this, end](transport::RdmaEndpoint& endpoint) {
    CheckNotNested("on_disconnect");
    ++end->state.disconnects;
    if (&endpoint != end->endpoint.get()) {
      Violation(absl::StrCat(Name(*end),
                             ": on_disconnect ran for an endpoint that its "
                             "user does not have"));
    }
    if (endpoint.connected()) {
      Violation(absl::StrCat(Name(*end),
                             ": on_disconnect ran while connected() is true"));
    }
  };
}

absl::StatusOr<transport::EndpointResources> LocalHost::MakeResources(
    End* end, transport::MemoryDomain& domain) {
  transport::EndpointResources resources;
  resources.receive_queue = end->plan.receive_queue_of_device;
  if (end->plan.queue < 0) return resources;
  Queue& queue = *queues_[end->plan.queue];
  if (queue.completions == nullptr) {
    auto made = domain.CreateCompletionQueue(end->reactor, queue.entries);
    if (!made.ok()) return made.status();
    queue.completions = *std::move(made);
  }
  if (queue.receives > 0 && !queue.had_shared) {
    auto made = domain.CreateSharedReceiveQueue(end->reactor, queue.receives,
                                                end->plan.max_sges);
    if (!made.ok()) return made.status();
    queue.shared = *std::move(made);
    queue.had_shared = true;
  }
  resources.completion_queue = queue.completions.get();
  if (end->plan.share_receives) {
    resources.shared_receive_queue = queue.shared.get();
  }
  return resources;
}

absl::Status LocalHost::Prepare(End* end, transport::RdmaEndpoint& endpoint) {
  end->raw = &endpoint;
  end->exists = true;
  const EndPlan& plan = end->plan;
  if (plan.receives > 0) {
    BufferSpec spec;
    spec.size = plan.receives * plan.receive_bytes;
    end->state.receive_buffer = AddBuffer(spec);
    absl::Status status = RegisterBuffer(end->state.receive_buffer,
                                         endpoint.domain(), spec.access);
    if (!status.ok()) return status;
    Operation receive;
    receive.kind = transport::OperationKind::kReceive;
    for (uint32_t i = 0; i < plan.receives; ++i) {
      receive.pieces = {{end->state.receive_buffer, i * plan.receive_bytes,
                         plan.receive_bytes}};
      if (Post(end->number, receive).result !=
          transport::PostResult::kAccepted) {
        return absl::InternalError(
            absl::StrCat(Name(*end), ": RECEIVE ", i, " of ", plan.receives,
                         " was not accepted inside prepare(), with a receive "
                         "queue of ",
                         plan.receive_queue));
      }
    }
    endpoint.Flush();
  }
  if (plan.prepare_error.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(plan.prepare_error);
}

std::vector<uint8_t> LocalHost::PrivateDataOf(
    End* end, transport::RdmaEndpoint& endpoint) {
  if (end->raw != &endpoint) {
    Violation(absl::StrCat(Name(*end),
                           ": private_data_of ran for an endpoint that was not "
                           "prepared just before"));
  }
  const auto bytes = Bytes(end->plan.private_data_when_prepared);
  return {bytes.begin(), bytes.end()};
}

void LocalHost::OnMade(End* end, absl::StatusOr<transport::Endpoint> made) {
  CheckNotNested("done");
  if (end->state.phase != EndPhase::kConnecting) {
    Violation(absl::StrCat(Name(*end), ": `done` ran twice"));
    return;
  }
  end->state.phase = made.ok() ? EndPhase::kOpen : EndPhase::kFailed;
  if (!made.ok()) {
    end->state.status = made.status();
    end->exists = false;
    if (end->plan.queue < 0) end->ledger = {};  // They went with their queue.
    if (end->raw != nullptr) end->raw = nullptr;
    return;
  }
  if (auto* stream =
          std::get_if<std::unique_ptr<transport::ByteStream>>(&*made)) {
    end->stream = std::move(*stream);
    return;
  }
  end->endpoint =
      std::get<std::unique_ptr<transport::RdmaEndpoint>>(*std::move(made));
  if (end->raw != end->endpoint.get()) {
    Violation(absl::StrCat(Name(*end),
                           ": prepare() saw another endpoint than `done`"));
  }
  end->raw = end->endpoint.get();
}

absl::StatusOr<int> LocalHost::Listen(const ListenPlan& plan) {
  auto record = std::make_unique<Listener>();
  record->plan = plan;
  transport::ListenOptions options;
  options.backlog = plan.backlog;
  options.on_failure = [listener = record.get()](absl::Status why) {
    listener->state.failure = std::move(why);
  };
  ++calls_;
  auto made = world_->transport(side_)->Listen(
      world_->reactor(side_), world_->listen_address(), options,
      [this, listener = record.get()](
          std::unique_ptr<transport::ConnectionRequest> request) {
        OnRequest(listener, std::move(request));
      });
  --calls_;
  if (!made.ok()) return made.status();
  record->listener = *std::move(made);
  listeners_.push_back(std::move(record));
  return static_cast<int>(listeners_.size()) - 1;
}

void LocalHost::OnRequest(
    Listener* listener, std::unique_ptr<transport::ConnectionRequest> request) {
  CheckNotNested("on_request");
  ListenerState* const state = &listener->state;
  state->private_data.push_back(Text(request->private_data()));
  state->local_addresses.push_back(request->local_address());
  state->peer_addresses.push_back(request->peer_address());
  const ListenPlan& plan = listener->plan;
  switch (plan.answer) {
    case Answer::kReject:
      request->Reject(Bytes(plan.reject_private_data));
      return;
    case Answer::kIgnore:
      listener->kept.push_back(std::move(request));
      return;
    case Answer::kDrop:
      return;
    case Answer::kAccept:
    case Answer::kAcceptOnOtherReactor:
      break;
  }
  const bool other = plan.answer == Answer::kAcceptOnOtherReactor;
  End* end = NewEnd(plan.accept,
                    other ? world_->AddReactor(side_) : world_->reactor(side_));
  listener->state.ends.push_back(end->number);
  transport::AcceptOptions options;
  FillOptions(end, &options);
  request->Accept(end->reactor, options,
                  [this, end](absl::StatusOr<transport::Endpoint> made) {
                    OnMade(end, std::move(made));
                  });
}

std::string LocalHost::ListenAddress(int listener) {
  return listeners_[listener]->listener->address().ToString();
}

std::vector<std::string> LocalHost::ListenAddresses(int listener) {
  std::vector<std::string> out;
  for (const transport::Address& address :
       listeners_[listener]->listener->addresses()) {
    out.push_back(address.ToString());
  }
  return out;
}

ListenerState LocalHost::StateOfListener(int listener) {
  return listeners_[listener]->state;
}

void LocalHost::CloseListener(int listener) {
  listeners_[listener]->listener.reset();
  listeners_[listener]->kept.clear();
}

int LocalHost::Connect(const std::string& address, const EndPlan& plan) {
  End* end = NewEnd(plan, world_->reactor(side_));
  auto parsed = transport::Address::Parse(address);
  if (!parsed.ok()) {
    end->state.phase = EndPhase::kFailed;
    end->state.status = parsed.status();
    return end->number;
  }
  transport::ConnectOptions options;
  FillOptions(end, &options);
  ++calls_;
  auto attempt = world_->transport(side_)->Connect(
      end->reactor, *parsed, options,
      [this, end](absl::StatusOr<transport::Endpoint> made) {
        OnMade(end, std::move(made));
      });
  --calls_;
  if (attempt.ok()) {
    end->attempt = *std::move(attempt);
  } else {
    end->state.phase = EndPhase::kFailed;
    end->state.status = attempt.status();
  }
  return end->number;
}

void LocalHost::CancelConnect(int number) {
  End* end = ends_[number].get();
  ++calls_;
  end->attempt.reset();
  --calls_;
  if (end->state.phase != EndPhase::kConnecting) return;
  end->exists = false;
  end->raw = nullptr;
  if (end->plan.queue < 0) end->ledger = {};
}

EndState LocalHost::State(int number) {
  const End& end = *ends_[number];
  EndState state = end.state;
  state.outstanding = end.ledger.outstanding.size();
  if (end.endpoint != nullptr) {
    state.connected = end.endpoint->connected();
    state.error = end.endpoint->error();
    state.peer_private_data = Text(end.endpoint->peer_private_data());
    state.local_address = end.endpoint->local_address();
    state.peer_address = end.endpoint->peer_address();
    state.scheme = std::string(end.endpoint->scheme());
    state.capabilities = end.endpoint->capabilities();
  } else if (end.stream != nullptr) {
    state.error = end.stream->error();
    state.connected = state.error.ok();
    state.local_address = end.stream->local_address();
    state.peer_address = end.stream->peer_address();
    state.scheme = std::string(end.stream->scheme());
  }
  return state;
}

transport::Capabilities LocalHost::DeviceCapabilities(int end) {
  transport::RdmaEndpoint* endpoint = ends_[end]->raw;
  if (endpoint == nullptr) return world_->transport(side_)->capabilities();
  return endpoint->domain()->capabilities();
}

void LocalHost::Disconnect(int number) {
  End* end = ends_[number].get();
  ++calls_;
  if (end->endpoint != nullptr) end->endpoint->Disconnect();
  if (end->stream != nullptr) end->stream->Abort();
  --calls_;
}

void LocalHost::Destroy(int number) {
  End* end = ends_[number].get();
  // With a queue of its own, what nobody polled goes with it.
  Drain(QueueOf(*end));
  end->waker.reset();
  end->exists = false;
  end->raw = nullptr;
  ++calls_;
  end->attempt.reset();
  end->endpoint.reset();
  end->stream.reset();
  --calls_;
  if (end->plan.queue < 0) {
    end->ledger.outstanding.clear();
    end->ledger.sends.clear();
    end->ledger.receives.clear();
  }
}

int LocalHost::NewQueue(uint32_t entries, uint32_t receives) {
  queues_.push_back(std::make_unique<Queue>());
  queues_.back()->entries = entries;
  queues_.back()->receives = receives;
  return static_cast<int>(queues_.size()) - 1;
}

}  // namespace skiff::testing
