#include "testing/stack/iser_raw_peer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "gtest/gtest.h"

namespace skiff::protocol {

using transport::Access;
using transport::Completion;
using transport::OperationKind;
using transport::RdmaEndpoint;

RawIserPeer::Memory::Memory(transport::MemoryDomain* domain, size_t size,
                            Access access)
    : memory_(size) {
  memory_.Use(size, '\xa5');
  region_ = domain->Register(data(), size, access).value();
}

transport::RemoteBuffer RawIserPeer::Memory::Remote() const {
  return {region_->remote_base(), region_->remote_key()};
}

RawIserPeer::Buffer* RawIserPeer::NewBuffer(std::string bytes, Access access) {
  Buffer& buffer = sends_.emplace_back();
  buffer.bytes = std::move(bytes);
  buffer.region =
      endpoint_->domain()
          ->Register(buffer.bytes.data(), buffer.bytes.size(), access)
          .value();
  return &buffer;
}

void RawIserPeer::Post(RdmaEndpoint& endpoint, uint32_t index) {
  Buffer& buffer = receives_[index];
  const transport::Sge all = {buffer.bytes.data(), buffer.bytes.size(),
                              buffer.region.get()};
  endpoint.PostReceive({index, 0}, {&all, 1});
}

absl::Status RawIserPeer::Prepare(RdmaEndpoint& endpoint) {
  for (uint32_t i = 0; i < kReceives; ++i) {
    Buffer& buffer = receives_.emplace_back();
    buffer.bytes.assign(kReceiveBytes, '\0');
    auto region = endpoint.domain()->Register(
        buffer.bytes.data(), buffer.bytes.size(), Access::kLocal);
    if (!region.ok()) return region.status();
    buffer.region = *std::move(region);
    Post(endpoint, i);
  }
  return absl::OkStatus();
}

void RawIserPeer::FillIn(transport::ConnectOptions* options) {
  options->private_data = private_data_;
  options->prepare = [this](RdmaEndpoint& endpoint) {
    return Prepare(endpoint);
  };
}

void RawIserPeer::Connect(transport::Transport* transport,
                          transport::Reactor* reactor,
                          const std::string& address) {
  const absl::Status status = TryToConnect(transport, reactor, address);
  ASSERT_TRUE(status.ok()) << status;
}

absl::Status RawIserPeer::TryToConnect(transport::Transport* transport,
                                       transport::Reactor* reactor,
                                       const std::string& address) {
  transport::ConnectOptions options;
  FillIn(&options);
  std::optional<absl::Status> outcome;
  auto attempt = transport->Connect(
      reactor, transport::Address::Parse(address).value(), options,
      [this, &outcome](absl::StatusOr<transport::Endpoint> endpoint) {
        outcome = endpoint.status();
        if (!endpoint.ok()) return;
        endpoint_ =
            std::get<std::unique_ptr<RdmaEndpoint>>(*std::move(endpoint));
      });
  if (!attempt.ok()) return attempt.status();
  attempt_ = *std::move(attempt);
  if (!world_->RunUntil([&outcome] { return outcome.has_value(); })) {
    return absl::DeadlineExceededError("neither connected nor refused");
  }
  return *outcome;
}

void RawIserPeer::AcceptAt(transport::Transport* transport,
                           transport::Reactor* reactor,
                           const std::string& address) {
  auto listener = transport->Listen(
      reactor, transport::Address::Parse(address).value(), {},
      [this, reactor](std::unique_ptr<transport::ConnectionRequest> request) {
        if (std::exchange(accepted_, true)) return;
        transport::AcceptOptions options;
        FillIn(&options);
        request->Accept(reactor, options,
                        [this](absl::StatusOr<transport::Endpoint> endpoint) {
                          ASSERT_TRUE(endpoint.ok()) << endpoint.status();
                          endpoint_ = std::get<std::unique_ptr<RdmaEndpoint>>(
                              *std::move(endpoint));
                        });
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
}

void RawIserPeer::AcceptAnother() {
  endpoint_.reset();
  receives_.clear();
  received.clear();
  accepted_ = false;
}

void RawIserPeer::Send(const std::string& message,
                       std::optional<uint32_t> invalidated) {
  if (message.empty()) {
    endpoint_->PostSend({0, 1}, {});
    return endpoint_->Flush();
  }
  Buffer* const buffer = NewBuffer(message, Access::kLocal);
  const transport::Sge all = {buffer->bytes.data(), buffer->bytes.size(),
                              buffer->region.get()};
  if (invalidated.has_value()) {
    endpoint_->PostSendWithInvalidate({0, 1}, {&all, 1}, {*invalidated});
  } else {
    endpoint_->PostSend({0, 1}, {&all, 1});
  }
  endpoint_->Flush();
}

void RawIserPeer::Write(const std::string& data, transport::RemoteBuffer to) {
  Buffer* const buffer = NewBuffer(data, Access::kLocal);
  const transport::Sge all = {buffer->bytes.data(), buffer->bytes.size(),
                              buffer->region.get()};
  endpoint_->PostWrite({0, 2}, {&all, 1}, to);
  endpoint_->Flush();
}

void RawIserPeer::Read(size_t size, transport::RemoteBuffer from) {
  // iWARP wants it so.
  Buffer* const buffer =
      NewBuffer(std::string(size, '\0'), Access::kRemoteWrite);
  const transport::Sge all = {buffer->bytes.data(), buffer->bytes.size(),
                              buffer->region.get()};
  endpoint_->PostRead({0, 3}, {&all, 1}, from);
  endpoint_->Flush();
}

void RawIserPeer::Poll() {
  if (endpoint_ == nullptr) return;
  Completion completion;
  while (endpoint_->completion_queue()->Poll({&completion, 1}) == 1) {
    if (completion.status != transport::CompletionStatus::kOk) {
      failures_.push_back(completion);
      continue;
    }
    if (completion.kind != OperationKind::kReceive) continue;
    if (completion.invalidated) {
      invalidated_.push_back(completion.invalidated_key);
    }
    received.push_back(
        receives_[completion.id.index].bytes.substr(0, completion.bytes));
    if (posting_) Post(*endpoint_, completion.id.index);
  }
}

std::optional<std::string> RawIserPeer::Next() {
  world_->RunUntil([this] {
    Poll();
    return !received.empty() || !connected();
  });
  if (received.empty()) return std::nullopt;
  std::string message = std::move(received.front());
  received.pop_front();
  return message;
}

bool RawIserPeer::Closed(absl::Duration limit) {
  return world_->RunUntil(
      [this] {
        Poll();
        return !connected();
      },
      limit);
}

}  // namespace skiff::protocol
