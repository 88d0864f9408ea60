/// @file
/// The target: logical units, the names that they are served under, and the
/// portals by which initiators come.
#ifndef SKIFF_TARGET_HPP_
#define SKIFF_TARGET_HPP_

#include <skiff/target.h>

#include <cstdint>
#include <memory>
#include <skiff/backend.hpp>
#include <skiff/context.hpp>
#include <skiff/status.hpp>
#include <string>
#include <utility>
#include <vector>

namespace skiff {

/// The members of skiff_lun_options.
struct LunOptions : skiff_lun_options {
  LunOptions() : skiff_lun_options(internal::Init<skiff_lun_options>()) {}
};
/// The members of skiff_server_options.
struct ServerOptions : skiff_server_options {
  ServerOptions()
      : skiff_server_options(internal::Init<skiff_server_options>()) {}
};

/// What skiff_lun_info tells, of which the commonest strings are kept.
struct LunInfo : skiff_lun_info {
  explicit LunInfo(const skiff_lun_info& info)
      : skiff_lun_info(info),
        medium_words(info.medium),
        serial_number(info.serial),
        why_data_loss(info.data_loss) {
    medium = serial = data_loss = nullptr;
  }
  std::string medium_words;   ///< In place of `medium`, which is NULL.
  std::string serial_number;  ///< Of `serial`.
  std::string why_data_loss;  ///< Of `data_loss`.
};

/// A SCSI target: logical units under one name. Move-only.
class Target {
 public:
  /// `name` is an iSCSI name. `access` may be NULL: everybody may do
  /// everything. Its `user` has to stay until the target is closed.
  static Result<Target> Create(Context& context, const char* name,
                               const skiff_access_ops* access = nullptr) {
    Target made;
    const int result =
        skiff_target_create(context.get(), name, access, &made.target_);
    if (result < 0) return Status::Last(result);
    return made;
  }

  Target(Target&& other) noexcept
      : target_(std::exchange(other.target_, nullptr)) {}
  Target& operator=(Target&& other) noexcept {
    if (this != &other) {
      End();
      target_ = std::exchange(other.target_, nullptr);
    }
    return *this;
  }
  /// Removes its logical units, and blocks until that is over, so that their
  /// media may go. Where it must not block, they go a little later. Where a
  /// server still serves it, it stays, without logical units.
  ~Target() { End(); }

  /// Ends it, with the logical units that are left. EBUSY: a server serves it.
  /// Does not wait: to know that media are free, remove logical units before.
  Status Close() {
    const int result = skiff_target_close(target_);
    if (result < 0) return Status::Last(result);
    target_ = nullptr;
    return Status();
  }

  /// Serves a medium, which has to stay until the logical unit was removed.
  Status AddLun(uint64_t lun, Medium& medium, const LunOptions& options = {}) {
    skiff_lun_options plain = options;
    plain.struct_size = sizeof(plain);
    return Status::Last(
        skiff_target_add_lun(target_, lun, medium.get(), &plain));
  }
  /// Removes it: blocks, or calls `done` with the Status once nothing is in
  /// flight any more.
  template <typename... Done>
  Status RemoveLun(uint64_t lun, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_target_remove_lun(target_, lun, run, user);
        },
        std::forward<Done>(done)...);
  }
  /// All of them, ascending, with their counters. Does not block.
  Result<std::vector<LunInfo>> Luns() const {
    std::vector<LunInfo> luns;
    const int result = skiff_target_luns(
        target_,
        [](void* user, const skiff_lun_info* info) noexcept {
          static_cast<std::vector<LunInfo>*>(user)->emplace_back(*info);
          return 0;
        },
        &luns);
    if (result < 0) return Status::Last(result);
    return luns;
  }

  /// For calls of the interface for C. Stays the target's.
  skiff_target* get() const { return target_; }

 private:
  Target() = default;
  void End() noexcept {
    if (target_ == nullptr) return;
    const Result<std::vector<LunInfo>> luns = Luns();
    if (luns.ok()) {
      for (const LunInfo& one : *luns) {
        if (!RemoveLun(one.lun).ok()) break;
      }
    }
    static_cast<void>(Close());
    target_ = nullptr;
  }

  skiff_target* target_ = nullptr;
};

