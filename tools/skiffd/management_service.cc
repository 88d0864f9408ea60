#include "tools/skiffd/management_service.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "tools/common/module.h"
#include "tools/skiffd/management_calls.h"

namespace skiff::tools::skiffd {

absl::StatusOr<std::unique_ptr<ManagementService>> ManagementService::Start(
    const ManagementConfig& config, std::function<void()> wake,
    const transport::LogSink& log) {
  const absl::StatusOr<void*> start =
      LoadModule(kRpcModule, kStartRpcServer, "skiff-management");
  if (!start.ok()) return start.status();
  auto self = absl::WrapUnique(new ManagementService(std::move(wake)));
  RpcServer::Options options;
  options.socket = config.socket;
  options.mode = config.mode;
  options.user = config.uid;
  options.group = config.gid;
  std::string error;
  self->server_.reset(reinterpret_cast<StartRpcServer>(*start)(
      options,
      [raw = self.get()](std::string method, std::string request,
                         RpcServer::Reply reply) {
        {
          const std::lock_guard<std::mutex> lock(raw->mutex_);
          raw->calls_.push_back(
              {std::move(method), std::move(request), std::move(reply)});
        }
        raw->wake_();
      },
      [log](const std::string& message) {
        if (log != nullptr) log(transport::LogLevel::kWarning, message);
      },
      &error));
  if (self->server_ == nullptr) return absl::UnavailableError(error);
  return self;
}

void ManagementService::Answer(Controls* controls) {
  std::vector<Call> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(calls_);
  }
  for (const Call& call : calls) {
    call.reply(AnswerCall(call.method, call.request, controls));
  }
}

}  // namespace skiff::tools::skiffd
