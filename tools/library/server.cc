#include "tools/library/server.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"
#include "tools/library/options.h"
#include "transport/system/errno_status.h"

namespace skiff::library {
namespace {

// 0 is the default.
void Set(uint32_t given, uint32_t* limit) {
  if (given != 0) *limit = given;
}
void Set(uint32_t given_ms, absl::Duration never, absl::Duration* limit) {
  *limit = TimeOf(given_ms, *limit, never);
}

protocol::TargetServerOptions OptionsOf(const skiff_server_options& given,
                                        transport::LogSink log) {
  protocol::TargetServerOptions options;
  protocol::TargetServerLimits& limits = options.limits;
  Set(given.max_connections, &limits.connections.max_connections);
  Set(given.max_logins, &limits.connections.max_connections_in_login);
  Set(given.max_discovery_sessions, &limits.connections.max_discovery_sessions);
  Set(given.max_sessions_per_peer, &limits.connections.max_sessions_per_peer);
  Set(given.queue_depth, &limits.session.queue_depth);
  // Some limits are none at zero.
  constexpr absl::Duration kOff = absl::ZeroDuration();
  const absl::Duration forever = absl::InfiniteDuration();
  Set(given.login_timeout_ms, forever, &limits.login_timeout);
  Set(given.ping_interval_ms, kOff, &limits.session.nop_interval);
  Set(given.ping_timeout_ms, forever, &limits.session.nop_timeout);
  Set(given.send_timeout_ms, forever, &limits.send_timeout);
  Set(given.data_timeout_ms, kOff, &limits.session.data_out_timeout);
  Set(given.backend_patience_ms, forever, &limits.backend_patience);
  Set(given.listen_retry_ms, kOff, &limits.listen_retry_interval);
  limits.memory_budget = given.memory_budget;
  if (given.buffer_bytes != 0) {
    options.worker.buffer_pool_bytes = given.buffer_bytes;
  }
  options.log = std::move(log);
  return options;
}

// On the thread of the first reactor.
class Deleter {
 public:
  explicit Deleter(const std::shared_ptr<Context>& context)
      : use_(std::make_shared<Context::Use>(context, Kind::kServer)) {}
  void operator()(protocol::TargetServer* server) const {
    const std::shared_ptr<Context>& context = use_->context();
    if (context->OnReactor(0)) {
      delete server;
    } else {
      context->Post(0, [server, use = use_] { delete server; });
    }
  }

