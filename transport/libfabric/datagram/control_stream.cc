#include "transport/libfabric/datagram/control_stream.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

constexpr int kReadsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<ControlStream>> ControlStream::Create(
    Reactor* reactor, ScopedFd socket) {
  auto stream = TcpStream::Create(reactor, std::move(socket));
  if (!stream.ok()) return stream.status();
  return std::make_unique<ControlStream>(*std::move(stream));
}

ControlStream::ControlStream(std::unique_ptr<TcpStream> stream)
    : stream_(std::move(stream)) {}

ControlStream::~ControlStream() { *alive_ = false; }

void ControlStream::SetHandler(Handler* handler) {
  handler_ = handler;
  stream_->SetObserver(handler != nullptr ? this : nullptr);
}

ScopedFd ControlStream::Release() {
  ended_ = true;
  return stream_->Release();
}

void ControlStream::OnReadable() {
  const std::shared_ptr<bool> alive = alive_;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    if (!*alive || ended_ || handler_ == nullptr || !ReadSome()) return;
  }
  // A peer that sends without end leaves the others their share.
  if (*alive && !ended_ && handler_ != nullptr) stream_->SetObserver(this);
}

bool ControlStream::ReadSome() {
  const size_t have = input_.size();
  input_.resize(wanted_);
  const iovec rest = {&input_[have], wanted_ - have};
  const IoResult result = stream_->Readv({&rest, 1});
  input_.resize(have + (result.status == StreamStatus::kOk ? result.bytes : 0));
  if (result.status == StreamStatus::kWouldBlock) return false;
  if (result.status != StreamStatus::kOk) {
    End(result.status == StreamStatus::kClosed
            ? absl::UnavailableError("the peer ended the connection")
            : stream_->error());
    return false;
  }
  if (input_.size() < wanted_) return true;
  const auto length = HandshakeLength(input_);
  if (!length.ok()) {
    if (absl::IsUnimplemented(length.status())) TellVersion();
    End(length.status());
    return false;
  }
  if (*length > wanted_) {
    wanted_ = *length;
    return true;
  }
  const auto message = DecodeHandshake(input_);
  input_.clear();
  wanted_ = kHandshakeHeaderBytes;
  if (message.ok()) {
    handler_->OnMessage(*message);
    return true;
  }
  End(message.status());
  return false;
}

void ControlStream::Send(const HandshakeMessage& message) {
  if (ended_) return;
  const std::vector<uint8_t> bytes = EncodeHandshake(message);
  if (output_.size() + bytes.size() > kMaxUnsent) {
    // The handler hears of it once nothing of it is on the stack.
    output_.clear();
    stream_->ShutdownWrite();
    return;
  }
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  Write();
}

// It is all that a peer of another version understands of a message.
void ControlStream::TellVersion() {
  HandshakeMessage message;
  message.type = HandshakeType::kReject;
  message.to = message.from = 1;  // There are no numbers of a connection.
  Send(message);
}

void ControlStream::OnWritable() {
  if (!ended_) Write();
}

void ControlStream::Write() {
  while (!output_.empty()) {
    const iovec rest = {output_.data(), output_.size()};
    const IoResult result = stream_->Writev({&rest, 1});
    // What is broken shows when reading, in a later turn.
    if (result.status == StreamStatus::kError) stream_->SetObserver(this);
    if (result.status != StreamStatus::kOk) return;
    output_.erase(output_.begin(),
                  output_.begin() + static_cast<ptrdiff_t>(result.bytes));
  }
}

void ControlStream::End(const absl::Status& why) {
  if (std::exchange(ended_, true)) return;
  if (handler_ != nullptr) handler_->OnEnd(why);
}

}  // namespace skiff::transport
