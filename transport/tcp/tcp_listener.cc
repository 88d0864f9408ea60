#include "transport/tcp/tcp_listener.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/net/socket_address.h"
#include "transport/system/errno_status.h"
#include "transport/system/spare_memory.h"
#include "transport/tcp/socket_options.h"
#include "transport/tcp/tcp_stream.h"

namespace skiff::transport {
namespace {

class TcpConnectionRequest final : public ConnectionRequest {
 public:
  explicit TcpConnectionRequest(ScopedFd socket) : socket_(std::move(socket)) {}
  ~TcpConnectionRequest() override { Reject({}); }

  std::string local_address() const override {
    return LocalAddress(socket_.get()).ToString();
  }
  std::string peer_address() const override {
    return PeerAddress(socket_.get()).ToString();
  }
  absl::Span<const uint8_t> private_data() const override { return {}; }

  void Accept(
      Reactor* home, const AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) override {
    auto make = [home, options, socket = std::move(socket_),
                 done = std::move(done)]() mutable {
      absl::Status status = SetConnectionOptions(socket.get(), options);
      if (!status.ok()) {
        done(std::move(status));
        return;
      }
      auto stream = TcpStream::Create(home, std::move(socket));
      if (stream.ok()) {
        done(Endpoint(*std::move(stream)));
      } else {
        done(stream.status());
      }
    };
    home->Post([home, make = std::move(make)]() mutable {
      const SpareMemory::Watch memory;
      try {
        home->newcomers().Add(std::move(make));
      } catch (const std::bad_alloc&) {
        // The connection ends with what was to make it.
      }
    });
  }

  void Reject(absl::Span<const uint8_t> /*private_data*/) override {
    if (!socket_.valid()) return;
    SetAbortiveClose(socket_.get());
    socket_.reset();
  }