 private:
  std::shared_ptr<Context::Use> use_;
};

skiff_session_info InfoOf(const protocol::SessionInfo& session) {
  skiff_session_info info = {};
  info.id = session.id;
  info.initiator = session.initiator_name.c_str();
  info.initiator_alias = session.initiator_alias.c_str();
  info.target = session.target_name.c_str();
  info.portal = session.portal.c_str();
  info.peer = session.peer.c_str();
  info.transport = session.connection.transport.c_str();
  info.data_model = session.connection.data_model.c_str();
  info.device = session.connection.device.c_str();
  static_assert(sizeof(info.isid) == sizeof(session.isid));
  std::copy(session.isid.begin(), session.isid.end(), info.isid);
  info.tsih = session.tsih;
  info.commands = session.commands;
  info.bytes_in = session.bytes_in;
  info.bytes_out = session.bytes_out;
  info.wire_bytes_in = session.connection.counters.bytes_in;
  info.wire_bytes_out = session.connection.counters.bytes_out;
  info.counts = CountsOf(session.counts);
  info.authenticated_as = session.authenticated_as.c_str();
  return info;
}

int FailToListen(const absl::Status& status) {
  const int error = transport::ErrnoOf(status);
  return error != 0 ? Fail(error, status.message()) : Fail(status);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Server>> Server::Create(
    const std::shared_ptr<Context>& context,
    const skiff_server_options& options,
    std::shared_ptr<LoginCallbacks> logins) {
  protocol::TargetServerOptions given = OptionsOf(options, context->log());
  given.capture = context->capture();
  given.authenticator = logins;
  auto made = protocol::TargetServer::Create(context->registry(),
                                             context->reactors(), given);
  if (!made.ok()) return made.status();
  return std::shared_ptr<Server>(
      new Server(context,
                 std::shared_ptr<protocol::TargetServer>(made->release(),
                                                         Deleter(context)),
                 std::move(logins)));
}

std::shared_ptr<protocol::TargetServer> Server::server() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (server_ == nullptr) Fail(EBADF, "the skiff_server was closed before");
  return server_;
}

int Server::Listen(absl::string_view address, std::string* bound) {
  const auto parsed = transport::Address::Parse(address);
  if (!parsed.ok()) return Fail(parsed.status());
  const auto found = context_->registry()->Find(parsed->scheme);
  if (!found.ok()) return Fail(EPROTONOSUPPORT, found.status().message());
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  absl::StatusOr<transport::Address> listening =
      absl::InternalError("not listening");
  context_->RunAndWait(0, [&] { listening = server->Listen(*parsed); });
  if (!listening.ok()) return FailToListen(listening.status());
  *bound = listening->ToString();
  const std::lock_guard<std::mutex> lock(mutex_);
  portals_.push_back({std::string(address), *std::move(listening)});
  return 0;
}

int Server::ClosePortal(absl::string_view address, Ending::Done done) {
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  transport::Address bound;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(
        portals_.begin(), portals_.end(), [&](const Portal& portal) {
          return portal.asked == address || portal.bound.ToString() == address;
        });
    if (found == portals_.end()) {
      return Fail(ENOENT, absl::StrCat("no portal ", address, " is open"));
    }
    bound = found->bound;
    portals_.erase(found);
  }
  server->ClosePortal(bound,
                      [done](const absl::Status& status) { done(status); });
  return 0;
}

int Server::AddTarget(const std::shared_ptr<Target>& target,
                      absl::string_view alias) {
  if (target->context() != context_) {
    return Fail(EINVAL,
                "the skiff_target belongs to another context than the "
                "skiff_server");
  }
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  if (const int error = target->BeginServing()) return error;
  // Whoever closes the server must find all its targets.
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status status =
      server_ == nullptr
          ? absl::FailedPreconditionError("the skiff_server was closed before")
          : server->AddTarget(target->target(), alias);
  if (!status.ok()) {
    target->EndServing();
    return Fail(status);
  }
  targets_.push_back(target);
  return 0;
}

int Server::RemoveTarget(const Target* target, absl::Duration grace,
                         Ending::Done done) {
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  std::shared_ptr<Target> removed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(
        targets_.begin(), targets_.end(),
        [target](const auto& served) { return served.get() == target; });
    if (found == targets_.end()) {
      return Fail(ENOENT, absl::StrCat("the server does not serve ",
                                       target->target()->name()));
    }
    removed = std::move(*found);
    targets_.erase(found);
  }
  const std::string name(removed->target()->name());
  // Whoever is told may close the target, and then the context: nothing of it
  // is used any more when he is.
  server->RemoveTarget(
      name, grace,
      [removed = std::move(removed),
       done](absl::StatusOr<std::shared_ptr<scsi::Target>> result) mutable {
        const absl::Status status = result.status();
        result = absl::CancelledError();
        removed->EndServing();
        removed.reset();
        done(status);
      });
  return 0;
}

int Server::ListSessions(EachSession each, void* user, Ending::Done done) {
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  server->ListSessions(
      [each, user, done](const std::vector<protocol::SessionInfo>& sessions) {
        int result = 0;
        for (const protocol::SessionInfo& session : sessions) {
          const skiff_session_info info = InfoOf(session);
          result = each(user, &info);
          if (result != 0) break;
        }
        done(result, "");
      });
  return 0;
}

int Server::DropSession(uint64_t id, Ending::Done done) {
  const auto server = this->server();
  if (server == nullptr) return -EBADF;
  server->DropSession(id, absl::ZeroDuration(),
                      [done](const absl::Status& status) { done(status); });
  return 0;
}

int Server::AnswerLogin(uint64_t login, int result,
                        const skiff_chap_account* account) {
  if (logins_ == nullptr) {
    return Fail(EINVAL, "the skiff_server has no authenticator");
  }
  return logins_->Answer(login, result, account);
}

int Server::Close(absl::Duration grace, Ending::Done done) {
  std::shared_ptr<protocol::TargetServer> server;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    server = std::move(server_);
    server_ = nullptr;
  }
  protocol::TargetServer* const closing = server.get();
  // Whoever is told may close the targets, and then the context: nothing of
  // them is used any more when he is.
  closing->Shutdown(grace, [self = shared_from_this(),
                            server = std::move(server), done]() mutable {
    const std::shared_ptr<Context> context = self->context_;
    // Later, so that the server does not go while it calls.
    context->Post(0, [self = std::move(self), server = std::move(server),
                      done]() mutable {
      server.reset();
      std::vector<std::shared_ptr<Target>> targets;
      {
        const std::lock_guard<std::mutex> lock(self->mutex_);
        targets.swap(self->targets_);
      }
      for (const auto& target : targets) target->EndServing();
      targets.clear();
      self.reset();
      done(0, "");
    });
  });
  return 0;
}

}  // namespace skiff::library