/// What skiff_session_info tells, with strings of its own.
struct SessionInfo {
  explicit SessionInfo(const skiff_session_info& info)
      : id(info.id),
        initiator(info.initiator),
        target(info.target),
        portal(info.portal),
        peer(info.peer),
        transport(info.transport),
        data_model(info.data_model),
        device(info.device),
        commands(info.commands),
        bytes_in(info.bytes_in),
        bytes_out(info.bytes_out),
        counts(info.counts) {}
  uint64_t id;  ///< For Server::DropSession().
  std::string initiator;
  std::string target;  ///< "": for discovery.
  std::string portal;  ///< Ours.
  std::string peer;
  std::string transport;
  std::string data_model;  ///< "iSCSI" or "iSER".
  std::string device;      ///< Of RDMA, else "".
  uint64_t commands;
  uint64_t bytes_in;  ///< Payload.
  uint64_t bytes_out;
  skiff_command_counts counts;  ///< Of commands that got to a logical unit.
};

/// Serves targets by portals. Move-only. Targets have to stay until it was
/// closed, or they were removed: declare it after them.
class Server {
 public:
  static Result<Server> Create(Context& context,
                               const ServerOptions& options = {}) {
    Server made;
    skiff_server_options plain = options;
    plain.struct_size = sizeof(plain);
    const int result =
        skiff_server_create(context.get(), &plain, &made.server_);
    if (result < 0) return Status::Last(result);
    return made;
  }

  Server(Server&& other) noexcept
      : server_(std::exchange(other.server_, nullptr)) {}
  Server& operator=(Server&& other) noexcept {
    if (this != &other) {
      End();
      server_ = std::exchange(other.server_, nullptr);
    }
    return *this;
  }
  /// Drops its sessions without grace, and blocks until that is over. Where it
  /// must not block, that goes on without it.
  ~Server() { End(); }

  /// Opens a portal: "tcp://0.0.0.0:3260", "verbs://…", "auto://…". Returns
  /// the address with the port that was bound. See skiff_server_listen() for
  /// the thread.
  Result<std::string> Listen(const char* address) {
    char bound[256];
    const int result =
        skiff_server_listen(server_, address, bound, sizeof(bound));
    if (result < 0) return Status::Last(result);
    return std::string(bound);
  }
  /// Closes one. Its sessions go on. Blocks, or calls `done` with the Status,
  /// as do the next ones.
  template <typename... Done>
  Status ClosePortal(const char* address, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_server_close_portal(server_, address, run, user);
        },
        std::forward<Done>(done)...);
  }
  /// Serves a target, by all portals. `alias` is for people, and may be NULL.
  Status AddTarget(Target& target, const char* alias = nullptr) {
    return Status::Last(skiff_server_add_target(server_, target.get(), alias));
  }
  /// Serves it no more; drops its sessions after `grace_ms`.
  template <typename... Done>
  Status RemoveTarget(Target& target, uint32_t grace_ms, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_server_remove_target(server_, target.get(), grace_ms,
                                            run, user);
        },
        std::forward<Done>(done)...);
  }
  /// All sessions. Blocks.
  Result<std::vector<SessionInfo>> Sessions() const {
    std::vector<SessionInfo> sessions;
    const int result = skiff_server_sessions(
        server_,
        [](void* user, const skiff_session_info* info) noexcept {
          static_cast<std::vector<SessionInfo>*>(user)->emplace_back(*info);
          return 0;
        },
        nullptr, &sessions);
    if (result < 0) return Status::Last(result);
    return sessions;
  }
  /// Drops one. ENOENT: there is none of this number.
  template <typename... Done>
  Status DropSession(uint64_t id, Done&&... done) {
    return internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_server_drop_session(server_, id, run, user);
        },
        std::forward<Done>(done)...);
  }
  /// Ends it: initiators are asked to log out, and dropped after `grace_ms`.
  template <typename... Done>
  Status Close(uint32_t grace_ms, Done&&... done) {
    Status status = internal::Start(
        [&](skiff_done_fn run, void* user) {
          return skiff_server_close(server_, grace_ms, run, user);
        },
        std::forward<Done>(done)...);
    if (status.ok()) server_ = nullptr;
    return status;
  }

  /// For calls of the interface for C. Stays the server's.
  skiff_server* get() const { return server_; }

 private:
  Server() = default;
  void End() noexcept {
    if (server_ == nullptr || Close(0).ok()) return;
    skiff_server_close(server_, 0, skiff_ignore, nullptr);
    server_ = nullptr;
  }

  skiff_server* server_ = nullptr;
};

}  // namespace skiff

#endif  // SKIFF_TARGET_HPP_
