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
  auto lookup = NameLookup::Start(reactor, address.host, address.port,
                                  [self = connector.get()](auto resolved) {
                                    self->OnResolved(std::move(resolved));
                                  });
  if (!lookup.ok()) return lookup.status();
  connector->lookup_ = *std::move(lookup);
  connector->timer_.ScheduleAt(connector->deadline_);
  return connector;
}

TcpConnector::TcpConnector(Reactor* reactor, Address address,
                           const TcpAddressOptions& tcp_options,
                           const ConnectOptions& options, ConnectCallback done)
    : reactor_(reactor),
      address_(std::move(address)),
      tcp_options_(tcp_options),
      options_(options),
      done_(std::move(done)),
      deadline_(reactor->Now() + options.timeout),
      timer_(reactor, [this] { OnTimer(); }) {}

TcpConnector::~TcpConnector() { DropSocket(); }

void TcpConnector::DropSocket() {
  if (watched_) reactor_->UnwatchFd(socket_.get());
  watched_ = false;
  socket_.reset();
}

void TcpConnector::OnResolved(
    absl::StatusOr<std::vector<SocketAddress>> resolved) {
  timer_.Cancel();
  if (!resolved.ok()) {
    Finish(absl::Status(resolved.status().code(),
                        absl::StrCat("connect ", address_.ToString(), ": ",
                                     resolved.status().message())));
    return;
  }
  candidates_ = *std::move(resolved);
  TryNext();
}

void TcpConnector::OnTimer() {
  if (socket_.valid()) {
    Failed(absl::DeadlineExceededError(
        "no answer in time - is the address right, is the host up, does a "
        "firewall drop packets?"));
  } else {
    Finish(absl::DeadlineExceededError(
        absl::StrCat("connect ", address_.ToString(),
                     ": the name service did not answer "
                     "within ",
                     absl::FormatDuration(options_.timeout),
                     "; use a numeric address or a longer timeout")));
  }
}

void TcpConnector::TryNext() {
  while (next_ < candidates_.size()) {
    const absl::Duration left = deadline_ - reactor_->Now();
    const auto remaining = static_cast<int64_t>(candidates_.size() - next_);
    absl::Status started = StartOne(candidates_[next_++]);
    if (started.ok()) {
      timer_.ScheduleAfter(left / remaining);
      return;
    }
    failures_.push_back(std::move(started));
    DropSocket();
  }
  Finish(Summary());
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
    Failed(status);
    return;
  }
  timer_.Cancel();
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

void TcpConnector::Failed(const absl::Status& why) {
  timer_.Cancel();
  failures_.push_back(why);
  DropSocket();
  TryNext();
}

void TcpConnector::Finish(absl::StatusOr<Endpoint> result) {
  // The callback may destroy this attempt.
  ConnectCallback done = std::move(done_);
  done(std::move(result));
}

absl::Status TcpConnector::Summary() const {
  if (failures_.size() == 1) {
    return absl::Status(failures_[0].code(),
                        absl::StrCat("connect ", address_.ToString(), ": ",
                                     failures_[0].message()));
  }
  std::string message =
      absl::StrCat("connect ", address_.ToString(), ": none of its ",
                   candidates_.size(), " addresses answered");
  for (size_t i = 0; i < failures_.size(); ++i) {
    absl::StrAppend(&message, i == 0 ? ": " : "; ", candidates_[i].ToString(),
                    ": ", failures_[i].message());
  }
  return absl::UnavailableError(message);
}

}  // namespace skiff::transport
