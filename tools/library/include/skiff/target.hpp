/// @file
/// The target: logical units, the names that they are served under, and the
/// portals by which initiators come.
#ifndef SKIFF_TARGET_HPP_
#define SKIFF_TARGET_HPP_

#include <skiff/target.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <skiff/backend.hpp>
#include <skiff/context.hpp>
#include <skiff/status.hpp>
#include <string>
#include <string_view>
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

/// A rule of who may come in, and what he sees: as skiff_access_rule.
struct AccessRule {
  std::string initiator;               ///< Empty: everybody fits.
  std::string authenticated_as;        ///< Empty: everybody fits.
  std::vector<std::string> addresses;  ///< Empty: everybody fits.
  /// Nothing: all, under the target's numbers.
  std::optional<std::vector<skiff_access_lun>> luns;
  bool read_only = false;  ///< Writes fail.
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

  /// Rules in place of callbacks; who fits none may not come in.
  static Result<Target> Create(Context& context, const char* name,
                               const std::vector<AccessRule>& rules) {
    Target made;
    const int result = WithRules(
        rules, [&](const skiff_access_rule* const* plain, size_t count) {
          return skiff_target_create_with_rules(context.get(), name, plain,
                                                count, &made.target_);
        });
    if (result < 0) return Status::Last(result);
    return made;
  }
  /// Replaces all of them, also while initiators are logged in: as
  /// skiff_target_set_rules().
  Status SetRules(const std::vector<AccessRule>& rules) {
    return Status::Last(WithRules(
        rules, [&](const skiff_access_rule* const* plain, size_t count) {
          return skiff_target_set_rules(target_, plain, count);
        }));
  }
  /// Has the callbacks of `access` asked again for all who are logged in.
  Status ReviewAccess() {
    return Status::Last(skiff_target_review_access(target_));
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
  // Calls `call` with the rules as C has them.
  template <typename Call>
  static int WithRules(const std::vector<AccessRule>& rules, Call&& call) {
    std::vector<skiff_access_rule> plain;
    std::vector<std::vector<const char*>> addresses;
    std::vector<const skiff_access_rule*> pointers;
    plain.reserve(rules.size());
    addresses.reserve(rules.size());
    pointers.reserve(rules.size());
    for (const AccessRule& rule : rules) {
      std::vector<const char*>& texts = addresses.emplace_back();
      for (const std::string& one : rule.addresses) {
        texts.push_back(one.c_str());
      }
      skiff_access_rule& made =
          plain.emplace_back(internal::Init<skiff_access_rule>());
      if (!rule.initiator.empty()) made.initiator = rule.initiator.c_str();
      if (!rule.authenticated_as.empty()) {
        made.authenticated_as = rule.authenticated_as.c_str();
      }
      made.addresses = texts.data();
      made.address_count = texts.size();
      // Not NULL, also for none.
      static const skiff_access_lun kNone = {};
      if (rule.luns.has_value()) {
        made.luns = rule.luns->empty() ? &kNone : rule.luns->data();
        made.lun_count = rule.luns->size();
      }
      made.read_only = rule.read_only ? 1 : 0;
      pointers.push_back(&made);
    }
    return call(pointers.data(), pointers.size());
  }

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
        counts(info.counts),
        authenticated_as(info.authenticated_as) {}
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
  skiff_command_counts counts;   ///< Of commands that got to a logical unit.
  std::string authenticated_as;  ///< The name of CHAP; "": nobody asked.
};

/// A login that waits to hear who its user is. Any copy may answer, at any time
/// and on any thread; the first answer counts. See skiff_server_answer_login().
class Login {
 public:
  /// What skiff_authenticator_ops::find is told.
  Login(skiff_server* server, uint64_t id) : server_(server), id_(id) {}

  /// There is such a user, and this is his secret.
  Status Accept(std::string_view secret) const {
    return Accept(secret, nullptr, {});
  }
  /// The same. If he asks who the target is, it is `target_name`, by a secret
  /// of its own.
  Status Accept(std::string_view secret, const char* target_name,
                std::string_view target_secret) const {
    auto account = internal::Init<skiff_chap_account>();
    account.secret = secret.data();
    account.secret_size = secret.size();
    account.target_name = target_name;
    account.target_secret = target_secret.data();
    account.target_secret_size = target_secret.size();
    return Status::Last(skiff_server_answer_login(server_, id_, 0, &account));
  }
  /// There is no such user. Another negative errno: nobody can say.
  Status Refuse(int error = -ENOENT) const {
    return Status::Last(
        skiff_server_answer_login(server_, id_, error, nullptr));
  }

