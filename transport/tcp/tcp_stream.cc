#include "transport/tcp/tcp_stream.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/net/socket_address.h"
#include "transport/tcp/socket_options.h"

namespace skiff::transport {
namespace {

constexpr uint32_t kPeerEndedEvents = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
constexpr uint32_t kReadEvents = EPOLLIN | kPeerEndedEvents;
constexpr uint32_t kWriteEvents = EPOLLOUT | EPOLLHUP | EPOLLERR;
constexpr uint32_t kWatchInput = EPOLLIN | EPOLLRDHUP | EPOLLET;
constexpr uint32_t kWatchBoth = kWatchInput | EPOLLOUT;

struct Message {
  msghdr header = {};
  size_t bytes = 0;
};

Message MakeMessage(absl::Span<const iovec> pieces) {
  Message message;
  message.header.msg_iov = const_cast<iovec*>(pieces.data());
  message.header.msg_iovlen = std::min(pieces.size(), ByteStream::kMaxIov);
  for (size_t i = 0; i < message.header.msg_iovlen; ++i) {
    message.bytes += pieces[i].iov_len;
  }
  return message;
}

// A single piece needs no header that the kernel would have to fetch first.
ssize_t Receive(int socket, msghdr* message) {
  if (message->msg_iovlen != 1) return recvmsg(socket, message, MSG_DONTWAIT);
  const iovec& to = message->msg_iov[0];
  return recv(socket, to.iov_base, to.iov_len, MSG_DONTWAIT);
}

ssize_t Send(int socket, const msghdr* message) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (message->msg_iovlen != 1) return sendmsg(socket, message, kFlags);
  const iovec& from = message->msg_iov[0];
  return send(socket, from.iov_base, from.iov_len, kFlags);
}

bool WouldBlockError(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpStream>> TcpStream::Create(
    Reactor* reactor, ScopedFd socket, std::string unread) {
  std::unique_ptr<TcpStream> stream(
      new TcpStream(reactor, std::move(socket), std::move(unread)));
  absl::Status status =
      reactor->WatchFd(stream->socket_.get(), kWatchInput, stream.get());
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("cannot wait for data from tcp://",
                                     stream->peer_, ": ", status.message()));
  }
  return stream;
}

TcpStream::TcpStream(Reactor* reactor, ScopedFd socket, std::string unread)
    : reactor_(reactor),
      socket_(std::move(socket)),
      local_(LocalAddress(socket_.get()).ToString()),
      peer_(PeerAddress(socket_.get()).ToString()),
      unread_(std::move(unread)) {}

TcpStream::~TcpStream() { CloseSocket(); }

void TcpStream::CloseSocket() {
  if (!socket_.valid()) return;
  reactor_->UnwatchFd(socket_.get());
  socket_.reset();
}

ScopedFd TcpStream::Release() {
  if (socket_.valid()) reactor_->UnwatchFd(socket_.get());
  error_ = absl::AbortedError(
      absl::StrCat("the socket to tcp://", peer_, " was handed over"));
  observer_ = nullptr;
  return std::move(socket_);
}

void TcpStream::SetObserver(StreamObserver* observer) {
  observer_ = observer;
  Notify(observer != nullptr, observer != nullptr);
}

void TcpStream::OnFdReady(uint32_t events) {
  const bool readable = (events & kReadEvents) != 0;
  const bool writable = (events & kWriteEvents) != 0;
  if ((events & kPeerEndedEvents) != 0) peer_ended_ = true;
  if (readable) read_.drained = false;
  if (writable) write_.drained = false;
  if (watches_output_ && !readable && !write_.waiting) StopWatchingOutput();
  if (observer_ == nullptr) return;  // A new observer is told anyway.
  const bool tell_writable = writable && write_.waiting;
  if (readable && read_.waiting) {
    // The call may destroy the stream, so it comes last.
    if (tell_writable) Notify(/*readable=*/false, /*writable=*/true);
    read_.waiting = false;
    observer_->OnReadable();
  } else if (tell_writable) {
    write_.waiting = false;
    observer_->OnWritable();
  }
}

void TcpStream::Notify(bool readable, bool writable) {
  read_.notify = readable;
  write_.notify = writable;
  if (readable || writable) reactor_->ScheduleTurnEnd(this);
}

void TcpStream::OnTurnEnd() {
  if (observer_ == nullptr) return;
  // One call at a time, since each may destroy the stream.
  if (read_.notify) {
    read_.notify = false;
    read_.waiting = false;
    if (write_.notify) reactor_->ScheduleTurnEnd(this);
    observer_->OnReadable();
  } else if (write_.notify) {
    write_.notify = false;
    write_.waiting = false;
    observer_->OnWritable();
  }
}

