#ifndef SKIFF_TOOLS_LIBRARY_SERVER_H_
#define SKIFF_TOOLS_LIBRARY_SERVER_H_

#include <skiff/target.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "tools/library/context.h"
#include "tools/library/handle.h"
#include "tools/library/login_callbacks.h"
#include "tools/library/target.h"
#include "transport/address.h"

namespace skiff::library {

// Portals, and the targets behind them. Thread-safe.
class Server : public Object, public std::enable_shared_from_this<Server> {
 public:
  static constexpr Kind kKind = Kind::kServer;
  using EachSession = int (*)(void* user, const skiff_session_info* info);

  static absl::StatusOr<std::shared_ptr<Server>> Create(
      const std::shared_ptr<Context>& context,
      const skiff_server_options& options,
      std::shared_ptr<LoginCallbacks> logins);

  const transport::ForkDetector& fork_detector() const override {
    return context_->fork_detector();
  }
  const std::shared_ptr<Context>& context() const { return context_; }

  // Each returns 0, or a remembered error; `done` runs only after 0.
  //
  // On the thread of reactor 0, or where one may wait for it.
  int Listen(absl::string_view address, std::string* bound);
  int ClosePortal(absl::string_view address, Ending::Done done);
  int AddTarget(const std::shared_ptr<Target>& target, absl::string_view alias);
  int RemoveTarget(const Target* target, absl::Duration grace,
                   Ending::Done done);
  int ListSessions(EachSession each, void* user, Ending::Done done);
  int DropSession(uint64_t id, Ending::Done done);
  int AnswerLogin(uint64_t login, int result,
                  const skiff_chap_account* account);
  // Once.
  int Close(absl::Duration grace, Ending::Done done);

 private:
  // As it was asked for, and as it is.
  struct Portal {
    std::string asked;
    transport::Address bound;
  };

  Server(std::shared_ptr<Context> context,
         std::shared_ptr<protocol::TargetServer> server,
         std::shared_ptr<LoginCallbacks> logins)
      : context_(std::move(context)),
        logins_(std::move(logins)),
        server_(std::move(server)) {}

  // Null once it is closed: the error is remembered.
  std::shared_ptr<protocol::TargetServer> server();

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<LoginCallbacks> logins_;  // Null: nobody is asked.
  std::mutex mutex_;
  // Under `mutex_`. Goes on the thread of reactor 0, and with it what keeps the
  // context open.
  std::shared_ptr<protocol::TargetServer> server_;
  std::vector<std::shared_ptr<Target>> targets_;  // Under `mutex_`.
  std::vector<Portal> portals_;                   // Under `mutex_`.
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_SERVER_H_