 private:
  skiff_server* server_;
  uint64_t id_;
};

/// Who has to authenticate himself, and by which secrets: derive from it. Its
/// functions run on threads of the context, on several at once where it has
/// several. They must not block or throw.
class Authenticator {
 public:
  Authenticator() = default;
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;
  virtual ~Authenticator() = default;

  /// SKIFF_CHAP_* for this login.
  virtual uint32_t Terms(const skiff_login_attempt& who) {
    static_cast<void>(who);
    return SKIFF_CHAP_ALL;
  }
  /// Who is called `chap_name`? Answers `login`, in here or later.
  virtual void Find(const skiff_login_attempt& who, const char* chap_name,
                    Login login) = 0;
};

/// Serves targets by portals. Move-only. Targets have to stay until it was
/// closed, or they were removed: declare it after them.
class Server {
 public:
  static Result<Server> Create(Context& context,
                               const ServerOptions& options = {}) {
    return Create(context, options, nullptr);
  }
  /// The same, in place of ServerOptions::authenticator. It is kept until the
  /// server's end; null: nobody has to authenticate himself.
  static Result<Server> Create(Context& context, const ServerOptions& options,
                               std::shared_ptr<Authenticator> authenticator) {
    Server made;
    skiff_server_options plain = options;
    plain.struct_size = sizeof(plain);
    auto ops = internal::Init<skiff_authenticator_ops>();
    if (authenticator != nullptr) {
      made.users_ = std::make_shared<Users>();
      made.users_->authenticator = std::move(authenticator);
      ops.terms = &Server::Terms;
      ops.find = &Server::Find;
      ops.user = made.users_.get();
      plain.authenticator = &ops;
    }
    const int result =
        skiff_server_create(context.get(), &plain, &made.server_);
    if (result < 0) return Status::Last(result);
    if (made.users_ != nullptr) made.users_->server = made.server_;
    return made;
  }

  Server(Server&& other) noexcept
      : server_(std::exchange(other.server_, nullptr)),
        users_(std::move(other.users_)) {}
  Server& operator=(Server&& other) noexcept {
    if (this != &other) {
      End();
      server_ = std::exchange(other.server_, nullptr);
      users_ = std::move(other.users_);
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
  /// The same, and calls `done` with a Result of them, on a thread of the
  /// context. Not if the call itself failed.
  template <typename Done>
  Status Sessions(Done&& done) const {
    using Held = internal::Gathering<SessionInfo, std::decay_t<Done>>;
    return Held::Start(
        [&](Held* held) {
          return skiff_server_sessions(
              server_,
              [](void* user, const skiff_session_info* info) noexcept {
                static_cast<Held*>(user)->all.emplace_back(*info);
                return 0;
              },
              &Held::Finish, held);
        },
        std::forward<Done>(done));
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
        Keeping(std::forward<Done>(done))...);
    if (!status.ok()) return status;
    server_ = nullptr;
    users_.reset();
    return status;
  }

  /// For calls of the interface for C. Stays the server's.
  skiff_server* get() const { return server_; }

 private:
  struct Users {
    std::shared_ptr<Authenticator> authenticator;
    skiff_server* server = nullptr;
  };

  static uint32_t Terms(void* user, const skiff_login_attempt* who) noexcept {
    return static_cast<Users*>(user)->authenticator->Terms(*who);
  }
  static void Find(void* user, const skiff_login_attempt* who,
                   const char* chap_name, uint64_t login) noexcept {
    const Users& users = *static_cast<Users*>(user);
    users.authenticator->Find(*who, chap_name, Login(users.server, login));
  }

  Server() = default;
  // `done`, which keeps what may be asked until it runs.
  template <typename Done>
  auto Keeping(Done&& done) const {
    return
        [users = users_, done = std::decay_t<Done>(std::forward<Done>(done))](
            Status status) mutable { std::move(done)(std::move(status)); };
  }
  void End() noexcept {
    if (server_ == nullptr || Close(0).ok()) return;
    // It must not block here.
    static_cast<void>(Close(0, [](const Status&) {}));
    server_ = nullptr;
    users_.reset();
  }

  skiff_server* server_ = nullptr;
  std::shared_ptr<Users> users_;
};

}  // namespace skiff

#endif  // SKIFF_TARGET_HPP_
