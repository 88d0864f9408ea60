#include "testing/transport_conformance/forwarding_stream.h"

#include <sys/socket.h>

namespace skiff::testing {

using transport::IoResult;
using transport::StreamObserver;
using transport::StreamStatus;
using Fault = ForwardingFault;

namespace {

// What a new observer is told.
constexpr int kFirstNotices = 2;

size_t TotalBytes(absl::Span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

}  // namespace

ForwardingStream::~ForwardingStream() {
  inner_->SetObserver(nullptr);
  if (Has(Fault::kLingering)) KeepForever(std::move(inner_));
}

void ForwardingStream::SetObserver(StreamObserver* observer) {
  const bool replaces = observer_ != nullptr && observer != nullptr;
  if (!(replaces && Has(Fault::kOldObserver))) observer_ = observer;
  notices_ = 0;
  inner_->SetObserver(observer == nullptr ? nullptr : this);
  if (Has(Fault::kNestedObserver) && observer != nullptr) {
    observer->OnReadable();
  }
}

void ForwardingStream::OnReadable() {
  ++notices_;
  if (observer_ == nullptr) return;
  if (Has(Fault::kUntoldObserver) && notices_ <= kFirstNotices) return;
  if (Has(Fault::kOneNotice) && notices_ > kFirstNotices) return;
  if (Has(Fault::kThresholdHidesEnd) && threshold_ > 1) return;
  StreamObserver* const observer = observer_;
  if (Has(Fault::kToldTwice)) observer->OnReadable();
  observer->OnReadable();
}

void ForwardingStream::OnWritable() {
  ++notices_;
  if (observer_ == nullptr) return;
  if (Has(Fault::kUntoldObserver) && notices_ <= kFirstNotices) return;
  observer_->OnWritable();
}

IoResult ForwardingStream::Readv(absl::Span<const iovec> to) {
  if (Has(Fault::kShutdownEndsBoth) && write_ended_) {
    return {StreamStatus::kClosed, 0};
  }
  if (Has(Fault::kRefusedLongList) && to.size() > kMaxIov) {
    return {StreamStatus::kError, 0};
  }
  IoResult result = inner_->Readv(to);
  switch (result.status) {
    case StreamStatus::kWouldBlock:
      if (Has(Fault::kEmptyRead)) return {StreamStatus::kOk, 0};
      if (Has(Fault::kNestedNotice) && observer_ != nullptr) {
        observer_->OnReadable();
      }
      break;
    case StreamStatus::kOk: {
      const bool short_read = result.bytes < TotalBytes(to);
      const iovec& last = to[to.size() - 1];
      if (short_read && Has(Fault::kOverlongRead)) ++result.bytes;
      if (short_read && Has(Fault::kScribblingRead)) {
        static_cast<char*>(last.iov_base)[last.iov_len - 1] = '!';
      }
      break;
    }
    case StreamStatus::kClosed:
    case StreamStatus::kError:
      break;
  }
  return result;
}

IoResult ForwardingStream::Writev(absl::Span<const iovec> from) {
  if (Has(Fault::kRefusedLongList) && from.size() > kMaxIov) {
    return {StreamStatus::kError, 0};
  }
  if (Has(Fault::kWriteAfterRelease) && released_) {
    return {StreamStatus::kOk, TotalBytes(from)};
  }
  if (Has(Fault::kWriteAfterEnd) && write_ended_) {
    return {StreamStatus::kOk, TotalBytes(from)};
  }
  if (Has(Fault::kBorrowedWrite)) {
    if (!borrowed_.empty()) inner_->Writev(borrowed_);
    borrowed_.assign(from.begin(), from.end());
    return {StreamStatus::kOk, TotalBytes(from)};
  }
  const IoResult result = inner_->Writev(from);
  written_ += result.bytes;
  return result;
}

void ForwardingStream::SetReadThreshold(size_t bytes) {
  if (Has(Fault::kStuckThreshold) && bytes < threshold_) return;
  threshold_ = bytes;
  if (Has(Fault::kThresholdHidesEnd)) return;
  inner_->SetReadThreshold(bytes);
}

size_t ForwardingStream::unacknowledged() const {
  return Has(Fault::kAllUnacknowledged) ? written_ : inner_->unacknowledged();
}

void ForwardingStream::ShutdownWrite() {
  write_ended_ = true;
  if (!Has(Fault::kIgnoredShutdown)) inner_->ShutdownWrite();
}

void ForwardingStream::Abort() {
  if (Has(Fault::kDeafAbort)) return;
  if (Has(Fault::kCleanAbort)) {
    inner_->ShutdownWrite();
  } else {
    inner_->Abort();
  }
}

// It has read ahead, as streams with a buffer of their own do.
int ForwardingStream::ReleaseDescriptor(std::string* unread) {
  char ahead[100];
  const iovec room = {ahead, sizeof(ahead)};
  const IoResult read = inner_->Readv({&room, 1});
  if (Has(Fault::kUnreadReplaced)) unread->clear();
  unread->append(ahead, read.bytes);
  const int descriptor = inner_->ReleaseDescriptor(unread);
  if (Has(Fault::kReleaseEnds)) shutdown(descriptor, SHUT_WR);
  released_ = true;
  return descriptor;
}

absl::Status ForwardingStream::error() const {
  if (Has(Fault::kErrorWhileAlive)) return absl::UnknownError("all is well");
  if (Has(Fault::kNoError)) return absl::OkStatus();
  return inner_->error();
}

absl::string_view ForwardingStream::scheme() const {
  return Has(Fault::kWrongScheme) ? inner_->scheme() : "fwd";
}

std::string ForwardingStream::local_address() const {
  if (Has(Fault::kNoAddress)) return {};
  return Has(Fault::kSwappedAddresses) ? inner_->peer_address()
                                       : inner_->local_address();
}

std::string ForwardingStream::peer_address() const {
  if (Has(Fault::kNoPort)) return "localhost";
  return Has(Fault::kSwappedAddresses) ? inner_->local_address()
                                       : inner_->peer_address();
}

}  // namespace skiff::testing
