#include "transport/trace/tracing_backend.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "transport/trace/pcapng.h"

namespace skiff::transport {
namespace {

// The first `bytes` of a list.
std::string Gathered(absl::Span<const iovec> list, size_t bytes) {
  std::string all;
  all.reserve(bytes);
  for (const iovec& piece : list) {
    const size_t part = std::min(piece.iov_len, bytes - all.size());
    all.append(static_cast<const char*>(piece.iov_base), part);
    if (all.size() == bytes) break;
  }
  return all;
}

class TracingStream final : public ByteStream {
 public:
  TracingStream(std::unique_ptr<ByteStream> inner, CaptureSink sink)
      : inner_(std::move(inner)), sink_(std::move(sink)) {
    absl::StatusOr<PcapngConversation> conversation =
        PcapngConversation::Create(inner_->local_address(),
                                   inner_->peer_address());
    if (conversation.ok()) conversation_ = *std::move(conversation);
  }

  void SetObserver(StreamObserver* observer) override {
    inner_->SetObserver(observer);
  }
  IoResult Readv(absl::Span<const iovec> to) override {
    return Captured(false, to, inner_->Readv(to));
  }
  IoResult Writev(absl::Span<const iovec> from) override {
    return Captured(true, from, inner_->Writev(from));
  }
  void SetReadThreshold(size_t bytes) override {
    inner_->SetReadThreshold(bytes);
  }
  void ShutdownWrite() override { inner_->ShutdownWrite(); }
  void Abort() override { inner_->Abort(); }
  absl::Status error() const override { return inner_->error(); }
  absl::string_view scheme() const override { return inner_->scheme(); }
  std::string local_address() const override { return inner_->local_address(); }
  std::string peer_address() const override { return inner_->peer_address(); }

 private:
  IoResult Captured(bool sent, absl::Span<const iovec> list, IoResult result) {
    if (result.status == IoStatus::kOk && conversation_.has_value()) {
      sink_(
          conversation_->Data(sent, absl::Now(), Gathered(list, result.bytes)));
    }
    return result;
  }

  const std::unique_ptr<ByteStream> inner_;
  const CaptureSink sink_;
  // Nothing for a stream that was dead before it was ours: it has no addresses.
  std::optional<PcapngConversation> conversation_;
};

absl::StatusOr<Endpoint> Traced(absl::StatusOr<Endpoint> endpoint,
                                const CaptureSink& sink) {
  if (!endpoint.ok()) return endpoint;
  auto* stream = std::get_if<std::unique_ptr<ByteStream>>(&*endpoint);
  if (stream == nullptr) return endpoint;
  return Endpoint(std::make_unique<TracingStream>(std::move(*stream), sink));
}

class TracingRequest final : public ConnectionRequest {
 public:
  TracingRequest(std::unique_ptr<ConnectionRequest> inner, CaptureSink sink)
      : inner_(std::move(inner)), sink_(std::move(sink)) {}

  std::string local_address() const override { return inner_->local_address(); }
  std::string peer_address() const override { return inner_->peer_address(); }
  absl::Span<const uint8_t> private_data() const override {
    return inner_->private_data();
  }
  void Accept(
      Reactor* home, const AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) override {
    inner_->Accept(home, options,
                   [sink = sink_, done = std::move(done)](
                       absl::StatusOr<Endpoint> endpoint) mutable {
                     done(Traced(std::move(endpoint), sink));
                   });
  }
  void Reject(absl::Span<const uint8_t> private_data) override {
    inner_->Reject(private_data);
  }

 private:
  const std::unique_ptr<ConnectionRequest> inner_;
  const CaptureSink sink_;
};

class TracingBackend final : public Backend {
 public:
  TracingBackend(std::unique_ptr<Backend> inner, CaptureSink sink)
      : inner_(std::move(inner)), sink_(std::move(sink)) {}

  absl::string_view scheme() const override { return inner_->scheme(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  std::vector<DeviceReport> Devices() const override {
    return inner_->Devices();
  }
  absl::Status CheckAddress(const Address& address) const override {
    return inner_->CheckAddress(address);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) override {
    return inner_->Listen(
        reactor, address, options,
        [sink = sink_, on_request = std::move(on_request)](
            std::unique_ptr<ConnectionRequest> request) mutable {
          on_request(
              std::make_unique<TracingRequest>(std::move(request), sink));
        });
  }
  absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) override {
    return inner_->Connect(reactor, address, options,
                           [sink = sink_, done = std::move(done)](
                               absl::StatusOr<Endpoint> endpoint) mutable {
                             done(Traced(std::move(endpoint), sink));
                           });
  }

 private:
  const std::unique_ptr<Backend> inner_;
  const CaptureSink sink_;
};

}  // namespace

std::unique_ptr<Backend> MakeTracingBackend(std::unique_ptr<Backend> inner,
                                            CaptureSink sink) {
  return std::make_unique<TracingBackend>(std::move(inner), std::move(sink));
}

}  // namespace skiff::transport
