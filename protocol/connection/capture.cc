#include "protocol/connection/capture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace skiff::protocol {

using transport::ByteStream;
using transport::CaptureSink;
using transport::IoResult;
using transport::PcapngConversation;
using transport::StreamStatus;

namespace {

// The port of `host:port`, which tells connections apart.
uint16_t PortOf(const std::string& address) {
  uint32_t port = 0;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return 0;
  }
  return static_cast<uint16_t>(port);
}

// Always one, in fact.
absl::StatusOr<PcapngConversation> ConversationOf(const std::string& local,
                                                  const std::string& peer) {
  auto conversation = PcapngConversation::Create(local, peer);
  if (conversation.ok()) return conversation;
  // The greater name gets the greater address, so that both ends agree.
  const bool first = local < peer;
  return PcapngConversation::Create(
      absl::StrCat(first ? "192.0.2.1:" : "192.0.2.2:", PortOf(local)),
      absl::StrCat(first ? "192.0.2.2:" : "192.0.2.1:", PortOf(peer)));
}

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

class CapturedStream final : public ByteStream {
 public:
  CapturedStream(std::unique_ptr<ByteStream> inner,
                 PcapngConversation conversation, CaptureSink sink)
      : inner_(std::move(inner)),
        conversation_(conversation),
        sink_(std::move(sink)) {}

  void SetObserver(transport::StreamObserver* observer) override {
    inner_->SetObserver(observer);
  }
  IoResult Readv(absl::Span<const iovec> to) override {
    return Moved(/*sent=*/false, to, inner_->Readv(to));
  }
  IoResult Writev(absl::Span<const iovec> from) override {
    return Moved(/*sent=*/true, from, inner_->Writev(from));
  }
  void SetReadThreshold(size_t bytes) override {
    inner_->SetReadThreshold(bytes);
  }
  size_t unacknowledged() const override { return inner_->unacknowledged(); }
  void ShutdownWrite() override { inner_->ShutdownWrite(); }
  void Abort() override { inner_->Abort(); }
  // What it gives was never read by us: the next one captures it.
  int ReleaseDescriptor(std::string* unread) override {
    return inner_->ReleaseDescriptor(unread);
  }
  absl::Status error() const override { return inner_->error(); }
  absl::string_view scheme() const override { return inner_->scheme(); }
  std::string local_address() const override { return inner_->local_address(); }
  std::string peer_address() const override { return inner_->peer_address(); }

 private:
  IoResult Moved(bool sent, absl::Span<const iovec> list, IoResult result) {
    if (result.status == StreamStatus::kOk && sink_.wanted()) {
      sink_(
          conversation_.Data(sent, absl::Now(), Gathered(list, result.bytes)));
    }
    return result;
  }

  const std::unique_ptr<ByteStream> inner_;
  PcapngConversation conversation_;
  const CaptureSink sink_;
};

}  // namespace

std::unique_ptr<ByteStream> Captured(std::unique_ptr<ByteStream> stream,
                                     CaptureSink sink) {
  auto conversation =
      ConversationOf(stream->local_address(), stream->peer_address());
  if (!conversation.ok()) return stream;
  return std::make_unique<CapturedStream>(
      std::move(stream), *std::move(conversation), std::move(sink));
}

std::unique_ptr<IserTrace> MakeIserCapture(const std::string& local,
                                           const std::string& peer,
                                           CaptureSink sink) {
  auto conversation = ConversationOf(local, peer);
  if (!conversation.ok()) return nullptr;
  auto wanted = [sink] { return sink.wanted(); };
  return std::make_unique<IserTrace>(
      [conversation = *std::move(conversation), sink = std::move(sink)](
          bool sent, absl::string_view pdu, absl::string_view comment) mutable {
        sink(conversation.Data(sent, absl::Now(), pdu, comment));
      },
      std::move(wanted));
}

}  // namespace skiff::protocol