 private:
  ScopedFd socket_;
};

absl::Status ListenError(const Address& address, int error_number) {
  std::string hint;
  if (error_number == EADDRINUSE) {
    hint = " - is another target running on this port?";
  } else if (error_number == EADDRNOTAVAIL) {
    hint = " - no interface of this machine has this address";
  } else if (error_number == EACCES) {
    hint = " - ports below 1024 need privileges";
  }
  return WithErrno(
      absl::ErrnoToStatus(error_number, absl::StrCat("cannot listen on ",
                                                     address.ToString(), hint)),
      error_number);
}

// A listening socket, or the errno of what failed.
absl::StatusOr<ScopedFd> Bind(const Address& address,
                              const SocketAddress& socket_address,
                              const TcpAddressOptions& tcp_options,
                              int backlog) {
  const int family = socket_address.family();
  ScopedFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ListenError(address, errno);
  // A restarted server need not wait for its old connections' TIME_WAIT.
  const int reuse = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  if (family == AF_INET6) {
    const int v6only = !socket_address.any_ipv6() || tcp_options.v6only ? 1 : 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
  }
  absl::Status status = SetBuffers(fd.get(), tcp_options);
  if (!status.ok()) return status;
  if (bind(fd.get(), socket_address.get(), socket_address.length) != 0 ||
      listen(fd.get(), backlog) != 0) {
    return ListenError(address, errno);
  }
  return fd;
}

// One that another process had, and that is as the options say; else a new one.
absl::StatusOr<ScopedFd> BindFirst(const Address& address,
                                   const TcpAddressOptions& tcp_options,
                                   const ListenOptions& options) {
  const int backlog = options.backlog;
  if (options.inherited != nullptr) {
    ScopedFd inherited(options.inherited(address));
    if (inherited.valid()) return inherited;
  }
  auto candidates = Resolve(address.host, address.port);
  if (!candidates.ok()) return candidates.status();
  absl::StatusOr<ScopedFd> socket =
      absl::NotFoundError(absl::StrCat(address.host, " has no address"));
  for (const SocketAddress& candidate : *candidates) {
    socket = Bind(address, candidate, tcp_options, backlog);
    if (socket.ok()) break;
  }
  return socket;
}

// Errors of a connection that died in the backlog, or that a firewall forbids;
// the listener itself is well (accept(2), "Error handling").
bool ConcernsOneConnection(int error_number) {
  switch (error_number) {
    case ECONNABORTED:
    case EINTR:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Create(
    Reactor* reactor, const Address& address, const ListenOptions& options,
    const TcpOptions& settings, AcceptCallback on_request) {
  auto tcp_options = ParseTcpOptions(address);
  if (!tcp_options.ok()) return tcp_options.status();
  absl::Status status = CheckListen(address, options);
  if (!status.ok()) return status;
  auto socket = BindFirst(address, *tcp_options, options);
  if (!socket.ok()) return socket.status();
  const int fd = socket->get();
  std::unique_ptr<TcpListener> listener(
      new TcpListener(reactor, address, options, settings, *std::move(socket),
                      std::move(on_request)));
  status = reactor->WatchFd(fd, EPOLLIN, listener.get());
  if (!status.ok()) return status;
  return listener;
}

TcpListener::TcpListener(Reactor* reactor, Address address,
                         const ListenOptions& options,
                         const TcpOptions& settings, ScopedFd socket,
                         AcceptCallback on_request)
    : reactor_(reactor),
      address_(std::move(address)),
      on_trouble_(options.on_trouble),
      settings_(settings),
      socket_(std::move(socket)),
      on_request_(std::move(on_request)),
      resume_(reactor, [this] {
        // Cannot fail for a descriptor that is watched.
        reactor_->ModifyFd(socket_.get(), EPOLLIN).IgnoreError();
      }) {
  address_.port = LocalAddress(socket_.get()).port();
}

TcpListener::~TcpListener() {
  *destroyed_ = true;
  // The kernel resets what is in the backlog.
  if (socket_.valid()) reactor_->UnwatchFd(socket_.get());
}

std::vector<ListeningDescriptor> TcpListener::ReleaseDescriptors() {
  if (!socket_.valid()) return {};
  reactor_->UnwatchFd(socket_.get());
  resume_.Cancel();
  return {{address_, socket_.Release()}};
}

void TcpListener::OnFdReady(uint32_t /*events*/) {
  reactor_->newcomers().Add(this);
}

bool TcpListener::RunAsNewcomer() {
  if (!socket_.valid()) return false;
  const std::shared_ptr<bool> destroyed = destroyed_;
  Newcomers& newcomers = reactor_->newcomers();
  // The descriptor is watched level-triggered: the rest comes next turn.
  const int limit = std::max(1, settings_.accepts_per_turn);
  for (int i = 0; i < limit && !*destroyed && socket_.valid(); ++i) {
    if (i > 0 && newcomers.OutOfTime()) break;
    ScopedFd connection(
        accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int problem = connection.valid() ? 0 : errno;
    if (problem == 0 && Take(std::move(connection))) continue;
    if (problem == EAGAIN || problem == EWOULDBLOCK) break;
    if (ConcernsOneConnection(problem)) continue;
    if (!*destroyed && socket_.valid()) {
      PauseAfter(problem == 0 ? ENOMEM : problem);
    }
    break;
  }
  return true;
}

// False if there was no memory for it.
bool TcpListener::Take(ScopedFd connection) {
  const SpareMemory::Watch memory;
  try {
    on_request_(std::make_unique<TcpConnectionRequest>(std::move(connection)));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void TcpListener::PauseAfter(int error_number) {
  // The descriptor stays readable, and would keep the reactor from sleeping.
  reactor_->ModifyFd(socket_.get(), 0).IgnoreError();
  resume_.ScheduleAfter(settings_.accept_pause);
  const absl::Time now = reactor_->Now();
  if (on_trouble_ == nullptr || now < next_complaint_) return;
  next_complaint_ = now + settings_.complaint_interval;
  const char* advice = "";
  if (error_number == EMFILE) {
    advice =
        "; raise the limit on open files (ulimit -n, LimitNOFILE= of systemd)";
  } else if (error_number == ENFILE) {
    advice = "; raise the system's limit on open files (sysctl fs.file-max)";
  }
  on_trouble_(absl::ErrnoToStatus(
      error_number,
      absl::StrCat("cannot accept connections for now, they wait", advice)));
}

}  // namespace skiff::transport
