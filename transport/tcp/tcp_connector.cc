#include "transport/tcp/tcp_connector.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/tcp/tcp_stream.h"

namespace skiff::transport {
namespace {

absl::Status ErrnoFailure(int error_number) {
  const char* hint = "";
  if (error_number == ECONNREFUSED) {
    hint = " - is a target listening there?";
  } else if (error_number == ENETUNREACH || error_number == EHOSTUNREACH) {
    hint = " - is the interface up, and does a route lead there?";
  } else if (error_number == EMFILE || error_number == ENFILE) {
    hint = " - raise the limit on open files (ulimit -n)";
  }
  return absl::UnavailableError(
      absl::StrCat(std::strerror(error_number), hint));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpConnector>> TcpConnector::Create(
    Reactor* reactor, const Address& address, const ConnectOptions& options,
    ConnectCallback done) {
  auto tcp_options = ParseTcpOptions(address);
  if (!tcp_options.ok()) return tcp_options.status();
  absl::Status status = CheckConnect(address, options);
  if (!status.ok()) return status;
  std::unique_ptr<TcpConnector> connector(new TcpConnector(
      reactor, address, *tcp_options, options, std::move(done)));
  status = connector->Start();
  if (!status.ok()) return status;
  return connector;
}

TcpConnector::TcpConnector(Reactor* reactor, Address address,
                           const TcpAddressOptions& tcp_options,
                           const ConnectOptions& options, ConnectCallback done)
    : HostConnector(reactor, std::move(address), options, std::move(done),
                    "is the address right, is the host up, does a firewall "
                    "drop packets?"),
      tcp_options_(tcp_options) {}

TcpConnector::~TcpConnector() { DropSocket(); }

void TcpConnector::DropSocket() {
  if (watched_) reactor_->UnwatchFd(socket_.get());
  watched_ = false;
  socket_.reset();
}

absl::Status TcpConnector::StartOne(const SocketAddress& candidate) {
  socket_ = ScopedFd(socket(candidate.family(),
                            SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return ErrnoFailure(errno);
  absl::Status status = SetBuffers(socket_.get(), tcp_options_);
  if (!status.ok()) return status;
  status = SetConnectionOptions(socket_.get(), options_);
  if (!status.ok()) return status;
  if (connect(socket_.get(), candidate.get(), candidate.length) != 0 &&
      errno != EINPROGRESS) {
    return ErrnoFailure(errno);
  }
  status = reactor_->WatchFd(socket_.get(), EPOLLOUT | EPOLLET, this);
  watched_ = status.ok();
  return status;
}

void TcpConnector::OnFdReady(uint32_t /*events*/) {
  absl::Status status = CheckConnected();
  if (!status.ok()) {
    FailOne(status);
    return;
  }
  reactor_->UnwatchFd(socket_.get());
  watched_ = false;
  auto stream = TcpStream::Create(reactor_, std::move(socket_));
  if (stream.ok()) {
    Finish(Endpoint(*std::move(stream)));
  } else {
    Finish(stream.status());
  }
}

absl::Status TcpConnector::CheckConnected() const {
  int error_number = 0;
  socklen_t length = sizeof(error_number);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_number, &length) !=
      0) {
    return ErrnoFailure(errno);
  }
  if (error_number != 0) return ErrnoFailure(error_number);
  // The kernel may pick the very port that we connect to as our own, and TCP
  // then connects the socket to itself (RFC 9293 section 3.5, simultaneous
  // open).
  if (LocalAddress(socket_.get()) == PeerAddress(socket_.get())) {
    return ErrnoFailure(ECONNREFUSED);
  }
  return absl::OkStatus();
}

}  // namespace skiff::transport