IoResult TcpStream::WouldBlock(Direction* direction) {
  direction->drained = false;
  direction->waiting = true;
  return {StreamStatus::kWouldBlock, 0};
}

// Output is watched from the first time that the socket takes no more. Watched
// always, it would wake a reactor for nothing: data that arrives between two
// reads leaves an edge, which is then reported as "still writable".
IoResult TcpStream::WaitForOutput() {
  if (!watches_output_) {
    const absl::Status status = reactor_->ModifyFd(socket_.get(), kWatchBoth);
    if (!status.ok()) {
      error_ = absl::Status(status.code(),
                            absl::StrCat("write to tcp://", peer_,
                                         ": cannot wait until there is room: ",
                                         status.message()));
      CloseSocket();
      return {StreamStatus::kError, 0};
    }
    watches_output_ = true;
  }
  return WouldBlock(&write_);
}

// Just such a useless wake-up came.
void TcpStream::StopWatchingOutput() {
  watches_output_ = !reactor_->ModifyFd(socket_.get(), kWatchInput).ok();
}

// Of what came to the process that had the socket before.
size_t TcpStream::TakeUnread(absl::Span<const iovec> to) {
  size_t taken = 0;
  for (const iovec& piece : to) {
    const size_t n = std::min(piece.iov_len, unread_.size() - unread_at_);
    std::memcpy(piece.iov_base, unread_.data() + unread_at_, n);
    unread_at_ += n;
    taken += n;
  }
  if (unread_at_ == unread_.size()) {
    unread_ = std::string();
    unread_at_ = 0;
  }
  return taken;
}

IoResult TcpStream::Readv(absl::Span<const iovec> to) {
  if (!error_.ok()) return {StreamStatus::kError, 0};
  Message message = MakeMessage(to);
  if (message.bytes == 0) return {StreamStatus::kOk, 0};
  if (!unread_.empty()) [[unlikely]] {
    return {StreamStatus::kOk, TakeUnread(to)};
  }
  if (read_.drained && !peer_ended_) return WouldBlock(&read_);
  ssize_t got;
  do {
    got = Receive(socket_.get(), &message.header);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    read_.drained = static_cast<size_t>(got) < message.bytes;
    return {StreamStatus::kOk, static_cast<size_t>(got)};
  }
  if (got == 0) return {StreamStatus::kClosed, 0};
  if (WouldBlockError(errno)) return WouldBlock(&read_);
  return Fail("read from", errno);
}

IoResult TcpStream::Writev(absl::Span<const iovec> from) {
  if (!error_.ok()) return {StreamStatus::kError, 0};
  if (write_ended_) return {StreamStatus::kClosed, 0};
  Message message = MakeMessage(from);
  if (message.bytes == 0) return {StreamStatus::kOk, 0};
  if (write_.drained && watches_output_) return WouldBlock(&write_);
  ssize_t sent;
  do {
    sent = Send(socket_.get(), &message.header);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    write_.drained = static_cast<size_t>(sent) < message.bytes;
    return {StreamStatus::kOk, static_cast<size_t>(sent)};
  }
  if (WouldBlockError(errno)) return WaitForOutput();
  return Fail("write to", errno);
}

IoResult TcpStream::Fail(const char* doing, int error_number) {
  const std::string what =
      absl::StrCat(doing, " tcp://", peer_, ": ", std::strerror(error_number));
  error_ = error_number == ETIMEDOUT ? absl::DeadlineExceededError(what)
                                     : absl::UnavailableError(what);
  CloseSocket();
  return {StreamStatus::kError, 0};
}

void TcpStream::SetReadThreshold(size_t bytes) {
  if (!socket_.valid()) return;
  constexpr size_t kMax = std::numeric_limits<int>::max() / 2;
  const int threshold = static_cast<int>(std::clamp<size_t>(bytes, 1, kMax));
  // tcp(7): the kernel wakes nobody for less. It fails for no valid socket.
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &threshold,
             sizeof(threshold));
}

size_t TcpStream::unacknowledged() const {
  int bytes = 0;
  if (ioctl(socket_.get(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<size_t>(std::max(bytes, 0));
}

void TcpStream::ShutdownWrite() {
  if (write_ended_ || !socket_.valid()) return;
  write_ended_ = true;
  // Fails only if the connection is gone, which the next read reports.
  shutdown(socket_.get(), SHUT_WR);
}

void TcpStream::Abort() {
  if (!socket_.valid()) return;
  error_ = absl::AbortedError(
      absl::StrCat("connection to tcp://", peer_, " was aborted by this side"));
  SetAbortiveClose(socket_.get());
  CloseSocket();
  observer_ = nullptr;
}

}  // namespace skiff::transport
