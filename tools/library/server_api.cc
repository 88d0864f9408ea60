// The functions of skiff/target.h that are about servers.

#include <skiff/target.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/library/error.h"
#include "tools/library/handle.h"
#include "tools/library/login_callbacks.h"
#include "tools/library/options.h"
#include "tools/library/server.h"

namespace {

using skiff::library::Context;
using skiff::library::Ending;
using skiff::library::Fail;
using skiff::library::Handles;
using skiff::library::Kind;
using skiff::library::LoginCallbacks;
using skiff::library::Pinned;
using skiff::library::ReadOptions;
using skiff::library::Server;
using skiff::library::Target;

absl::Duration GraceOf(uint32_t grace_ms) {
  return skiff::library::TimeOf(grace_ms, absl::ZeroDuration(),
                                absl::Hours(24 * 365));
}

// What all functions that take `done` have in common: `start` returns 0 where
// it was started, or a remembered error.
template <typename Start>
int WithEnding(skiff_server* server, skiff_done_fn done, void* user,
               const Start& start) {
  std::shared_ptr<Server> self;
  {
    const Pinned<Server> pinned(server);
    if (pinned.error() != 0) return pinned.error();
    self = pinned.Share();
  }
  Ending ending(self->context().get(), done, user);
  if (ending.error() != 0) return ending.error();
  if (const int error = start(self.get(), ending.done())) return error;
  return ending.Finish();
}

// 0, or a remembered error: the thread of the first reactor cannot be waited
// for.
int CheckMayListen(const Context& context) {
  if (context.OnReactor(0)) return 0;
  return context.CheckMayWait();
}

}  // namespace

int skiff_server_create(skiff_context* context,
                        const skiff_server_options* options,
                        skiff_server** server) {
  if (server == nullptr) {
    return Fail(EINVAL, "there is no place for the skiff_server: it is NULL");
  }
  *server = nullptr;
  const Pinned<Context> pinned(context);
  if (pinned.error() != 0) return pinned.error();
  skiff_server_options given;
  if (const int error = ReadOptions(options, "skiff_server_options", &given)) {
    return error;
  }
  std::shared_ptr<LoginCallbacks> logins;
  if (given.authenticator != nullptr) {
    const int error = LoginCallbacks::Create(*given.authenticator, &logins);
    if (error != 0) return error;
  }
  auto made = Server::Create(pinned.Share(), given, std::move(logins));
  if (!made.ok()) return Fail(made.status());
  void* const handle = Handles::Open(Kind::kServer, *std::move(made));
  if (handle == nullptr) return Fail(EMFILE, "there are too many handles");
  *server = static_cast<skiff_server*>(handle);
  return 0;
}

int skiff_server_answer_login(skiff_server* server, uint64_t login, int result,
                              const skiff_chap_account* account) {
  std::shared_ptr<Server> self;
  {
    const Pinned<Server> pinned(server);
    if (pinned.error() != 0) return pinned.error();
    self = pinned.Share();
  }
  return self->AnswerLogin(login, result, account);
}

int skiff_server_listen(skiff_server* server, const char* address, char* bound,
                        size_t bound_size) {
  std::shared_ptr<Server> self;
  {
    const Pinned<Server> pinned(server);
    if (pinned.error() != 0) return pinned.error();
    self = pinned.Share();
  }
  if (address == nullptr) return Fail(EINVAL, "the address is NULL");
  if ((bound == nullptr) != (bound_size == 0)) {
    return Fail(EINVAL,
                absl::StrCat("bound is ", bound == nullptr ? "" : "not ",
                             "NULL, and bound_size is ", bound_size));
  }
  if (const int error = CheckMayListen(*self->context())) return error;
  std::string text;
  if (const int error = self->Listen(address, &text)) return error;
  if (bound == nullptr) return 0;
  if (text.size() >= bound_size) {
    self->ClosePortal(text, {&skiff_ignore, nullptr});
    return Fail(ERANGE,
                absl::StrCat("bound has room for ", bound_size, " bytes, and ",
                             text, " needs ", text.size() + 1));
  }
  std::memcpy(bound, text.c_str(), text.size() + 1);
  return 0;
}

int skiff_server_close_portal(skiff_server* server, const char* address,
                              skiff_done_fn done, void* user) {
  return WithEnding(server, done, user, [&](Server* self, Ending::Done then) {
    if (address == nullptr) return Fail(EINVAL, "the address is NULL");
    return self->ClosePortal(address, then);
  });
}

int skiff_server_add_target(skiff_server* server, skiff_target* target,
                            const char* alias) {
  const Pinned<Server> pinned(server);
  if (pinned.error() != 0) return pinned.error();
  const Pinned<Target> served(target);
  if (served.error() != 0) return served.error();
  return pinned->AddTarget(served.Share(), alias == nullptr ? "" : alias);
}

int skiff_server_remove_target(skiff_server* server, skiff_target* target,
                               uint32_t grace_ms, skiff_done_fn done,
                               void* user) {
  return WithEnding(server, done, user, [&](Server* self, Ending::Done then) {
    const Pinned<Target> removed(target);
    if (removed.error() != 0) return removed.error();
    return self->RemoveTarget(&*removed, GraceOf(grace_ms), then);
  });
}

int skiff_server_sessions(skiff_server* server,
                          int (*each)(void* user,
                                      const skiff_session_info* info),
                          skiff_done_fn done, void* user) {
  return WithEnding(server, done, user, [&](Server* self, Ending::Done then) {
    if (each == nullptr) return Fail(EINVAL, "each is NULL");
    return self->ListSessions(each, user, then);
  });
}

int skiff_server_drop_session(skiff_server* server, uint64_t id,
                              skiff_done_fn done, void* user) {
  return WithEnding(server, done, user, [&](Server* self, Ending::Done then) {
    return self->DropSession(id, then);
  });
}

int skiff_server_close(skiff_server* server, uint32_t grace_ms,
                       skiff_done_fn done, void* user) {
  return WithEnding(server, done, user, [&](Server* self, Ending::Done then) {
    if (!Handles::Close(server)) {
      return Fail(EBADF, "the skiff_server was closed before");
    }
    return self->Close(GraceOf(grace_ms), then);
  });
}
