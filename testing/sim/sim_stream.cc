#include "testing/sim/sim_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::testing {

using transport::IoResult;
using transport::StreamStatus;

SimStream::SimStream(SimReactor* reactor, std::shared_ptr<SimStreamWire> wire,
                     int side, const transport::ConnectOptions& options,
                     std::string unread)
    : reactor_(reactor),
      wire_(std::move(wire)),
      side_(side),
      unread_(std::move(unread)),
      self_(std::make_shared<SimStream*>(this)) {
  wire_->Attach(side_, this, options);
}

SimStream::~SimStream() {
  *self_ = nullptr;
  if (released_) return;
  wire_->Attach(side_, nullptr, {});
  wire_->Close(side_);
}

void SimStream::SetObserver(transport::StreamObserver* observer) {
  observer_ = observer;
  read_.tell = write_.tell = observer != nullptr;
  if (observer != nullptr) reactor_->ScheduleReady(this);
}

int SimStream::ReleaseDescriptor(std::string* unread) {
  unread->append(unread_);
  released_ = true;
  observer_ = nullptr;
  wire_->Attach(side_, nullptr, {});
  return wire_->world()->Keep({wire_, side_});
}

absl::Status SimStream::error() const {
  return released_ ? absl::AbortedError("the stream was handed over")
                   : wire_->error(side_);
}

void SimStream::Tell(Direction* direction) {
  direction->waiting = false;
  if (observer_ == nullptr) return;  // A new observer is told anyway.
  direction->tell = true;
  reactor_->ScheduleReady(this);
}

void SimStream::MayRead() {
  if (read_.waiting && wire_->defect() != SimDefect::kLostReadable) {
    Tell(&read_);
  }
}

void SimStream::MayWrite() {
  if (write_.waiting && wire_->defect() != SimDefect::kLostWritable) {
    Tell(&write_);
  }
}

void SimStream::OnTurnEnd() {
  if (observer_ == nullptr) return;
  // One call at a time, since each may destroy the stream.
  if (read_.tell) {
    read_.tell = false;
    read_.waiting = false;
    if (write_.tell) reactor_->ScheduleReady(this);
    observer_->OnReadable();
  } else if (write_.tell) {
    write_.tell = false;
    write_.waiting = false;
    observer_->OnWritable();
  }
}

IoResult SimStream::WouldBlock(Direction* direction, bool spurious) {
  direction->waiting = true;
  if (spurious) {
    const bool read = direction == &read_;
    wire_->world()->After(absl::Microseconds(1), [self = self_, read] {
      if (*self == nullptr) return;
      Direction* direction = read ? &(*self)->read_ : &(*self)->write_;
      if (direction->waiting) (*self)->Tell(direction);
    });
  }
  return {StreamStatus::kWouldBlock, 0};
}

size_t SimStream::Shorten(size_t bytes) {
  SimRandom& random = wire_->world()->random();
  if (bytes < 2 || !random.Chance(wire_->link(side_).short_transfer)) {
    return bytes;
  }
  return random.Between(1, bytes - 1);
}

namespace {

absl::Span<const iovec> Limited(absl::Span<const iovec> pieces) {
  return pieces.subspan(
      0, std::min(pieces.size(), transport::ByteStream::kMaxIov));
}

size_t TotalBytes(absl::Span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

}  // namespace

IoResult SimStream::Readv(absl::Span<const iovec> to) {
  to = Limited(to);
  if (released_) return {StreamStatus::kError, 0};
  if (!wire_->error(side_).ok()) {
    if (wire_->defect() == SimDefect::kResetLooksClean) {
      return {StreamStatus::kClosed, 0};
    }
    return {StreamStatus::kError, 0};
  }
  const size_t asked = TotalBytes(to);
  if (asked == 0) return {StreamStatus::kOk, 0};
  if (!unread_.empty()) {
    const size_t size = std::min(to[0].iov_len, unread_.size());
    std::memcpy(to[0].iov_base, unread_.data(), size);
    unread_.erase(0, size);
    return {StreamStatus::kOk, size};
  }
  const size_t available = wire_->readable(side_);
  if (available == 0) {
    if (wire_->ended(side_)) return {StreamStatus::kClosed, 0};
    return WouldBlock(&read_, /*spurious=*/false);
  }
  if (wire_->world()->random().Chance(
          wire_->link(side_).spurious_would_block)) {
    return WouldBlock(&read_, /*spurious=*/true);
  }
  const size_t bytes = Shorten(std::min(asked, available));
  size_t left = bytes;
  for (const iovec& piece : to) {
    const size_t size = std::min(left, piece.iov_len);
    wire_->Take(side_, static_cast<char*>(piece.iov_base), size);
    left -= size;
  }
  if (wire_->defect() == SimDefect::kNestedCallback && observer_ != nullptr &&
      (read_.tell || bytes < available)) {
    read_.tell = false;
    observer_->OnReadable();
  }
  return {StreamStatus::kOk, bytes};
}

IoResult SimStream::Writev(absl::Span<const iovec> from) {
  from = Limited(from);
  if (released_) return {StreamStatus::kError, 0};
  if (!wire_->error(side_).ok()) return {StreamStatus::kError, 0};
  if (write_ended_) return {StreamStatus::kClosed, 0};
  const size_t asked = TotalBytes(from);
  if (asked == 0) return {StreamStatus::kOk, 0};
  const size_t room = wire_->writable(side_);
  if (room == 0) return WouldBlock(&write_, /*spurious=*/false);
  if (wire_->world()->random().Chance(
          wire_->link(side_).spurious_would_block)) {
    return WouldBlock(&write_, /*spurious=*/true);
  }
  const size_t bytes = Shorten(std::min(asked, room));
  std::string data;
  data.reserve(bytes);
  for (const iovec& piece : from) {
    const size_t size = std::min(bytes - data.size(), piece.iov_len);
    data.append(static_cast<const char*>(piece.iov_base), size);
  }
  wire_->Send(side_, data);
  return {StreamStatus::kOk, bytes};
}

void SimStream::ShutdownWrite() {
  if (write_ended_ || !wire_->error(side_).ok()) return;
  write_ended_ = true;
  wire_->SendFin(side_);
}

void SimStream::Abort() {
  observer_ = nullptr;
  if (!wire_->error(side_).ok()) return;
  wire_->Reset(side_, absl::AbortedError(
                          absl::StrCat("connection to sim://", peer_address(),
                                       " was aborted by this side")));
}

}  // namespace skiff::testing
