#include "inproc_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace example {

using skiff::transport::IoResult;
using skiff::transport::StreamObserver;
using skiff::transport::StreamStatus;

namespace {

// Bytes that may wait for a reader.
constexpr size_t kInboxBytes = 256 << 10;

// Asks for a call of the observer. With the mutex.
void AskToTell(InprocWire::End* end, bool read, bool write) {
  if (end->reactor == nullptr || end->stream == nullptr) return;
  const bool asked = end->tell_read || end->tell_write;
  end->tell_read = end->tell_read || read;
  end->tell_write = end->tell_write || write;
  if (asked || !(read || write)) return;
  // Never from inside this call, and on the end's own thread.
  end->reactor->Post([weak = std::weak_ptr<InprocStream*>(end->stream)] {
    InprocStream* stream = nullptr;
    if (const auto alive = weak.lock()) stream = *alive;
    if (stream != nullptr) InprocStream::Tell(stream);
  });
}

}  // namespace

void InprocWire::Post(int side, absl::AnyInvocable<void()> what) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (ends[side].reactor != nullptr) ends[side].reactor->Post(std::move(what));
}

void InprocWire::Close(int side, bool abort) {
  const std::lock_guard<std::mutex> lock(mutex);
  End& near = ends[side];
  End& far = ends[1 - side];
  near.reactor = nullptr;
  near.stream = nullptr;
  far.ended = true;
  if (abort && far.error.ok()) {
    far.error = absl::UnavailableError(absl::StrCat(
        "the connection to inproc://", near.address, " was aborted there"));
  }
  AskToTell(&far, far.wants_read, far.wants_write);
}

InprocStream::InprocStream(skiff::transport::Reactor* reactor,
                           std::shared_ptr<InprocWire> wire, int side)
    : wire_(std::move(wire)),
      near_(wire_->ends[side]),
      far_(wire_->ends[1 - side]),
      side_(side),
      self_(std::make_shared<InprocStream*>(this)) {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  near_.reactor = reactor;
  near_.stream = self_;
}

InprocStream::~InprocStream() { wire_->Close(side_, /*abort=*/false); }

void InprocStream::SetObserver(StreamObserver* observer) {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  observer_ = observer;
  if (observer != nullptr) AskToTell(&near_, true, true);
}

// One call at a time, as each may destroy the stream.
void InprocStream::Tell(InprocStream* stream) {
  const std::weak_ptr<InprocStream*> alive = stream->self_;
  for (const bool read : {true, false}) {
    if (alive.expired()) return;
    StreamObserver* observer = nullptr;
    {
      const std::lock_guard<std::mutex> lock(stream->wire_->mutex);
      InprocWire::End& end = stream->near_;
      bool& tell = read ? end.tell_read : end.tell_write;
      if (!tell) continue;
      tell = false;
      (read ? end.wants_read : end.wants_write) = false;
      observer = stream->observer_;
    }
    if (observer == nullptr) continue;
    if (read) {
      observer->OnReadable();
    } else {
      observer->OnWritable();
    }
  }
}

IoResult InprocStream::Readv(absl::Span<const iovec> to) {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  if (!near_.error.ok()) return {StreamStatus::kError, 0};
  size_t taken = 0;
  for (const iovec& piece : to.subspan(0, kMaxIov)) {
    const size_t part = std::min(piece.iov_len, near_.inbox.size() - taken);
    near_.inbox.copy(static_cast<char*>(piece.iov_base), part, taken);
    taken += part;
  }
  near_.inbox.erase(0, taken);
  if (taken > 0) {
    if (far_.wants_write) AskToTell(&far_, false, true);
    return {StreamStatus::kOk, taken};
  }
  if (near_.ended) return {StreamStatus::kClosed, 0};
  near_.wants_read = true;
  return {StreamStatus::kWouldBlock, 0};
}

IoResult InprocStream::Writev(absl::Span<const iovec> from) {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  if (near_.error.ok() && far_.reactor == nullptr) {
    near_.error = absl::UnavailableError(absl::StrCat(
        "write to inproc://", far_.address, ": the other end is closed"));
  }
  if (!near_.error.ok()) return {StreamStatus::kError, 0};
  if (write_ended_) return {StreamStatus::kClosed, 0};
  size_t taken = 0;
  for (const iovec& piece : from.subspan(0, kMaxIov)) {
    const size_t room = kInboxBytes - far_.inbox.size();
    const size_t part = std::min(piece.iov_len, room);
    far_.inbox.append(static_cast<const char*>(piece.iov_base), part);
    taken += part;
  }
  if (taken == 0) {
    near_.wants_write = true;
    return {StreamStatus::kWouldBlock, 0};
  }
  if (far_.wants_read) AskToTell(&far_, true, false);
  return {StreamStatus::kOk, taken};
}

size_t InprocStream::unacknowledged() const {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  return far_.inbox.size();
}

void InprocStream::ShutdownWrite() {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  write_ended_ = true;
  far_.ended = true;
  if (far_.wants_read) AskToTell(&far_, true, false);
}

void InprocStream::Abort() {
  wire_->Close(side_, /*abort=*/true);
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  observer_ = nullptr;
  if (!near_.error.ok()) return;
  near_.error = absl::AbortedError(absl::StrCat(
      "the connection to inproc://", far_.address, " was aborted here"));
}

absl::Status InprocStream::error() const {
  const std::lock_guard<std::mutex> lock(wire_->mutex);
  return near_.error;
}

}  // namespace example
